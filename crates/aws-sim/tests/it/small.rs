//! The region itself: what it is made of, and the small one for tests of single components.

use std::sync::Arc;
use std::time::Duration;

use karpenter_aws_sim::{Options, Region, Script, Target};
use karpenter_core::MicroUsd;
use karpenter_provider::CloudProvider;
use karpenter_provider_aws::calls::{CreateFleet, Filter, FleetConfig, FleetKind, Override};
use karpenter_provider_aws::{LiveObjects, Parts, Settings, Unobserved, prices};

use crate::lab::{Lab, on_demand, quiet};

fn region(options: Options) -> Region {
    Region::new(options, Arc::new(|| "2026-01-02T00:00:00Z".parse().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn what_is_sold_comes_from_its_catalogue_and_what_is_bought_stays_in_it() {
    // covers: AWS-SIM-01, AWS-SIM-02
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let aws = lab.region.aws();
    let sold = aws.ec2.describe_instance_types(100).await.unwrap();
    let names: Vec<&str> = sold.iter().map(|facts| &*facts.name).collect();
    let catalogue = lab.region.options().catalogue.clone();
    assert!(!names.is_empty() && names.iter().all(|name| catalogue.find(name).is_some()));
    let tagged = [Filter::new("tag:karpenter.sh/discovery", ["simulated"])];
    let subnets = aws.ec2.describe_subnets(&tagged, 100).await.unwrap();
    let machine = lab.provider.create(&on_demand("one")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    // Writes change instances, templates and tags, and nothing of what the region is.
    assert_eq!(aws.ec2.describe_instance_types(100).await.unwrap(), sold);
    let zones = |subnets: &[karpenter_provider_aws::calls::Subnet]| {
        subnets.iter().map(|subnet| (subnet.id.clone(), subnet.zone.clone())).collect::<Vec<_>>()
    };
    assert_eq!(zones(&aws.ec2.describe_subnets(&tagged, 100).await.unwrap()), zones(&subnets));
    let looks_like = |id: &str, prefix: &str| {
        let rest = id.strip_prefix(prefix).unwrap_or_else(|| panic!("{id} is no {prefix}"));
        rest.len() == 17 && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let instance = &lab.region.instances()[0].instance;
    assert!(machine.provider_id.ends_with(&instance.id) && looks_like(&instance.id, "i-"), "{}", instance.id);
    let templates = aws.ec2.describe_launch_templates(&Default::default()).await.unwrap();
    assert!(!templates.is_empty() && templates.iter().all(|template| looks_like(&template.id, "lt-")), "{templates:?}");
    let over = Override {
        instance_type: "m5.large".to_owned(),
        zone: subnets[0].zone.clone(),
        subnet_id: subnets[0].id.clone(),
        image_id: instance.image_id.clone(),
        priority: MicroUsd(0),
    };
    let config = FleetConfig { template_name: templates[0].name.clone(), version: "$Latest", overrides: vec![over] };
    let request = CreateFleet {
        client_token: None,
        dry_run: false,
        kind: FleetKind::OnDemand,
        total: 1,
        configs: vec![config],
        tags: Default::default(),
        context: None,
        prioritized: false,
    };
    let fleet = aws.ec2.create_fleet(&request).await.unwrap();
    assert!(fleet.fleet_id.starts_with("fleet-") && fleet.instances.len() == 1, "{fleet:?}");
}

#[tokio::test(start_paused = true)]
async fn a_small_region_has_little_of_everything() {
    // covers: AWS-SIM-18
    let region = region(Options::small(1));
    let ec2 = region.aws().ec2;
    let any = [Filter::new("tag:foo", ["bar"])];
    let subnets = ec2.describe_subnets(&any, 100).await.unwrap();
    let mut zones: Vec<(String, String, i64)> =
        subnets.into_iter().map(|subnet| (subnet.zone, subnet.zone_id, subnet.free_addresses)).collect();
    zones.sort();
    let want = [
        ("test-zone-1a", "tstz1-1a"),
        ("test-zone-1a-local", "tstz1-1alocal"),
        ("test-zone-1b", "tstz1-1b"),
        ("test-zone-1c", "tstz1-1c"),
    ];
    assert_eq!(zones, want.map(|(name, id)| (name.to_owned(), id.to_owned(), 100)));
    assert_eq!(ec2.describe_security_groups(&any, 100).await.unwrap().len(), 3);
    let one = [Filter::new("tag:Name", ["test-security-group-2"])];
    assert_eq!(ec2.describe_security_groups(&one, 100).await.unwrap()[0].id, "sg-test2");
    assert!(ec2.describe_security_groups(&[Filter::new("tag:foo", ["baz"])], 100).await.unwrap().is_empty());
    let types = ec2.describe_instance_types(100).await.unwrap();
    let names: Vec<&str> = types.iter().map(|facts| &*facts.name).collect();
    let want = [
        "c6g.large",
        "g4ad.16xlarge",
        "g4dn.8xlarge",
        "g5.12xlarge",
        "inf2.24xlarge",
        "inf2.xlarge",
        "m5.large",
        "m5.metal",
        "m5.xlarge",
        "m6idn.32xlarge",
        "m7i-flex.large",
        "p5.48xlarge",
        "t3.large",
        "t4g.medium",
        "t4g.small",
        "t4g.xlarge",
        "trn1.2xlarge",
    ];
    assert_eq!(names, want);
    // An error that strikes once.
    let target = Target::Call { operation: "DescribeSubnets", server_fault: false };
    region.script(Script::new(target, "UnauthorizedOperation", 1));
    assert_eq!(ec2.describe_subnets(&any, 100).await.unwrap_err().code, "UnauthorizedOperation");
    assert!(ec2.describe_subnets(&any, 100).await.is_ok());
    let record = region.requests();
    let asked: Vec<&str> = record.iter().map(|(operation, _)| *operation).collect();
    assert_eq!(asked[..2], ["DescribeSubnets", "DescribeSecurityGroups"]);
    assert_eq!(asked.len(), 7);
    assert!(record[2].1.contains("test-security-group-2"), "{record:?}");
}

#[tokio::test(start_paused = true)]
async fn a_small_region_tells_no_prices_and_wants_filters() {
    // covers: AWS-SIM-19
    let region = region(Options::small(1));
    let aws = region.aws();
    assert!(aws.ec2.describe_subnets(&[], 100).await.is_err());
    assert!(aws.ec2.describe_security_groups(&[], 100).await.is_err());
    assert!(prices::on_demand(&aws).await.is_err());
    assert!(prices::spot(&aws, region.now()).await.is_err());
    // So what is bundled applies.
    let settings = Settings::new("test-cluster", "https://test-cluster", "1.36");
    let server = karpenter_apiserver::ApiServer::new(karpenter_apiserver::Options::new());
    let client = kube::Client::new(server.service(), "default");
    let now = region.now();
    let reads = Arc::new(LiveObjects(client));
    let notices = Arc::new(crate::lab::Notices::default());
    let parts = Parts::new(aws.clone(), settings, Arc::new(move || now), reads, notices, Arc::new(Unobserved));
    parts.start().await.unwrap();
    let bundled = karpenter_ec2::catalogue::builtin::initial_on_demand_prices("us-west-2");
    assert_eq!(parts.types.market().region.on_demand_price("m5.large"), bundled.get("m5.large").copied());
    assert!(bundled.contains_key("m5.large"));
    region.tell_prices();
    assert!(!prices::on_demand(&aws).await.unwrap().is_empty());
    assert!(!prices::spot(&aws, region.now()).await.unwrap().is_empty());
}
