use super::*;

const CREATED: i64 = 1_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(CREATED + second).unwrap()
}

fn claim(generation: i64) -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.generation = Some(generation);
    claim.metadata.creation_timestamp = Some(Time(at(0)));
    claim
}

fn said(claim: &NodeClaim, kind: &str) -> (String, String, i64) {
    let condition = claim.condition(kind).unwrap();
    let since = condition.last_transition_time.0.as_second() - CREATED;
    (condition.status.clone(), condition.reason.clone(), since)
}

fn is(status: &str, reason: &str, since: i64) -> (String, String, i64) {
    (status.into(), reason.into(), since)
}

#[test]
fn what_feeds_ready_is_unknown_since_creation() {
    // covers: LC-GEN-06, API-CD-01
    let mut claim = claim(1);
    claim.conditions_at(at(60)).set_unknown(DRAINED, "Draining", "Draining");
    for kind in [LAUNCHED, REGISTERED, INITIALIZED] {
        assert_eq!(said(&claim, kind), is("Unknown", "AwaitingReconciliation", 0), "{kind}");
    }
    assert_eq!(said(&claim, READY), is("Unknown", "ReconcilingDependents", 0));
    assert_eq!(said(&claim, DRAINED), is("Unknown", "Draining", 60), "others are as old as their first word");
}

#[test]
fn ready_follows_what_it_depends_on() {
    // covers: LC-GEN-05, LC-GEN-10, API-CD-02, API-CD-03, API-CD-04
    let mut claim = claim(1);
    claim.conditions_at(at(10)).set_true(LAUNCHED);
    assert_eq!(said(&claim, LAUNCHED), is("True", "Launched", 10));
    assert_eq!(said(&claim, READY), is("Unknown", "ReconcilingDependents", 0));
    let message = &claim.condition(READY).unwrap().message;
    assert_eq!(message, "Registered=Unknown, Initialized=Unknown");

    claim.conditions_at(at(20)).set_false(REGISTERED, "MultipleNodesFound", "two");
    assert_eq!(said(&claim, READY), is("False", "UnhealthyDependents", 20));

    claim.conditions_at(at(30)).set_true(REGISTERED);
    claim.conditions_at(at(40)).set_true(INITIALIZED);
    claim.conditions_at(at(50)).set_false(CONSISTENT_STATE_FOUND, "ConsistencyCheckFailed", "");
    assert_eq!(said(&claim, READY), is("True", "Ready", 40), "only dependents count");
    let order: Vec<_> = claim.status.as_ref().unwrap().conditions.as_ref().unwrap().iter().map(|c| &c.type_).collect();
    assert_eq!(order, [LAUNCHED, REGISTERED, INITIALIZED, CONSISTENT_STATE_FOUND, READY], "the root is last");
}

#[test]
fn what_was_said_of_an_older_generation_does_not_count() {
    // covers: LC-GEN-05, LC-GEN-08
    let mut claim = claim(1);
    for kind in [LAUNCHED, REGISTERED, INITIALIZED] {
        claim.conditions_at(at(10)).set_true(kind);
    }
    claim.metadata.generation = Some(2);
    claim.conditions_at(at(20)).refresh(LAUNCHED);
    assert_eq!(said(&claim, READY), is("Unknown", "ReconcilingDependents", 20));
    assert_eq!(said(&claim, LAUNCHED), is("True", "Launched", 10), "only the generation moved");
    assert_eq!(claim.condition(LAUNCHED).unwrap().observed_generation, Some(2));
    claim.conditions_at(at(30)).refresh(REGISTERED);
    claim.conditions_at(at(30)).refresh(INITIALIZED);
    assert_eq!(said(&claim, READY), is("True", "Ready", 30));
    assert!(!claim.conditions_at(at(40)).refresh(INITIALIZED), "nothing new");
    assert!(!claim.conditions_at(at(40)).refresh(DRIFTED), "nothing to refresh");

    // A failure of an older generation does not make the object fail.
    claim.conditions_at(at(50)).set_false(REGISTERED, "MultipleNodesFound", "");
    claim.metadata.generation = Some(3);
    claim.conditions_at(at(60)).refresh(LAUNCHED);
    assert_eq!(said(&claim, READY).0, "Unknown");
}

#[test]
fn times_move_with_the_status_alone() {
    // covers: LC-GEN-07, API-CD-04
    let mut claim = claim(1);
    claim.conditions_at(at(10)).set_unknown(LAUNCHED, "LaunchFailed", "no");
    assert_eq!(said(&claim, LAUNCHED), is("Unknown", "LaunchFailed", 0));
    claim.conditions_at(at(20)).set_unknown(LAUNCHED, "Unauthorized", "still no");
    assert_eq!(said(&claim, LAUNCHED), is("Unknown", "Unauthorized", 0));
    claim.metadata.generation = Some(9);
    claim.conditions_at(at(30)).set_unknown(LAUNCHED, "Unauthorized", "still no");
    assert_eq!(said(&claim, LAUNCHED), is("Unknown", "Unauthorized", 0));
    claim.conditions_at(at(40)).set_true(LAUNCHED);
    assert_eq!(said(&claim, LAUNCHED).2, 40);
}

#[test]
fn a_deletion_lifts_all_generations() {
    // covers: LC-GEN-09
    let ready = || {
        let mut claim = claim(1);
        for kind in [LAUNCHED, REGISTERED, INITIALIZED] {
            claim.conditions_at(at(10)).set_true(kind);
        }
        claim.metadata.generation = Some(2);
        claim
    };
    let mut deleting = ready();
    deleting.metadata.deletion_timestamp = Some(Time(at(20)));
    deleting.conditions_at(at(21)).set_unknown(DRAINED, "Draining", "Draining");
    assert_eq!(said(&deleting, READY), is("True", "Ready", 10));
    let mut living = ready();
    living.conditions_at(at(21)).set_unknown(DRAINED, "Draining", "Draining");
    assert_eq!(said(&living, READY).0, "Unknown");
}

#[test]
fn what_feeds_ready_cannot_be_cleared() {
    let mut claim = claim(1);
    let mut conditions = claim.conditions_at(at(1));
    conditions.set_true(CONSOLIDATABLE);
    assert!(!conditions.clear(LAUNCHED) && !conditions.clear(READY) && !conditions.clear(DRIFTED));
    assert!(conditions.clear(CONSOLIDATABLE));
    assert!(claim.condition(CONSOLIDATABLE).is_none());
    assert_eq!(claim.condition_status(CONSOLIDATABLE), Status::Unknown);
}

#[test]
fn pools_depend_on_validation_and_their_class() {
    let mut pool = NodePool::default();
    pool.metadata.generation = Some(1);
    pool.conditions_at(at(1)).set_true(VALIDATION_SUCCEEDED);
    assert_eq!(pool.condition_status(READY), Status::Unknown);
    pool.conditions_at(at(2)).set_false(NODE_REGISTRATION_HEALTHY, "RegistrationFailed", "");
    pool.conditions_at(at(3)).set_true(NODE_CLASS_READY);
    assert_eq!(pool.condition_status(READY), Status::True);
}

#[test]
fn times_have_no_fraction() {
    let mut claim = claim(1);
    claim.conditions_at(at(5) + jiff::SignedDuration::from_millis(700)).set_true(LAUNCHED);
    assert_eq!(claim.condition(LAUNCHED).unwrap().last_transition_time, Time(at(5)));
}
