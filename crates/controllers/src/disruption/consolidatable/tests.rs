use karpenter_api::NillableDuration;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn claim(initialized: Option<i64>, event: Option<i64>) -> NodeClaim {
    let mut claim = NodeClaim::default();
    if let Some(second) = initialized {
        claim.conditions_at(at(second)).set_true(conditions::INITIALIZED);
    }
    let status = claim.status.get_or_insert_default();
    status.last_pod_event_time = event.map(|second| karpenter_api::Time(at(second)));
    claim
}

fn pool(after: &str, replicas: Option<i64>) -> NodePool {
    let mut pool = NodePool::default();
    pool.spec.disruption.consolidate_after = NillableDuration::parse(after).unwrap();
    pool.spec.replicas = replicas;
    pool
}

#[test]
fn a_node_is_consolidatable_after_the_quiet_time() {
    // covers: DIS-CONSAFTER-05, DIS-CONSAFTER-06, DIS-CONSAFTER-07
    for (initialized, event, after, replicas, want) in [
        (Some(100), None, "30s", None, Verdict::RemoveUntil(at(130))),
        (Some(70), None, "30s", None, Verdict::Set),
        (Some(10), Some(90), "30s", None, Verdict::RemoveUntil(at(120))),
        (Some(10), Some(70), "30s", None, Verdict::Set),
        (Some(100), None, "0s", None, Verdict::Set),
        (Some(10), None, "Never", None, Verdict::Remove),
        (None, None, "0s", None, Verdict::Remove),
        (None, Some(10), "30s", None, Verdict::Remove),
        (Some(10), None, "0s", Some(3), Verdict::Remove),
    ] {
        let found = verdict(&claim(initialized, event), &pool(after, replicas), at(100));
        assert_eq!(found, want, "{initialized:?} {event:?} {after} {replicas:?}");
    }
}
