use super::*;
use crate::catalogue::RegionError;

#[test]
fn the_file_is_what_its_facts_are_written_as() {
    let parsed = compact::parse(TEXT).expect("readable");
    assert!(compact::write(&parsed) == TEXT, "catalogue.txt is stale: run `cargo xtask catalogue`");
    assert!(TEXT.len() < 600_000, "{} bytes", TEXT.len());
}

#[test]
fn it_knows_the_types_of_us_east_1() {
    let region = catalogue().region("us-east-1").unwrap();
    let types: Vec<_> = catalogue().for_sale(region).collect();
    assert!(types.len() > 1300, "{}", types.len());
    let m5 = catalogue().find("m5.large").unwrap();
    assert_eq!((m5.vcpus, m5.memory_mib, m5.network_mbps), (2, 8192, Some(750)));
    assert_eq!(m5.branch_limits.map(|limits| limits.branch_enis), Some(9));
    assert_eq!(region.on_demand_price("m5.large"), Some(MicroUsd(96_000)));
    assert_eq!(region.zones.len(), 6);
    assert!(region.spot_is_assumed());
}

#[test]
fn a_region_without_prices_says_what_to_do() {
    let error = catalogue().region("eu-west-1").unwrap_err();
    assert!(matches!(error, RegionError::NoPrices { .. }));
    let text = error.to_string();
    for part in ["eu-west-1", "--catalog", "us-east-1", "the built-in one, of 20"] {
        assert!(text.contains(part), "{text}");
    }
    // Priced, but nothing is known about its zones.
    assert!(matches!(catalogue().region("us-gov-west-1"), Err(RegionError::Unknown { .. })));
}

#[test]
fn prices_to_start_with_are_the_regions_own_or_those_of_us_east_1() {
    // covers: AWS-PRICE-01
    let price = |region: &str, name: &str| initial_on_demand_prices(region).get(name).copied();
    let own = ["us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"];
    let m5: Vec<_> = own.iter().map(|region| price(region, "m5.large")).collect();
    assert!(m5.iter().all(Option::is_some), "{m5:?}");
    assert!(m5[1] > m5[0] && m5[3] > m5[0], "their own, dearer lists: {m5:?}");
    for other in ["eu-west-1", "mars-north-1"] {
        assert_eq!(initial_on_demand_prices(other), initial_on_demand_prices("us-east-1"));
    }
}

#[test]
fn network_facts_cover_types_the_catalogue_no_longer_describes() {
    // covers: AWS-IT-27
    assert_eq!(network_facts("m5.24xlarge").baseline_mbps, Some(25_000));
    assert!(catalogue().find("p3.2xlarge").is_none());
    assert!(network_facts("p3.2xlarge").branch_limits.is_some());
    assert_eq!(network_facts("m1.small").baseline_mbps, None, "AWS only says Low");
    assert_eq!(network_facts("none.such"), NetworkFacts::default());
}
