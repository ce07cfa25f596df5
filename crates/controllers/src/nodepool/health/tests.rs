use super::*;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn pool() -> NodePool {
    let mut pool = NodePool::default();
    pool.metadata.uid = Some("p".into());
    pool.metadata.generation = Some(1);
    pool
}

fn said(pool: &NodePool) -> (String, String) {
    let condition = pool.condition(NODE_REGISTRATION_HEALTHY).unwrap();
    (condition.status.clone(), condition.reason.clone())
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.into(), reason.into())
}

const UNKNOWN: (&str, &str) = ("Unknown", "AwaitingReconciliation");

#[test]
fn two_failures_of_the_last_four_are_too_many() {
    // covers: NP-HEALTH-02
    let (ok, no) = (true, false);
    for (outcomes, want) in [
        (vec![], Health::Unknown),
        (vec![ok], Health::Healthy),
        (vec![no], Health::Healthy),
        (vec![no, no], Health::Unhealthy),
        (vec![no, no, ok], Health::Unhealthy),
        (vec![no, no, ok, ok], Health::Unhealthy),
        (vec![no, no, ok, ok, ok], Health::Healthy),
        (vec![ok, ok, no, ok, no], Health::Unhealthy),
    ] {
        let mut registrations = Registrations::default();
        outcomes.iter().for_each(|outcome| registrations.record("p", *outcome));
        assert_eq!(registrations.health("p"), want, "{outcomes:?}");
        assert_eq!(registrations.health("q"), Health::Unknown, "each pool for itself");
    }
    let mut registrations = Registrations::default();
    registrations.record("p", no);
    assert_eq!(registrations.health_with("p", no), Health::Unhealthy);
    assert_eq!(registrations.health("p"), Health::Healthy, "only asked");
    registrations.forget("p");
    assert_eq!(registrations.health("p"), Health::Unknown);
}

#[test]
fn a_change_of_pool_or_class_starts_over() {
    // covers: NP-HEALTH-03, API-CD-12
    let mut registrations = Registrations::default();
    let mut pool = pool();
    follow(&mut pool, 5, &mut registrations, at(0));
    assert_eq!(said(&pool), is(UNKNOWN.0, UNKNOWN.1));
    assert_eq!(pool.status.as_ref().unwrap().node_class_observed_generation, Some(5));

    succeed(&mut pool, &registrations, at(1));
    registrations.record("p", true);
    follow(&mut pool, 5, &mut registrations, at(2));
    assert_eq!(said(&pool).0, "True", "nothing changed");

    pool.metadata.generation = Some(2);
    follow(&mut pool, 5, &mut registrations, at(3));
    assert_eq!((said(&pool).0.as_str(), registrations.health("p")), ("Unknown", Health::Unknown));

    succeed(&mut pool, &registrations, at(4));
    registrations.record("p", true);
    follow(&mut pool, 6, &mut registrations, at(5));
    assert_eq!((said(&pool).0.as_str(), registrations.health("p")), ("Unknown", Health::Unknown));
    assert_eq!(pool.status.as_ref().unwrap().node_class_observed_generation, Some(6));
}

#[test]
fn outcomes_decide_the_condition() {
    // covers: NP-HEALTH-01, NP-HEALTH-04, NP-HEALTH-05, API-CD-12
    let mut registrations = Registrations::default();
    let mut pool = pool();
    follow(&mut pool, 1, &mut registrations, at(0));
    let mut claim = NodeClaim::default();
    claim.conditions_at(at(0)).set_unknown(LAUNCHED, "Unauthorized", "a policy is missing");

    fail(&mut pool, &claim, &registrations, at(1));
    registrations.record("p", false);
    assert_eq!(said(&pool).0, "Unknown", "one failure");
    fail(&mut pool, &claim, &registrations, at(2));
    registrations.record("p", false);
    assert_eq!(said(&pool), is("False", "Unauthorized"), "what kept the last one from launching");
    assert_eq!(pool.condition(NODE_REGISTRATION_HEALTHY).unwrap().message, "a policy is missing");

    claim.conditions_at(at(3)).set_true(LAUNCHED);
    fail(&mut pool, &claim, &registrations, at(3));
    assert_eq!(said(&pool), is("False", "Unauthorized"), "false already");

    succeed(&mut pool, &registrations, at(4));
    assert_eq!(said(&pool).0, "False", "two failures are still among the last four");
    (0..3).for_each(|_| registrations.record("p", true));
    succeed(&mut pool, &registrations, at(5));
    assert_eq!(said(&pool), is("True", "NodeRegistrationHealthy"));

    registrations.record("p", false);
    fail(&mut pool, &claim, &registrations, at(6));
    assert_eq!(said(&pool), is("False", "RegistrationFailed"));
}

#[test]
fn a_restart_remembers_what_the_condition_says() {
    // covers: NP-HEALTH-06, CP-I4
    for (status, want) in [("True", Health::Healthy), ("False", Health::Unhealthy), ("Unknown", Health::Unknown)] {
        let mut pool = pool();
        pool.status = serde_json::from_value(json!({"nodeClassObservedGeneration": 1, "conditions": [{
            "type": NODE_REGISTRATION_HEALTHY, "status": status, "reason": "R", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))
        .unwrap();
        let mut registrations = Registrations::default();
        follow(&mut pool, 1, &mut registrations, at(0));
        assert_eq!(registrations.health("p"), want, "{status}");
        assert_eq!(said(&pool), is(status, "R"));
    }
}

#[test]
fn only_claims_of_this_very_pool_count() {
    // covers: NP-HEALTH-07, LC-REG-13
    let owned = |kind: &str, uid: &str| -> NodeClaim {
        serde_json::from_value(json!({"metadata": {"labels": {"karpenter.sh/nodepool": "x"}, "ownerReferences": [
                {"apiVersion": "karpenter.sh/v1", "kind": kind, "name": "x", "uid": uid}]},
            "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}))
        .unwrap()
    };
    assert!(concerns(&pool(), &owned("NodePool", "p")));
    assert!(!concerns(&pool(), &owned("NodePool", "an older pool of that name")));
    assert!(!concerns(&pool(), &owned("Other", "p")));
    assert!(!concerns(&pool(), &NodeClaim::default()));
}
