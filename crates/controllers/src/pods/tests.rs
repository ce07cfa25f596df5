use super::*;
use karpenter_api::labels::DO_NOT_DISRUPT;
use karpenter_index::{Interner, reduce};
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

/// A running pod with these changes.
fn pod(change: Value) -> PodFacts {
    let mut value = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [], "terminationGracePeriodSeconds": 30},
        "status": {"phase": "Running", "startTime": at(0).to_string()},
    });
    merge(&mut value, change);
    facts(value)
}

/// The facts of a pod as it is on the wire.
pub(crate) fn facts(value: Value) -> PodFacts {
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(value).unwrap();
    PodFacts::of(&reduce::tracked_pod(&pod, &mut Interner::default()).unwrap())
}

fn owner(api_version: &str, kind: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": "o", "uid": "x"}]}})
}

fn deleted_at(second: i64) -> Value {
    json!({"metadata": {"deletionTimestamp": at(second).to_string()}})
}

fn protected(value: &str) -> Value {
    json!({"metadata": {"annotations": {DO_NOT_DISRUPT: value}}})
}

fn tolerating(toleration: Value) -> Value {
    json!({"spec": {"tolerations": [toleration]}})
}

#[test]
fn every_class_of_pod() {
    // covers: LC-POD-01, LC-POD-02, LC-POD-03, LC-POD-04, LC-POD-05, LC-POD-06, LC-POD-07, LC-POD-08, LC-POD-12
    let both = |mut a: Value, b: Value| {
        merge(&mut a, b);
        a
    };
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let stateful = || owner("apps/v1", "StatefulSet");
    // active, reschedulable, evictable, drainable, waiting, disruptable
    let rows = [
        ("running", json!({}), "areDwd"),
        ("pending", phase("Pending"), "areDwd"),
        ("succeeded", phase("Succeeded"), "...D.d"),
        ("failed", phase("Failed"), "...D.d"),
        ("terminating", deleted_at(90), "...Dwd"),
        ("terminating for a minute too long", deleted_at(40), "...Dwd"),
        ("terminating for longer", deleted_at(39), ".....d"),
        ("terminating, of a StatefulSet", both(stateful(), deleted_at(90)), ".r.Dwd"),
        ("of a DaemonSet", owner("apps/v1", "DaemonSet"), "a.eDwd"),
        ("of a DaemonSet of another group", owner("apps/v1beta1", "DaemonSet"), "areDwd"),
        ("static", owner("v1", "Node"), "a....d"),
        ("protected", protected("true"), "ar.Dw."),
        ("protected and done", both(protected("true"), phase("Succeeded")), "...D.d"),
        ("protected and terminating", both(protected("true"), deleted_at(90)), "...Dwd"),
        ("protected, of a DaemonSet", both(protected("true"), owner("apps/v1", "DaemonSet")), "a..Dw."),
        ("protected, static", both(protected("true"), owner("v1", "Node")), "a....."),
        ("tolerating everything", tolerating(json!({"operator": "Exists"})), "ar...d"),
    ];
    for (what, change, want) in rows {
        let (pod, now) = (pod(change), at(100));
        let flag = |set: bool, letter: char| if set { letter } else { '.' };
        let is: String = [
            flag(pod.is_active(), 'a'),
            flag(pod.is_reschedulable(), 'r'),
            flag(pod.is_evictable(now), 'e'),
            flag(pod.is_drainable(now), 'D'),
            flag(pod.is_waiting_for_eviction(now), 'w'),
            flag(pod.is_disruptable(now), 'd'),
        ]
        .iter()
        .collect();
        assert_eq!(is, want, "{what}");
    }
}

#[test]
fn tolerations_of_the_disruption_taint() {
    // covers: LC-POD-08
    for (toleration, want) in [
        (json!({"operator": "Exists"}), true),
        (json!({"operator": "Exists", "effect": "NoSchedule"}), true),
        (json!({"operator": "Exists", "effect": "NoExecute"}), false),
        (json!({"key": DISRUPTED_TAINT, "operator": "Exists"}), true),
        (json!({"key": DISRUPTED_TAINT}), true),
        (json!({"key": DISRUPTED_TAINT, "operator": "Equal", "value": "x"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
        (json!({"key": DISRUPTED_TAINT, "operator": "Lt", "value": "5"}), false),
    ] {
        assert_eq!(pod(tolerating(toleration.clone())).tolerates_disruption, want, "{toleration}");
    }
}

#[test]
fn protection_may_be_for_ever_for_a_while_or_nonsense() {
    // covers: LC-POD-09, LC-POD-10
    let unstarted = json!({"status": {"startTime": null}, "metadata": {"annotations": {DO_NOT_DISRUPT: "5m"}}});
    for (change, now, want) in [
        (json!({}), 0, Protection::None),
        (protected("true"), 1_000_000, Protection::Always),
        (protected("1h30m"), 5_399, Protection::Until(at(5_400))),
        (protected("1h30m"), 5_400, Protection::Elapsed),
        (unstarted, 1_000_000, Protection::UntilStarted),
    ] {
        let found = pod(change).protection(at(now));
        assert_eq!(found, want);
        assert_eq!(found.is_in_force(), !matches!(want, Protection::None | Protection::Elapsed));
    }
    for nonsense in ["false", "True", "", "0s", "-5m", "5", "5 m"] {
        let found = pod(protected(nonsense)).protection(at(0));
        assert!(matches!(&found, Protection::Invalid(why) if why.contains(&format!("{nonsense:?}"))), "{found:?}");
        assert!(!found.is_in_force());
    }
}

#[test]
fn a_deadline_forces_pods_in_time_for_their_grace() {
    // covers: LC-TERM-22, LC-TERM-32
    let no_grace = json!({"spec": {"terminationGracePeriodSeconds": null}});
    for (what, change, deadline, now, want) in [
        ("no deadline", json!({}), None, 1_000, false),
        ("in good time", json!({}), Some(100), 69, false),
        ("at the last moment", json!({}), Some(100), 70, false),
        ("a moment later", json!({}), Some(100), 71, true),
        ("protected", protected("true"), Some(100), 71, true),
        ("longer grace than the node has", json!({"spec": {"terminationGracePeriodSeconds": 600}}), Some(100), 0, true),
        ("no grace period at all", no_grace, Some(100), 5_000, false),
        ("terminating in time", deleted_at(100), Some(100), 99, false),
        ("terminating too late", deleted_at(101), Some(100), 0, true),
    ] {
        let forced = pod(change).is_past_force_threshold(deadline.map(at), at(now));
        assert_eq!(forced, want, "{what}");
    }
}

#[test]
fn volumes_are_those_claimed_by_name_and_those_made_for_the_pod() {
    // covers: LC-TERM-35
    let volumes = json!({"spec": {"volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "db"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "config", "configMap": {"name": "c"}},
    ]}});
    assert_eq!(*pod(volumes).volume_claims, ["db".into(), "p-scratch".into()]);
}

#[test]
fn critical_is_a_matter_of_the_class_not_of_the_number() {
    // covers: LC-TERM-16
    for (spec, want) in [
        (json!({"priorityClassName": "system-cluster-critical"}), true),
        (json!({"priorityClassName": "system-node-critical"}), true),
        (json!({"priorityClassName": "mine", "priority": 2_000_000_000}), false),
        (json!({}), false),
    ] {
        assert_eq!(pod(json!({"spec": spec})).critical, want);
    }
}
