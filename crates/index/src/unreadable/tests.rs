use super::*;

#[test]
fn what_no_type_takes_is_read_field_by_field() {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "annotations": {"karpenter.sh/do-not-disrupt": "true"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "node-1", "terminationGracePeriodSeconds": "long",
            "containers": [{"name": "c", "ports": "all of them"}], "priorityClassName": "system-node-critical"},
        "status": {"phase": "Running", "conditions": {"Ready": true}}});
    assert!(serde_json::from_value::<Pod>(pod.clone()).is_err(), "no type takes it");
    let one = Unreadable::of(Kind::Pod, &pod.to_string(), "told by nobody");
    assert_eq!((one.key.to_string().as_str(), &*one.uid, one.version), ("n/p", "u", 7));
    for field in ["spec.terminationGracePeriodSeconds", "spec.containers", "status.conditions"] {
        assert!(one.why.contains(field), "{field} in {}", one.why);
    }
    let kept = *one.pod.unwrap();
    assert!(kept.metadata.deletion_timestamp.is_some());
    assert_eq!(kept.metadata.annotations.unwrap()["karpenter.sh/do-not-disrupt"], "true");
    let spec = kept.spec.unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("node-1"));
    assert_eq!(spec.priority_class_name.as_deref(), Some("system-node-critical"));
    assert_eq!(kept.status.unwrap().phase.as_deref(), Some("Running"));
}

#[test]
fn what_an_object_holds_is_read_untyped() {
    let claim = json!({"metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "p"}},
        "spec": {"expireAfter": "when it pleases"}, "status": {"providerID": "aws:///a/i-1", "nodeName": "n"}});
    let one = Unreadable::of(Kind::NodeClaim, &claim.to_string(), "expireAfter");
    assert_eq!(
        (one.provider_id.as_deref(), one.node.as_deref(), one.pool.as_deref()),
        (Some("aws:///a/i-1"), Some("n"), Some("p"))
    );
    let bare = Unreadable::of(Kind::NodeClaim, r#"{"metadata": {"name": "c"}, "status": "none"}"#, "status");
    assert_eq!((bare.provider_id, bare.node, bare.pool), (None, None, None));
}

#[test]
fn a_bug_that_reading_an_object_brings_out_costs_no_more_than_the_object() {
    let claim = |note: &str| {
        let metadata = json!({"name": "c", "uid": "u", "resourceVersion": "7", "annotations": {"note": note}});
        json!({"metadata": metadata, "spec": {"requirements": []}, "status": {"providerID": "aws:///a/i-1"}})
            .to_string()
    };
    for (note, provider_id) in [("a-bug-about-reading", Some("aws:///a/i-1")), ("a-bug-about-reading-twice", None)] {
        let one = Object::read(Kind::NodeClaim, &claim(note)).unwrap_err();
        assert_eq!((one.key.to_string().as_str(), &*one.uid, one.version), ("c", "u", 7), "{note}");
        assert_eq!((one.provider_id.as_deref(), &*one.why, one.panicked), (provider_id, PANICKED, true), "{note}");
    }
    let one = Object::read(Kind::NodeClaim, r#"{"metadata": {"name": "c"}, "spec": 7}"#).unwrap_err();
    assert!(!one.panicked && one.why.contains("invalid type"), "{}", one.why);
}

#[test]
fn what_is_wrong_with_an_object_is_the_same_in_its_next_version() {
    let read = |version: &str| {
        let json = format!(r#"{{"metadata": {{"name": "c", "resourceVersion": "{version}"}}, "spec": 7}}"#);
        Object::read(Kind::NodeClaim, &json).unwrap_err().why
    };
    assert_eq!(read("9"), read("10"));
}
