use super::*;
use jiff::Timestamp;
use karpenter_api::Time;
use serde_json::{Value, json};

fn claim(requests: Value, capacity: Value) -> NodeClaim {
    let mut claim: NodeClaim = serde_json::from_value(json!({
        "metadata": {"name": "c"},
        "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "resources": {"requests": requests}},
        "status": {"capacity": capacity},
    }))
    .unwrap();
    claim.conditions_at(Timestamp::UNIX_EPOCH).set_true(INITIALIZED);
    claim
}

fn node(capacity: Value) -> Node {
    serde_json::from_value(json!({"status": {"capacity": capacity}})).unwrap()
}

#[test]
fn a_node_under_nine_tenths_of_what_was_bought_is_an_issue() {
    // covers: LC-CONS-03, LC-CONS-04
    let expected = json!({"cpu": "4", "memory": "16Gi", "pods": "0"});
    let asked = json!({"cpu": "1", "memory": "1Gi", "pods": "3"});
    for (requests, found, want) in [
        (asked.clone(), json!({"cpu": "4", "memory": "16Gi"}), vec![]),
        (asked.clone(), json!({"cpu": "3600m", "memory": "15Gi"}), vec![]),
        (
            asked.clone(),
            json!({"cpu": "4", "memory": "12Gi"}),
            vec!["expected 16Gi of resource memory, but found 12Gi (75.0% of expected)"],
        ),
        (asked, json!({"memory": "16Gi"}), vec!["expected 4 of resource cpu, but found 0 (0.0% of expected)"]),
        (json!({"cpu": "0"}), json!({}), vec![]),
        (json!({"example.com/unknown": "1"}), json!({}), vec![]),
    ] {
        assert_eq!(issues(&claim(requests.clone(), expected.clone()), &node(found)), want, "{requests}");
    }
}

#[test]
fn claims_that_come_or_go_always_pass() {
    // covers: LC-CONS-02
    let short = || claim(json!({"cpu": "1"}), json!({"cpu": "4"}));
    let small = node(json!({"cpu": "1"}));
    assert_eq!(issues(&short(), &small).len(), 1);
    let mut going = short();
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert!(issues(&going, &small).is_empty());
    let mut coming = short();
    coming.status.as_mut().unwrap().conditions = None;
    assert!(issues(&coming, &small).is_empty());
}
