use std::sync::Arc;

use karpenter_api::ec2nodeclass::SubnetSelectorTerm as Term;
use serde_json::json;

use super::*;
use crate::calls::{FleetConfig, FleetInstances, FleetKind, Override, Tags};
use crate::testing::{Fake, ZONES, at, class, facts, types};
use karpenter_core::MicroUsd;

fn subnet(id: &str, zone: &str, free: i64) -> Subnet {
    Subnet { id: id.into(), zone: zone.into(), zone_id: "use1-az1".into(), free_addresses: free, tags: Tags::new() }
}

fn lab(found: Vec<Subnet>) -> (Arc<Fake>, Subnets, EC2NodeClass) {
    let fake = Arc::new(Fake::default());
    let mut class = class(json!({"subnetSelectorTerms": [{"tags": {"a": "1"}}]}));
    let listed = |found: &Subnet| karpenter_api::ec2nodeclass::Subnet {
        id: found.id.clone(),
        zone: found.zone.clone(),
        zone_id: None,
    };
    class.status.as_mut().unwrap().subnets = Some(found.iter().map(listed).collect());
    *fake.subnets.lock().unwrap() = found;
    let subnets = Subnets::new(fake.aws(), Duration::from_secs(60));
    (fake, subnets, class)
}

fn kinds(names: &[&str]) -> Vec<InstanceType> {
    types(&facts(), names).iter().map(|kind| InstanceType::clone(kind)).collect()
}

fn fleet(subnets: &[&str]) -> CreateFleet {
    let over = |id: &&str| Override {
        instance_type: "m5.large".into(),
        zone: ZONES[0].into(),
        subnet_id: (*id).into(),
        image_id: "ami".into(),
        priority: MicroUsd(0),
    };
    CreateFleet {
        client_token: None,
        dry_run: false,
        kind: FleetKind::OnDemand,
        total: 1,
        configs: vec![FleetConfig {
            template_name: "t".into(),
            version: "$Latest",
            overrides: subnets.iter().map(over).collect(),
        }],
        tags: Tags::new(),
        context: None,
        prioritized: false,
    }
}

#[test]
fn terms_become_queries() {
    // covers: AWS-SUBNET-01, AWS-SUBNET-12
    let mut class = class(json!({}));
    let tags = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    };
    class.spec.subnet_selector_terms = vec![
        Term { id: Some("subnet-1".into()), tags: tags(&[("ignored", "x")]) },
        Term { id: None, tags: tags(&[("a", "1"), ("b", "*")]) },
        Term { id: Some("subnet-2".into()), tags: None },
    ];
    let want = vec![
        vec![Filter::new("tag:a", ["1"]), Filter::new("tag-key", ["b"])],
        vec![Filter::new("subnet-id", ["subnet-1", "subnet-2"])],
    ];
    assert_eq!(queries(&class), want);
}

#[tokio::test]
async fn subnets_are_listed_by_free_addresses_and_remembered() {
    // covers: AWS-SUBNET-02, AWS-SUBNET-03, AWS-SUBNET-11
    let found = vec![subnet("c", ZONES[0], 5), subnet("b", ZONES[0], 9), subnet("a", ZONES[1], 5)];
    let (fake, subnets, class) = lab(found);
    let ids = |found: Vec<Subnet>| found.into_iter().map(|subnet| subnet.id).collect::<Vec<_>>();
    assert_eq!(ids(subnets.list(&class, at(0)).await.unwrap()), ["b", "a", "c"]);
    assert!(fake.asked()[0].starts_with("DescribeSubnets 500 "));
    subnets.list(&class, at(59)).await.unwrap();
    assert!(fake.asked().is_empty());
    subnets.list(&class, at(60)).await.unwrap();
    assert_eq!(fake.asked().len(), 1);
    let mut changed = class.clone();
    changed.metadata.generation = Some(2);
    subnets.list(&changed, at(61)).await.unwrap();
    assert_eq!(fake.asked().len(), 1, "another generation is another question");
}

#[tokio::test]
async fn launches_take_addresses_ahead_and_give_back_what_they_did_not_use() {
    // covers: AWS-SUBNET-05, AWS-SUBNET-06, AWS-SUBNET-07, AWS-SUBNET-08, AWS-SUBNET-09
    let found = vec![subnet("a", ZONES[0], 100), subnet("b", ZONES[0], 80), subnet("c", ZONES[1], 50)];
    let (_, subnets, class) = lab(found);
    subnets.list(&class, at(0)).await.unwrap();
    // m5.large runs 29 pods, m5.xlarge 58: the smaller counts.
    let types = kinds(&["m5.large", "m5.xlarge"]);
    let pick =
        |now| subnets.choose(&class, &types, "on-demand", at(now)).into_values().map(|s| s.id).collect::<Vec<_>>();
    assert_eq!(pick(1), ["a", "c"], "100 are more than 80");
    assert_eq!(pick(1), ["b", "c"], "71 are left there, so 80 are more");
    assert_eq!(pick(1), ["a", "c"], "71 are more than 51");
    let chosen = subnets.choose(&class, &types, "on-demand", at(1));
    assert_eq!(chosen[ZONES[0]].id, "b", "42 against 51");
    // The fleet went to the other zone: what was taken here is free again.
    let answer = FleetAnswer {
        fleet_id: "f".into(),
        instances: vec![FleetInstances {
            ids: vec!["i-1".into()],
            instance_type: "m5.large".into(),
            zone: ZONES[1].into(),
            subnet_id: Some("c".into()),
            image_id: None,
        }],
        errors: vec![],
    };
    subnets.give_back(&fleet(&["b", "c"]), Some(&answer), &chosen);
    assert_eq!(pick(1)[0], "b", "51 again, against 42");
    subnets.exhausted("a", at(2));
    subnets.exhausted("b", at(2));
    assert_eq!(pick(2)[0], "a", "a tie goes to the first of the status");
    let mut other = class.clone();
    other.metadata.generation = Some(2);
    subnets.list(&other, at(3)).await.unwrap();
    assert_eq!(pick(3)[0], "a", "EC2 was asked, so nothing is taken any more");
}

#[tokio::test]
async fn a_failed_call_gives_everything_back() {
    // covers: AWS-SUBNET-07, AWS-SUBNET-10
    let (_, subnets, mut class) = lab(vec![subnet("a", ZONES[0], 100), subnet("b", ZONES[0], 90)]);
    subnets.list(&class, at(0)).await.unwrap();
    let types = kinds(&["m5.large"]);
    for _ in 0..5 {
        let chosen = subnets.choose(&class, &types, "on-demand", at(1));
        assert_eq!(chosen[ZONES[0]].id, "a");
        subnets.give_back(&fleet(&["a"]), None, &chosen);
    }
    class.status.as_mut().unwrap().subnets = None;
    assert!(subnets.choose(&class, &types, "on-demand", at(1)).is_empty());
}

#[tokio::test]
async fn free_addresses_are_believed_for_five_minutes() {
    // covers: AWS-SUBNET-04
    let (_, subnets, class) = lab(vec![subnet("a", ZONES[0], 5), subnet("b", ZONES[0], 9)]);
    subnets.list(&class, at(0)).await.unwrap();
    let pick = |now| subnets.choose(&class, &[], "on-demand", at(now))[ZONES[0]].id.clone();
    assert_eq!(pick(299), "b");
    // Tracking starts anew as well: nothing is known of either.
    let (_, subnets, class) = lab(vec![subnet("a", ZONES[0], 5), subnet("b", ZONES[0], 9)]);
    subnets.list(&class, at(0)).await.unwrap();
    assert_eq!(subnets.choose(&class, &[], "on-demand", at(301))[ZONES[0]].id, "a", "the first of the status");
}

#[tokio::test]
async fn classes_with_subnets_of_their_own_do_not_meet() {
    // covers: AWS-SUBNET-13
    let (_, subnets, mut one) = lab(vec![subnet("a", ZONES[0], 50), subnet("b", ZONES[0], 40)]);
    subnets.list(&one, at(0)).await.unwrap();
    let mut other = one.clone();
    let own = |class: &mut EC2NodeClass, id: &str| {
        let listed = class.status.as_mut().unwrap().subnets.as_mut().unwrap();
        listed.retain(|subnet| subnet.id == id);
    };
    own(&mut one, "a");
    own(&mut other, "b");
    let types = kinds(&["m5.large"]);
    for _ in 0..5 {
        assert_eq!(subnets.choose(&one, &types, "on-demand", at(1))[ZONES[0]].id, "a");
        assert_eq!(subnets.choose(&other, &types, "on-demand", at(1))[ZONES[0]].id, "b");
    }
}
