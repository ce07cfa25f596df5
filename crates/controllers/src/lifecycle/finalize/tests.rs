use super::*;
use karpenter_api::GoDuration;
use karpenter_api::Time;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn claim() -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.finalizers = Some(vec![TERMINATION_FINALIZER.to_owned()]);
    claim.metadata.deletion_timestamp = Some(Time(at(10)));
    claim.status.get_or_insert_default().provider_id = Some("i-1".into());
    claim
}

fn registered() -> NodeClaim {
    let mut claim = claim();
    claim.conditions_at(at(0)).set_true(REGISTERED);
    claim
}

fn node(name: &str, registered: bool, deleting: bool) -> Node {
    let labels = if registered { json!({labels::REGISTERED: "true"}) } else { json!({}) };
    let deletion = deleting.then(|| at(11).to_string());
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels, "deletionTimestamp": deletion}}))
        .unwrap()
}

#[test]
fn nodes_first_then_the_machine_then_the_finalizer() {
    // covers: LC-TERM-01, LC-TERM-03, LC-TERM-40, LC-TERM-41, LC-LAUNCH-11, LC-REG-15
    let unlaunched = {
        let mut claim = claim();
        claim.status = None;
        claim
    };
    let terminate = |id: &str| Step::Terminate { provider_id: id.to_owned() };
    let delete = |names: &[&str]| Step::DeleteNodes(names.iter().map(|name| (*name).to_owned()).collect());
    let (living, dying, unopened) = (node("a", true, false), node("b", true, true), node("c", false, false));
    for (what, claim, nodes, remembered, want) in [
        ("its nodes", registered(), vec![living.clone(), dying.clone()], None, delete(&["a"])),
        ("all of them", registered(), vec![living.clone(), unopened.clone()], None, delete(&["a", "c"])),
        ("wait", registered(), vec![dying.clone()], None, Step::AwaitNodes),
        ("no nodes", registered(), vec![], None, terminate("i-1")),
        ("never registered", claim(), vec![unopened.clone()], None, terminate("i-1")),
        ("registered, but the claim does not know", claim(), vec![living, unopened], None, delete(&["a"])),
        ("the same, later", claim(), vec![dying], None, Step::AwaitNodes),
        ("never launched", unlaunched.clone(), vec![], None, Step::Release),
        ("launched, but not stored", unlaunched, vec![], Some("i-2"), Step::Adopt),
        ("stored and remembered", claim(), vec![], Some("i-1"), terminate("i-1")),
    ] {
        assert_eq!(next(&claim, &nodes, remembered), want, "{what}");
    }
}

#[test]
fn what_is_not_ours_is_left_alone() {
    // covers: LC-TERM-04
    let mut living = registered();
    living.metadata.deletion_timestamp = None;
    assert_eq!(next(&living, &[node("a", true, false)], None), Step::Nothing);
    let mut others = registered();
    others.metadata.finalizers = Some(vec!["example.com/mine".into()]);
    assert_eq!(next(&others, &[node("a", true, false)], None), Step::Nothing);
}

#[test]
fn a_grace_period_becomes_a_deadline_counted_from_the_deletion() {
    // covers: LC-TERM-07, LC-TERM-08, CP-E1, CP-E2
    let mut claim = registered();
    claim.spec.termination_grace_period = Some(GoDuration::parse("1h30m").unwrap());
    let nodes = [node("a", true, false)];
    let want = Step::Annotate { deadline: "2026-01-01T01:30:10Z".into() };
    assert_eq!(next(&claim, &nodes, None), want, "before any node is deleted");
    for value in ["2026-01-01T01:30:10Z", "2020-01-01T00:00:00Z", "nonsense", ""] {
        claim.metadata.annotations = Some([(TERMINATION_TIMESTAMP.to_owned(), value.to_owned())].into());
        assert_eq!(next(&claim, &nodes, None), Step::DeleteNodes(vec!["a".into()]), "{value:?} is kept");
    }
    claim.spec.termination_grace_period = Some(GoDuration::from_secs(0));
    claim.metadata.annotations = None;
    assert_eq!(next(&claim, &nodes, None), Step::Annotate { deadline: "2026-01-01T00:00:10Z".into() });
}
