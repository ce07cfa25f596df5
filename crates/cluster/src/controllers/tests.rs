use super::{disruption, eviction, nodes, podgc, replicaset};
use crate::key::Key;
use crate::op::{Op, Step};
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// A world of these objects, versions counted up.
fn world(objects: &[(Kind, Value)]) -> World {
    let mut world = World::default();
    for (i, (kind, object)) in objects.iter().enumerate() {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!((i + 1).to_string());
        world.apply(kind.decode(&object.to_string()).unwrap());
    }
    world
}

fn pod(name: &str, extra: Value) -> (Kind, Value) {
    let mut pod = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1", "containers": []}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for (key, value) in extra.as_object().unwrap() {
        pod[key] = value.clone();
    }
    (Kind::Pod, pod)
}

fn node(taints: Value, ready: &str) -> (Kind, Value) {
    let metadata = json!({"name": "node-1", "uid": "n", "creationTimestamp": "1970-01-01T00:00:00Z",
        "annotations": {"node.alpha.kubernetes.io/ttl": "0"}});
    let node = json!({"metadata": metadata, "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": "1970-01-01T00:01:40Z"}]}});
    (Kind::Node, node)
}

fn deletes(step: &Step) -> usize {
    step.ops.iter().filter(|op| matches!(op, Op::Delete { .. })).count()
}

#[test]
fn taints_evict_at_once_later_or_never() {
    let taint =
        json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"}]);
    for (why, tolerations, deleted, after) in [
        ("nothing tolerated", json!([]), 1, None),
        ("tolerated for good", json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]), 0, None),
        (
            "five minutes, one of which has passed",
            json!([{"operator": "Exists", "tolerationSeconds": 300}]),
            0,
            Some(240),
        ),
        (
            "the shorter patience counts",
            json!([{"operator": "Exists", "tolerationSeconds": 300}, {"operator": "Exists", "tolerationSeconds": 30}]),
            1,
            None,
        ),
    ] {
        let spec = json!({"nodeName": "node-1", "containers": [], "tolerations": tolerations});
        let world = world(&[node(taint.clone(), "Unknown"), pod("p", json!({"spec": spec}))]);
        let step = eviction::step(&world, &Key::new("default", "p"), at(160));
        assert_eq!((deletes(&step), step.after), (deleted, after.map(Duration::from_secs)), "{why}");
    }
}

#[test]
fn a_node_not_heard_of_becomes_unknown_and_tainted() {
    let world = world(&[node(json!([]), "True"), pod("p", json!({}))]);
    let key = Key::cluster("node-1");
    let step = nodes::step(&world, &key, false, at(120));
    assert!(step.ops.is_empty());
    assert_eq!(step.after, Some(Duration::from_secs(30)), "fifty seconds after its last heartbeat");
    assert!(nodes::step(&world, &key, true, at(1000)).ops.is_empty(), "somebody vouches for it");
    let step = nodes::step(&world, &key, false, at(150));
    let bodies: Vec<&Value> =
        step.ops.iter().filter_map(|op| if let Op::Patch { body, .. } = op { Some(body) } else { None }).collect();
    assert_eq!(bodies[0]["status"]["conditions"][0]["status"], "Unknown");
    let taints = bodies[1]["spec"]["taints"].as_array().unwrap();
    assert_eq!(taints.len(), 2);
    assert!(taints.iter().all(|t| t["key"] == "node.kubernetes.io/unreachable"));
    assert_eq!(bodies[2]["status"]["conditions"][0]["status"], "False", "its pods are not ready any more");
}

#[test]
fn taints_of_others_are_left_alone() {
    let taints = json!([{"key": "mine", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    let world = world(&[node(taints, "True")]);
    let step = nodes::step(&world, &Key::cluster("node-1"), true, at(100));
    let Some(Op::Patch { body, .. }) = step.ops.first() else { panic!("nothing to write") };
    assert_eq!(body["spec"]["taints"], json!([{"key": "mine", "effect": "NoSchedule"}]));
}

#[test]
fn pods_of_a_missing_node_fail_and_go() {
    let finished = pod("b", json!({"status": {"phase": "Succeeded"}}));
    let gone = world(&[pod("a", json!({})), finished]);
    let step = podgc::orphaned(&gone, "node-1", at(0));
    assert_eq!((deletes(&step), step.ops.len()), (2, 3), "the one that ran is marked as failed first");
    let there = world(&[node(json!([]), "True"), pod("a", json!({}))]);
    assert!(podgc::orphaned(&there, "node-1", at(0)).ops.is_empty());
}

fn replica_set(replicas: i32) -> (Kind, Value) {
    let set = json!({"metadata": {"name": "web", "namespace": "default", "uid": "set", "generation": 1}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}});
    (Kind::ReplicaSet, set)
}

fn owned(name: &str, status: Value) -> (Kind, Value) {
    let (kind, mut pod) = pod(name, json!({}));
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": true}]);
    pod["status"] = status;
    (kind, pod)
}

#[test]
fn budgets_count_what_their_controllers_want() {
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let waiting = json!({"phase": "Pending"});
    for (spec, healthy, want) in [
        (json!({"minAvailable": 2}), 3, (3, 2, 1)),
        (json!({"minAvailable": "50%"}), 3, (4, 2, 1)),
        (json!({"maxUnavailable": 1}), 3, (4, 3, 0)),
        (json!({"maxUnavailable": "50%"}), 4, (4, 2, 2)),
        (json!({"maxUnavailable": 0}), 4, (4, 4, 0)),
    ] {
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        let budget = json!({"metadata": {"name": "b", "namespace": "default", "uid": "b"}, "spec": spec});
        let mut objects = vec![replica_set(4), (Kind::PodDisruptionBudget, budget)];
        let pods = if spec["minAvailable"] == 2 { 3 } else { 4 };
        objects.extend(
            (0..pods).map(|n| owned(&format!("p{n}"), if n < healthy { ready.clone() } else { waiting.clone() })),
        );
        let step = disruption::step(&world(&objects), &Key::new("default", "b"), at(0));
        let Some(Op::UpdateStatus(Object::PodDisruptionBudget(updated))) = step.ops.first() else {
            panic!("no status")
        };
        let status = updated.status.clone().unwrap();
        assert_eq!(
            (status.expected_pods, status.desired_healthy, status.disruptions_allowed),
            (Some(want.0), Some(want.1), Some(want.2)),
            "{spec}"
        );
    }
}

#[test]
fn a_replica_set_makes_what_is_missing_and_removes_what_is_missed_least() {
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]});
    let step =
        replicaset::step(&world(&[replica_set(3), owned("a", ready.clone())]), &Key::new("default", "web"), at(0));
    assert_eq!(step.ops.iter().filter(|op| matches!(op, Op::CreateAndTell(..))).count(), 2);
    let objects = [replica_set(1), owned("a", ready), owned("b", json!({"phase": "Pending"}))];
    let step = replicaset::step(&world(&objects), &Key::new("default", "web"), at(0));
    let Some(Op::Delete { key, .. }) = step.ops.first() else { panic!("nothing removed") };
    assert_eq!(&*key.name, "b", "the one that does not work yet");
}

#[test]
fn a_pod_without_an_owner_is_adopted_and_one_that_no_longer_fits_let_go() {
    let (kind, mut stray) = owned("stray", json!({"phase": "Running"}));
    stray["metadata"]["labels"] = json!({"app": "other"});
    let step = replicaset::step(
        &world(&[replica_set(1), pod("orphan", json!({})), (kind, stray)]),
        &Key::new("default", "web"),
        at(0),
    );
    let patched: Vec<String> = step
        .ops
        .iter()
        .filter_map(|op| if let Op::Patch { key, .. } = op { Some(key.name.to_string()) } else { None })
        .collect();
    assert_eq!(patched, ["stray", "orphan"]);
    assert!(!step.ops.iter().any(|op| matches!(op, Op::CreateAndTell(..))), "the orphan will do");
}
