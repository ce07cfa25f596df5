use super::*;
use crate::pods::tests::facts;
use karpenter_api::labels::DO_NOT_DISRUPT;
use karpenter_index::{Interner, reduce};
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn pod(phase: &str, deletion: Option<i64>, protection: Option<&str>) -> PodFacts {
    let annotations = protection.map_or(json!({}), |value| json!({DO_NOT_DISRUPT: value}));
    let deletion: Option<Value> = deletion.map(|second| json!(at(second).to_string()));
    facts(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations,
            "deletionTimestamp": deletion},
        "spec": {"nodeName": "n", "containers": [], "terminationGracePeriodSeconds": 30},
        "status": {"phase": phase, "startTime": at(0).to_string()}}))
}

fn delete(seconds: u64) -> Action {
    Action::Delete { grace: Duration::from_secs(seconds) }
}

#[test]
fn each_attempt_decides_anew() {
    // covers: LC-TERM-24, LC-TERM-29, LC-TERM-30, LC-TERM-31, CP-E6, CP-E7
    for (what, pod, deadline, now, want) in [
        ("running", pod("Running", None, None), None, 0, Action::Evict),
        ("protected", pod("Running", None, Some("true")), None, 1_000_000, Action::Wait),
        ("protected for a while", pod("Running", None, Some("5m")), None, 299, Action::Wait),
        ("no longer protected", pod("Running", None, Some("5m")), None, 300, Action::Evict),
        ("protected and finished", pod("Succeeded", None, Some("true")), None, 0, Action::Drop),
        ("evicted before", pod("Running", Some(90), None), None, 60, Action::Drop),
        ("time enough", pod("Running", None, None), Some(100), 70, Action::Evict),
        ("time runs out", pod("Running", None, None), Some(100), 71, delete(29)),
        ("protection ends there", pod("Running", None, Some("true")), Some(100), 75, delete(25)),
        ("little left", pod("Running", None, None), Some(100), 99, delete(1)),
        ("nothing left", pod("Running", None, None), Some(100), 100, delete(1)),
        ("late", pod("Running", None, None), Some(100), 5_000, delete(1)),
        ("going too late", pod("Running", Some(500), None), Some(100), 40, delete(60)),
        ("going in time", pod("Running", Some(100), None), Some(100), 40, Action::Drop),
        ("cannot go any sooner", pod("Running", Some(102), None), Some(100), 101, Action::Drop),
        ("finished, and late", pod("Failed", None, None), Some(100), 200, Action::Drop),
    ] {
        assert_eq!(decide(&pod, deadline.map(at), at(now)), want, "{what}");
    }
}

#[test]
fn answers_to_an_eviction() {
    // covers: LC-TERM-26
    for (code, message, want) in [
        (201, "", Answer::Evicted),
        (404, "pods \"p\" not found", Answer::Gone),
        (409, "the UID in the precondition", Answer::Gone),
        (
            429,
            "Cannot evict pod as it would violate the pod's disruption budget.",
            Answer::Blocked("evicting pod violates a PDB"),
        ),
        (500, MULTIPLE_BUDGETS, Answer::Blocked("eviction does not support multiple PDBs")),
        (500, "etcd is unhappy", Answer::Failed),
        (403, "forbidden", Answer::Failed),
    ] {
        assert_eq!(answer(code, message), want, "{code} {message}");
    }
}

fn key(name: &str, uid: &str) -> PodKey {
    PodKey { namespace: "ns".into(), name: name.into(), uid: uid.into() }
}

#[test]
fn the_earliest_deadline_counts() {
    // covers: LC-TERM-23
    let mut entries = Entries::default();
    for (deadline, news, kept) in [
        (None, true, None),
        (None, false, None),
        (Some(100), true, Some(100)),
        (Some(200), false, Some(100)),
        (None, false, Some(100)),
        (Some(50), true, Some(50)),
    ] {
        assert_eq!(entries.add(key("p", "1"), deadline.map(at), at(0)), news, "{deadline:?}");
        assert_eq!(entries.get(&key("p", "1")).unwrap().deadline, kept.map(at));
    }
    assert!(entries.add(key("p", "2"), None, at(0)), "another pod of the same name");
    assert!(entries.add(key("q", "3"), None, at(0)));
    assert_eq!(entries.len(), 3);
    entries.remove_named(&key("p", "").key());
    assert!(entries.len() == 1 && entries.get(&key("p", "2")).is_none());
    assert!(entries.remove(&key("q", "3")) && entries.is_empty());
}

#[test]
fn an_evicted_pod_is_not_evicted_again_before_the_watch_had_its_time() {
    let mut entries = Entries::default();
    assert!(entries.add(key("p", "1"), None, at(0)));
    entries.evicted(&key("p", "1"), at(5));
    assert!(!entries.add(key("p", "1"), None, at(6)));
    assert!(!entries.add(key("p", "1"), None, at(15)));
    assert!(entries.get(&key("p", "1")).unwrap().evicted.is_some());
    assert!(entries.add(key("p", "1"), None, at(16)), "it is still there");
    assert!(entries.get(&key("p", "1")).unwrap().evicted.is_none());
    entries.evicted(&key("p", "1"), at(17));
    assert!(entries.add(key("p", "1"), Some(at(30)), at(18)), "a deadline is news at any time");
}

fn tracked() -> Arc<TrackedPod> {
    let pod =
        json!({"metadata": {"name": "p", "namespace": "ns", "uid": "1"}, "spec": {"nodeName": "n", "containers": []}});
    let pod = serde_json::from_value(pod).unwrap();
    Arc::new(reduce::tracked_pod(&pod, &mut Interner::default()).unwrap())
}

fn budget(name: &str) -> Arc<DisruptionBudget> {
    let spec = json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 0}});
    Arc::new(reduce::disruption_budget(&serde_json::from_value(spec).unwrap()))
}

#[test]
fn a_refusal_holds_while_the_pod_and_its_budgets_are_the_same() {
    let (pod, one, two) = (tracked(), budget("a"), budget("b"));
    let refusal = Refusal { pod: pod.clone(), budgets: vec![one.clone()], at: at(0), why: "" };
    assert!(refusal.still_holds(&pod, std::slice::from_ref(&one), at(299)));
    for (what, pod, budgets, second) in [
        ("it is long ago", pod.clone(), vec![one.clone()], 300),
        ("the pod changed", tracked(), vec![one.clone()], 1),
        ("the budget was written", pod.clone(), vec![budget("a")], 1),
        ("another one came", pod.clone(), vec![one, two], 1),
        ("it is gone", pod, Vec::new(), 1),
    ] {
        assert!(!refusal.still_holds(&pod, &budgets, at(second)), "{what}");
    }
}

#[test]
fn a_budget_that_changes_wakes_whom_budgets_of_its_namespace_refused() {
    let mut entries = Entries::default();
    let (mut elsewhere, here) = (key("p", "1"), key("q", "2"));
    elsewhere.namespace = "other".into();
    let refusal = Refusal { pod: tracked(), budgets: Vec::new(), at: at(0), why: "" };
    for key in [&elsewhere, &here, &key("r", "3")] {
        entries.add(key.clone(), None, at(0));
    }
    for key in [&elsewhere, &here] {
        entries.refused(key, refusal.clone());
    }
    assert_eq!(entries.refused_in("ns"), [here.key()]);
}
