use super::*;
use karpenter_api::labels::REGISTERED;
use serde_json::{Value, json};

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

fn claim(value: Value) -> NodeClaim {
    let mut base = json!({
        "metadata": {"name": "default-x", "uid": "claim-uid"},
        "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}},
    });
    for (section, fields) in value.as_object().unwrap() {
        base[section].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
    serde_json::from_value(base).unwrap()
}

fn taint(key: &str, value: &str, effect: &str) -> Value {
    json!({"key": key, "value": value, "effect": effect})
}

fn keys(node: &Node) -> Vec<(String, String)> {
    taints(node).iter().map(|taint| (taint.key.clone(), taint.value.clone().unwrap_or_default())).collect()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn a_node_gets_all_that_its_claim_says() {
    // covers: LC-REG-03, LC-REG-04
    let claim = claim(json!({
        "metadata": {"labels": {"team": "claim's", "pool": "default"}, "annotations": {"note": "claim's"}},
        "spec": {
            "taints": [taint("dedicated", "gpu", "NoSchedule"), taint("present", "claim's", "NoSchedule")],
            "startupTaints": [taint("booting", "", "NoExecute"), taint("present", "", "NoExecute")],
        },
    }));
    let mut node = node(json!({
        "metadata": {"name": "n", "labels": {"team": "kubelet's", "os": "linux"}, "finalizers": ["example.com/mine"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"}]},
        "spec": {"taints": [taint(UNREGISTERED_TAINT, "", "NoExecute"), taint("present", "node's", "NoSchedule")]},
    }));
    sync(&claim, &mut node);
    assert_eq!(node.metadata.finalizers.as_deref().unwrap(), ["example.com/mine", TERMINATION_FINALIZER]);
    let owner = &node.metadata.owner_references.as_ref().unwrap()[1];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("NodeClaim", "claim-uid"));
    assert_eq!((owner.api_version.as_str(), owner.block_owner_deletion), ("karpenter.sh/v1", Some(true)));
    let labels = node.metadata.labels.clone().unwrap();
    assert_eq!(labels["team"], "claim's");
    assert_eq!((labels["os"].as_str(), labels.get(REGISTERED)), ("linux", None));
    assert_eq!(node.metadata.annotations.as_ref().unwrap()["note"], "claim's");
    let want = [
        pair(UNREGISTERED_TAINT, ""),
        pair("present", "node's"),
        pair("dedicated", "gpu"),
        pair("booting", ""),
        pair("present", ""),
    ];
    assert_eq!(keys(&node), want, "matched on key and effect");

    let once = node.clone();
    sync(&claim, &mut node);
    assert_eq!(node, once, "nothing twice");
    complete(&mut node);
    assert_eq!(keys(&node), want[1..]);
    assert_eq!(node.metadata.labels.as_ref().unwrap()[REGISTERED], "true");
}

#[test]
fn taints_are_left_to_others_who_ask_for_it() {
    // covers: LC-REG-05
    let claim = claim(json!({"spec": {
        "taints": [taint("dedicated", "", "NoSchedule")], "startupTaints": [taint("booting", "", "NoExecute")]}}));
    for (value, want) in [("true", 0), ("True", 2), ("false", 2), ("", 2)] {
        let mut node = node(json!({"metadata": {"labels": {DO_NOT_SYNC_TAINTS: value}},
            "spec": {"taints": [taint(UNREGISTERED_TAINT, "", "NoExecute")]}}));
        sync(&claim, &mut node);
        complete(&mut node);
        assert_eq!(keys(&node).len(), want, "{value:?}: the unregistered taint goes in any case");
    }
}

#[test]
fn only_an_unregistered_node_can_lack_the_taint() {
    // covers: LC-REG-07, CP-C2
    for (labels, taints, want) in [
        (json!({}), json!([]), true),
        (json!({}), json!([taint(UNREGISTERED_TAINT, "", "NoSchedule")]), true),
        (json!({}), json!([taint(UNREGISTERED_TAINT, "", "NoExecute")]), false),
        (json!({REGISTERED: "true"}), json!([]), false),
    ] {
        let node = node(json!({"metadata": {"labels": labels}, "spec": {"taints": taints}}));
        assert_eq!(lacks_unregistered_taint(&node), want);
    }
}
