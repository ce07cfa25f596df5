use super::*;
use serde_json::{Value, json};

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

#[test]
fn only_a_node_with_our_finalizer_is_ended() {
    // covers: LC-TERM-04
    let with = |deletion: Option<&str>, finalizers: &[&str]| {
        node(json!({"metadata": {"deletionTimestamp": deletion, "finalizers": finalizers}}))
    };
    let now = Some("2026-01-01T00:00:00Z");
    assert!(is_ending(&with(now, &["example.com/mine", TERMINATION_FINALIZER])));
    assert!(!is_ending(&with(None, &[TERMINATION_FINALIZER])));
    assert!(!is_ending(&with(now, &["example.com/mine"])));
    assert!(!is_ending(&with(now, &[])));
}

#[test]
fn an_ending_node_is_closed_and_out_of_load_balancers() {
    // covers: LC-TERM-11
    let taint = |effect: &str, value: Option<&str>| json!({"key": DISRUPTED_TAINT, "effect": effect, "value": value});
    let other = || json!({"key": "other", "effect": "NoSchedule"});
    for (what, before, after) in [
        ("none", json!([other()]), json!([other(), taint("NoSchedule", None)])),
        ("of another effect", json!([taint("NoExecute", None), other()]), json!([other(), taint("NoSchedule", None)])),
        ("there already", json!([taint("NoSchedule", None)]), json!([taint("NoSchedule", None)])),
        ("with a value", json!([taint("NoSchedule", Some("x"))]), json!([taint("NoSchedule", Some("x"))])),
    ] {
        let mut closed = node(json!({"spec": {"taints": before}}));
        close(&mut closed);
        let want = node(json!({"metadata": {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}},
            "spec": {"taints": after}}));
        assert_eq!(closed, want, "{what}");
        close(&mut closed);
        assert_eq!(closed, want, "{what}: once is enough");
    }
}

#[test]
fn a_deadline_that_cannot_be_read_is_an_error() {
    // covers: LC-TERM-09, LC-TERM-10
    let with = |value: &str| {
        let mut claim = NodeClaim::default();
        claim.metadata.name = Some("c".into());
        claim.metadata.annotations = Some([(TERMINATION_TIMESTAMP.to_owned(), value.to_owned())].into());
        claim
    };
    assert_eq!(deadline(&NodeClaim::default()), Ok(None));
    let want: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(deadline(&with("2026-01-01T00:00:00Z")), Ok(Some(want)));
    assert_eq!(deadline(&with("2026-01-01T02:00:00+02:00")), Ok(Some(want)));
    for bad in ["", "soon", "2026-01-01"] {
        let error = deadline(&with(bad)).unwrap_err().to_string();
        assert!(error.contains("NodeClaim c") && error.contains(&format!("{bad:?}")), "{error}");
    }
}
