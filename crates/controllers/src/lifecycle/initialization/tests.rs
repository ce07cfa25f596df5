use super::*;
use serde_json::{Value, json};

fn claim(requests: Value, startup: Value, annotations: Value) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": "c", "annotations": annotations},
        "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "startupTaints": startup,
            "resources": {"requests": requests}},
    }))
    .unwrap()
}

fn node(ready: &str, taints: Value, allocatable: Value) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n"},
        "spec": {"taints": taints},
        "status": {"allocatable": allocatable, "conditions": [
            {"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": ready}]},
    }))
    .unwrap()
}

fn plain() -> NodeClaim {
    claim(json!({"cpu": "1"}), json!([{"key": "booting", "value": "a", "effect": "NoExecute"}]), json!({}))
}

fn reason(claim: &NodeClaim, node: &Node) -> Option<&'static str> {
    check(claim, node, Some(&[])).err().map(|not_yet| not_yet.reason)
}

#[test]
fn checks_stop_at_the_first_that_fails() {
    // covers: LC-INIT-03, LC-INIT-05, API-CD-22
    let booting = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "booting", "value": "b", "effect": "NoExecute"}]);
    let said = |node: &Node| check(&plain(), node, Some(&[])).unwrap_err();
    let not_ready = said(&node("Unknown", booting.clone(), json!({})));
    assert_eq!((not_ready.reason, not_ready.message.as_str()), ("NodeNotReady", "Node status is NotReady"));
    let startup = said(&node("True", booting, json!({})));
    let message = "StartupTaint \"booting=b:NoExecute\" still exists";
    assert_eq!((startup.reason, startup.message.as_str()), ("StartupTaintsExist", message));
    let ephemeral = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "booting", "effect": "NoSchedule"}]);
    let ephemeral = said(&node("True", ephemeral, json!({})));
    let message = "KnownEphemeralTaint \"node.kubernetes.io/not-ready:NoSchedule\" still exists";
    assert_eq!((ephemeral.reason, ephemeral.message.as_str()), ("KnownEphemeralTaintsExist", message));
    let resource = said(&node("True", json!([]), json!({"cpu": "0"})));
    let message = "Resource \"cpu\" was requested but not registered";
    assert_eq!((resource.reason, resource.message.as_str()), ("ResourceNotRegistered", message));
    assert_eq!(check(&plain(), &node("True", json!([]), json!({"cpu": "100m"})), Some(&[])), Ok(()));
}

#[test]
fn taints_that_are_known_to_go_away() {
    // covers: LC-INIT-04
    for (key, effect, want) in [
        ("node.kubernetes.io/not-ready", "NoSchedule", true),
        ("node.kubernetes.io/not-ready", "NoExecute", true),
        ("node.kubernetes.io/unreachable", "NoSchedule", true),
        ("node.kubernetes.io/unreachable", "NoExecute", false),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule", true),
        ("karpenter.sh/unregistered", "NoExecute", true),
        ("karpenter.sh/unregistered", "NoSchedule", false),
        ("readiness.k8s.io/cni", "PreferNoSchedule", true),
        ("karpenter.sh/disrupted", "NoSchedule", false),
    ] {
        let taints = json!([{"key": key, "value": "whatever", "effect": effect}]);
        let found = reason(&plain(), &node("True", taints, json!({"cpu": "4"})));
        assert_eq!(found == Some("KnownEphemeralTaintsExist"), want, "{key}:{effect}");
    }
}

#[test]
fn requested_devices_must_be_allocatable() {
    // covers: LC-INIT-03
    for (requests, allocatable, want) in [
        (json!({"nvidia.com/gpu": "1"}), json!({"cpu": "4"}), false),
        (json!({"nvidia.com/gpu": "1"}), json!({"nvidia.com/gpu": "0"}), false),
        (json!({"nvidia.com/gpu": "8"}), json!({"nvidia.com/gpu": "1"}), true),
        (json!({"nvidia.com/gpu": "0"}), json!({}), true),
        (json!({}), json!({}), true),
    ] {
        let claim = claim(requests.clone(), json!([]), json!({}));
        let found = reason(&claim, &node("True", json!([]), allocatable.clone()));
        assert_eq!(found.is_none(), want, "{requests} of {allocatable}");
    }
}

fn slice(driver: &str, pool: &str, generation: i64, count: i64) -> ResourceSlice {
    serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": {"driver": driver, "nodeName": "n",
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count}}}))
    .unwrap()
}

#[test]
fn drivers_must_have_published_a_whole_pool() {
    // covers: LC-INIT-08
    let gpu = |generation, count| slice("gpu", "p", generation, count);
    for (what, drivers, slices, want) in [
        ("nothing asked for", "", vec![], None),
        ("blanks", " , ,", vec![], None),
        ("nothing there", "gpu", vec![], Some("gpu")),
        ("whole", " gpu ", vec![gpu(1, 1)], None),
        ("half", "gpu", vec![gpu(1, 2)], Some("gpu")),
        ("both halves", "gpu", vec![gpu(1, 2), gpu(1, 2)], None),
        ("the newest half", "gpu", vec![gpu(1, 1), gpu(2, 2)], Some("gpu")),
        ("older ones do not count", "gpu", vec![gpu(2, 2), gpu(1, 2), gpu(2, 2)], None),
        ("of another pool", "gpu", vec![gpu(1, 2), slice("gpu", "q", 1, 1)], None),
        ("none declared", "gpu", vec![gpu(1, 0)], Some("gpu")),
        ("the second driver", "gpu,nic", vec![gpu(1, 1)], Some("nic")),
    ] {
        let claim = claim(json!({}), json!([]), json!({REQUESTED_DRA_DRIVERS: drivers}));
        let found = check(&claim, &node("True", json!([]), json!({})), Some(&slices));
        let want = want.map(|driver| NotYet {
            reason: "DRADriverPoolsNotPublished",
            message: format!("DRA driver {driver:?} has not published a complete resource pool"),
        });
        assert_eq!(found.err(), want, "{what}");
        let ignored = check(&claim, &node("True", json!([]), json!({})), None);
        assert_eq!(ignored, Ok(()), "{what}: devices are not waited for");
    }
}

#[test]
fn slices_belong_to_a_node_by_name_or_owner() {
    // covers: LC-INIT-09
    let with = |value: Value| -> ResourceSlice {
        let mut slice = serde_json::to_value(slice("d", "p", 1, 1)).unwrap();
        slice["spec"].as_object_mut().unwrap().remove("nodeName");
        for (section, fields) in value.as_object().unwrap() {
            slice[section].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        }
        serde_json::from_value(slice).unwrap()
    };
    let owned = |kind: &str| {
        json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": kind, "name": "n", "uid": "u"}]}})
    };
    assert!(belongs_to(&with(json!({"spec": {"nodeName": "n"}})), "n"));
    assert!(!belongs_to(&with(json!({"spec": {"nodeName": "m"}})), "n"));
    assert!(belongs_to(&with(owned("Node")), "n"));
    assert!(!belongs_to(&with(owned("Pod")), "n"));
    assert!(!belongs_to(&with(json!({"spec": {"allNodes": true}})), "n"));
}
