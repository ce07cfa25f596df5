use super::*;
use karpenter_api::Time;
use karpenter_provider::Verdict as Status;
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn policies() -> Vec<RepairPolicy> {
    let policy = |condition_type, unhealthy, minutes| RepairPolicy {
        condition_type,
        unhealthy,
        toleration: Duration::from_mins(minutes),
    };
    vec![
        policy("Ready", Status::False, 30),
        policy("Ready", Status::Unknown, 30),
        policy("AcceleratedHardwareReady", Status::False, 10),
    ]
}

fn node(conditions: &[(&str, &str, i64)]) -> Node {
    let all: Vec<Value> = conditions
        .iter()
        .map(|(kind, status, since)| json!({"type": kind, "status": status, "lastTransitionTime": at(*since).to_string()}))
        .collect();
    serde_json::from_value(json!({"status": {"conditions": all}})).unwrap()
}

#[test]
fn the_condition_whose_time_ends_first_decides() {
    // covers: LC-REPAIR-01, LC-REPAIR-02, API-CD-64
    let unhealthy = |condition: &str| Verdict::Unhealthy { condition: condition.to_owned() };
    let borne = |seconds| Verdict::Tolerated(Duration::from_secs(seconds));
    let gpu = ("AcceleratedHardwareReady", "False", 1_300);
    for (what, conditions, now, want) in [
        ("well", vec![("Ready", "True", 0)], 10_000, Verdict::Healthy),
        ("no conditions", vec![], 10_000, Verdict::Healthy),
        ("another condition", vec![("MemoryPressure", "True", 0)], 10_000, Verdict::Healthy),
        ("borne", vec![("Ready", "False", 0)], 0, borne(1_800)),
        ("borne", vec![("Ready", "Unknown", 0)], 1_799, borne(1)),
        ("no longer", vec![("Ready", "Unknown", 0)], 1_800, unhealthy("Ready")),
        ("the other's end is later", vec![("Ready", "False", 0), gpu], 1_300, borne(500)),
        ("the other's end is sooner", vec![("Ready", "False", 1_000), gpu], 1_300, borne(600)),
        ("the sooner", vec![("Ready", "False", 1_000), gpu], 1_900, unhealthy("AcceleratedHardwareReady")),
    ] {
        assert_eq!(judge(&node(&conditions), &policies(), at(now)), want, "{what}");
    }
}

#[test]
fn too_many_unhealthy_nodes_stop_repair() {
    // covers: LC-REPAIR-03
    for (all, unhealthy, want) in
        [(1, 1, true), (3, 1, true), (5, 1, true), (5, 2, false), (6, 2, true), (10, 2, true), (10, 3, false)]
    {
        let nodes: Vec<Node> = (0..all)
            .map(|n| if n < unhealthy { node(&[("Ready", "False", 1_000_000)]) } else { node(&[("Ready", "True", 0)]) })
            .collect();
        assert_eq!(may_repair(&nodes, &policies()), want, "{unhealthy} of {all}");
    }
}

fn claim(deadline: Option<&str>) -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.annotations = deadline.map(|text| [(TERMINATION_TIMESTAMP.to_owned(), text.to_owned())].into());
    claim
}

#[test]
fn a_deadline_in_the_past_stays() {
    // covers: LC-REPAIR-05, CP-G1
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for (deadline, want) in [
        (None, true),
        (Some("2025-12-31T23:59:59Z"), false),
        (Some("2026-01-01T00:00:01Z"), true),
        (Some("nonsense"), true),
    ] {
        assert_eq!(needs_deadline(&claim(deadline), now), want, "{deadline:?}");
    }
}

#[test]
fn a_deadline_of_a_repair_that_never_came_is_taken_back() {
    // covers: LC-REPAIR-08, CP-G2
    let left = claim(Some("2026-01-01T00:00:00Z"));
    let tolerated = Verdict::Tolerated(Duration::from_secs(1));
    assert!(has_stale_deadline(&left, &Verdict::Healthy));
    assert!(!has_stale_deadline(&left, &tolerated), "it may be repeated");
    assert!(!has_stale_deadline(&claim(None), &Verdict::Healthy));
    let mut going = left;
    going.metadata.deletion_timestamp = Some(Time(at(0)));
    assert!(!has_stale_deadline(&going, &Verdict::Healthy));
}

#[test]
fn only_conditions_are_news() {
    // covers: LC-REPAIR-07
    let before = node(&[("Ready", "True", 0), ("DiskPressure", "False", 0)]);
    assert!(is_news(None, &before));
    for (after, want) in [
        (node(&[("DiskPressure", "False", 0), ("Ready", "True", 0)]), false),
        (node(&[("Ready", "False", 0), ("DiskPressure", "False", 0)]), true),
        (node(&[("Ready", "True", 5), ("DiskPressure", "False", 0)]), true),
        (node(&[("Ready", "True", 0)]), true),
    ] {
        assert_eq!(is_news(Some(&before), &after), want);
    }
    let mut labelled = before.clone();
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    assert!(!is_news(Some(&before), &labelled));
}

#[test]
fn conditions_are_spelled_for_metrics() {
    // covers: LC-REPAIR-06
    assert_eq!(snake_case("AcceleratedHardwareReady"), "accelerated_hardware_ready");
    assert_eq!(snake_case("Ready"), "ready");
}
