use super::*;

const TYPE: &str = r#"{"name":"m5.large","as_of":"2026-10","arch":["x86_64"],"cpu_manufacturer":"Intel","clock_ghz":3.1,
"cpu_features":[],"vcpus":2,"memory_mib":8192,"hypervisor":"nitro","bare_metal":false,"usage_classes":["on-demand","spot"],
"ipv4_per_eni":10,"default_network_card":0,"network_cards":[{"max_enis":3,"baseline_mbps":750,"peak_mbps":10000}],
"network_mbps":750,"efa_max":0,"trunking":true,"branch_enis":9,"encryption_in_transit":false,"ebs_optimized":"default",
"ebs_max_mbps":4750,"local_disk_gb":0,"local_nvme_gb":0,"gpus":[],"accelerators":[],"placement_strategies":["spread"]}"#;

struct Files {
    types: String,
    prices: &'static str,
    china: Option<&'static str>,
    offerings: &'static str,
    zones: &'static str,
    spot: Option<&'static str>,
}

impl Files {
    fn good() -> Self {
        Self {
            types: format!("[{TYPE}]"),
            prices: "region,instance_type,usd_per_hour\nr-1,m5.large,0.096\n",
            china: None,
            offerings: "region,instance_type,zone_ids\nr-1,m5.large,id-1;id-2;id-unnamed\n",
            zones: "region,zone,zone_id\nr-1,r-1a,id-1\nr-1,r-1b,id-2\n",
            spot: None,
        }
    }

    fn parse(&self) -> Result<Catalogue, FileError> {
        super::parse(&CatalogueText {
            origin: "test",
            instance_types: &self.types,
            on_demand_prices: self.prices,
            on_demand_prices_cn: self.china,
            offerings: self.offerings,
            zones: self.zones,
            spot_prices: self.spot,
        })
    }
}

#[test]
fn files_become_a_catalogue() {
    let catalogue = Files::good().parse().unwrap();
    let m5 = catalogue.find("m5.large").unwrap();
    assert_eq!((m5.vcpus, m5.clock_mhz, m5.ena, m5.nitro_enclaves), (2, Some(3100), None, None));
    let region = catalogue.region("r-1").unwrap();
    assert_eq!(region.on_demand_price("m5.large"), Some(MicroUsd(96_000)));
    let zones: Vec<&str> = region.offered["m5.large"].iter().map(|zone| &**zone).collect();
    assert_eq!(zones, ["r-1a", "r-1b"], "zones without a name are none of ours");
    assert!(region.spot_is_assumed());
}

#[test]
fn spot_prices_and_china_are_optional() {
    let files = Files {
        spot: Some("region,instance_type,zone,usd_per_hour\r\nr-1,m5.large,r-1a,0.03\r\n\r\n"),
        china: Some("region,instance_type,cny_per_hour\ncn-1,m5.large,1.5\n"),
        ..Files::good()
    };
    let catalogue = files.parse().unwrap();
    let region = &catalogue.regions["r-1"];
    assert_eq!(region.spot_price("m5.large", "r-1a"), Some(MicroUsd(30_000)));
    assert_eq!(region.spot_price("m5.large", "r-1b"), None);
    assert!(!region.spot_is_assumed());
    assert_eq!(catalogue.regions["cn-1"].on_demand_price("m5.large"), Some(MicroUsd(1_500_000)));
}

#[test]
fn faults_name_file_place_and_field() {
    let record = |from: &str, to: &str| Files {
        types: format!("[{TYPE},{}]", TYPE.replace("m5.large", "m5.huge").replace(from, to)),
        ..Files::good()
    };
    let good = Files::good;
    for (files, want) in [
        (Files { types: "[{]".into(), ..good() }, "ec2-instance-types.json: key must be a string at line 1 column 3"),
        (record("\"vcpus\":2,", ""), "ec2-instance-types.json, record 1 (m5.huge): missing field `vcpus`"),
        (
            record("\"memory_mib\":8192", "\"memory_mib\":-1"),
            "ec2-instance-types.json, record 1 (m5.huge): invalid value: integer `-1`, expected u64",
        ),
        (
            record("\"default\"", "\"often\""),
            "ec2-instance-types.json, record 1 (m5.huge), ebs_optimized: \"often\" is none of default, supported, unsupported",
        ),
        (
            record("\"spot\"", "\"stop\""),
            "ec2-instance-types.json, record 1 (m5.huge), usage_classes: \"stop\" is none of on-demand, spot, capacity-block",
        ),
        (
            record("\"default_network_card\":0", "\"default_network_card\":1"),
            "ec2-instance-types.json, record 1 (m5.huge), default_network_card: there is no network card 1",
        ),
        (
            record("m5.huge", "m5.large"),
            "ec2-instance-types.json, record 1 (m5.large), name: stands here for the second time",
        ),
        (
            Files { prices: "region,type,usd\n", ..good() },
            "ec2-ondemand-prices.csv, line 1: want the header \"region,instance_type,usd_per_hour\", found \"region,type,usd\"",
        ),
        (
            Files { prices: "region,instance_type,usd_per_hour\nr-1,m5.large\n", ..good() },
            "ec2-ondemand-prices.csv, line 2: want 3 cells, found 2",
        ),
        (
            Files { prices: "region,instance_type,usd_per_hour\nr-1,m5.large,free\n", ..good() },
            "ec2-ondemand-prices.csv, line 2, usd_per_hour: \"free\" is not a price",
        ),
        (
            Files { prices: "region,instance_type,usd_per_hour\nr-1,m5.large,-1\n", ..good() },
            "ec2-ondemand-prices.csv, line 2, usd_per_hour: \"-1\" is not a price",
        ),
        (
            Files { prices: "region,instance_type,usd_per_hour\nr-1,a,1\n\nr-1,a,1\n", ..good() },
            "ec2-ondemand-prices.csv, line 4, instance_type: stands here for the second time",
        ),
        (
            Files { offerings: "region,instance_type,zone_ids\nr-1,,id-1\n", ..good() },
            "ec2-offerings.csv, line 2, instance_type: must not be empty",
        ),
        (
            Files { zones: "region,zone,zone_id\nr-1,r-1a,id-1\nr-1,r-1a,id-2\n", ..good() },
            "ec2-zones.csv, line 3, zone: stands here for the second time",
        ),
        (
            Files { spot: Some("region,instance_type,zone,usd_per_hour\nr-1,m5.large,r-1a,x\n"), ..good() },
            "ec2-spot-prices.csv, line 2, usd_per_hour: \"x\" is not a price",
        ),
    ] {
        assert_eq!(files.parse().unwrap_err().to_string(), want);
    }
}
