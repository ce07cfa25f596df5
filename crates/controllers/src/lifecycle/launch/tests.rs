use std::collections::BTreeMap;

use super::*;
use karpenter_core::Quantity as Amount;
use karpenter_provider::ProviderError;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn machine() -> Machine {
    Machine {
        provider_id: "aws:///a/i-1".into(),
        image_id: "ami-1".into(),
        labels: map(&[("zone", "a"), ("team", "provider's")]),
        annotations: map(&[("hash", "provider's")]),
        capacity: Resources::from_iter([("cpu", Amount::from_units(4))]),
        allocatable: Resources::from_iter([("cpu", Amount::from_milli(3_910))]),
        instance_type: "m7i.xlarge".into(),
        zone: "a".into(),
        capacity_type: "spot".into(),
        launched_at: at(0),
        deleting: false,
        node_claim: None,
        node_pool: None,
        node_class: None,
        cluster: None,
    }
}

fn claim() -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.name = Some("default-x".into());
    claim.metadata.creation_timestamp = Some(karpenter_api::Time(at(0)));
    claim.metadata.generation = Some(1);
    claim
}

#[test]
fn a_claim_is_launched_until_it_says_so() {
    // covers: LC-LAUNCH-02, LC-LAUNCH-03, LC-LAUNCH-08
    let machine = machine();
    let mut claim = claim();
    assert_eq!(next(&claim, None), Step::Create, "no condition yet");
    claim.conditions_at(at(1)).set_unknown(LAUNCHED, "LaunchFailed", "no");
    assert_eq!(next(&claim, None), Step::Create);
    assert_eq!(next(&claim, Some(&machine)), Step::Adopt(&machine), "never twice within a process");
    claim.conditions_at(at(2)).set_true(LAUNCHED);
    assert_eq!(next(&claim, None), Step::Settled);
    assert_eq!(next(&claim, Some(&machine)), Step::Settled);
    claim.conditions_at(at(3)).set_false(LAUNCHED, "Broken", "");
    assert_eq!(next(&claim, None), Step::Settled);
}

#[test]
fn the_claim_takes_what_the_provider_knows() {
    // covers: LC-LAUNCH-04
    let mut claim = claim();
    claim.metadata.labels = Some(map(&[("team", "user's"), ("pool", "default")]));
    claim.metadata.annotations = Some(map(&[("hash", "old"), ("mine", "kept")]));
    populate(&mut claim, &machine(), at(10));
    let labels = claim.metadata.labels.as_ref().unwrap();
    assert_eq!(*labels, map(&[("team", "user's"), ("pool", "default"), ("zone", "a")]), "the claim's labels win");
    let annotations = claim.metadata.annotations.as_ref().unwrap();
    assert_eq!(*annotations, map(&[("hash", "provider's"), ("mine", "kept")]), "the provider's annotations win");
    let status = claim.status.as_ref().unwrap();
    assert_eq!(status.provider_id.as_deref(), Some("aws:///a/i-1"));
    assert_eq!(status.image_id.as_deref(), Some("ami-1"));
    assert_eq!(status.capacity.as_ref().unwrap()["cpu"].0, "4");
    assert_eq!(status.allocatable.as_ref().unwrap()["cpu"].0, "3910m");
    let launched = claim.condition(LAUNCHED).unwrap();
    assert_eq!((launched.status.as_str(), launched.reason.as_str()), ("True", "Launched"));
}

#[test]
fn what_cannot_be_bought_is_given_up() {
    // covers: LC-LAUNCH-05, LC-LAUNCH-06, API-NC-08
    let mut claim = claim();
    let none = LaunchError::InsufficientCapacity { message: "all offerings unavailable".into() };
    let event = "NodeClaim default-x event: insufficient capacity: all offerings unavailable";
    let want = Failure::GiveUp { reason: "insufficient_capacity", event: Some(event.into()) };
    assert_eq!(fail(&mut claim, &none, at(1)), want);
    let class = LaunchError::NodeClassNotReady { message: "no subnets".into() };
    let want = Failure::GiveUp { reason: "nodeclass_not_ready", event: None };
    assert_eq!(fail(&mut claim, &class, at(1)), want);
    assert!(claim.status.is_none(), "no word of it in a claim that goes");
}

#[test]
fn other_errors_are_told_and_tried_again() {
    // covers: LC-LAUNCH-07, API-CD-20
    let told = |error: &LaunchError| {
        let mut claim = claim();
        assert_eq!(fail(&mut claim, error, at(7)), Failure::Retry);
        let launched = claim.condition(LAUNCHED).unwrap().clone();
        assert_eq!((launched.status.as_str(), launched.last_transition_time.0), ("Unknown", at(0)));
        (launched.reason, launched.message)
    };
    let own = LaunchError::create("creating fleet: denied", "Unauthorized", "a policy is missing");
    assert_eq!(told(&own), ("Unauthorized".into(), "a policy is missing".into()));
    let other = LaunchError::other("creating fleet", ProviderError::new("CreateFleet", "connection reset"));
    assert_eq!(told(&other).0, "LaunchFailed");
    assert!(told(&other).1.contains("connection reset"), "{}", told(&other).1);
    let throttled = LaunchError::Throttled { message: "slow".into() };
    assert_eq!(told(&throttled).0, "LaunchFailed");
}

#[test]
fn long_texts_are_cut_between_characters() {
    // covers: LC-LAUNCH-07
    assert_eq!(cut(&"a".repeat(299)), "a".repeat(299));
    assert_eq!(cut(&"a".repeat(300)), format!("{}...", "a".repeat(300)));
    assert_eq!(cut(&"a".repeat(5_000)).len(), 303);
    let text = format!("{}é{}", "a".repeat(299), "b".repeat(50));
    assert_eq!(cut(&text), format!("{}...", "a".repeat(299)));
}
