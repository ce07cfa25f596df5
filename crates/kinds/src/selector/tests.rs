use super::*;
use serde_json::json;

#[test]
fn label_queries_match_as_they_read() {
    let labels = json!({"app": "web", "tier": "front", "n": "5"});
    for (query, want) in [
        ("", true),
        ("app=web", true),
        ("app==web,tier!=back", true),
        ("app in (db, web)", true),
        ("app notin (web)", false),
        ("missing notin (x)", true),
        ("tier", true),
        ("!tier", false),
        ("!other", true),
        ("n>4", true),
        ("n<4", false),
        ("app=", false),
    ] {
        assert_eq!(parse_labels(query).unwrap().matches_labels(Some(&labels)), want, "{query}");
    }
    for query in ["app=web,", "a b", "a in x", "a in (", "=b", "a>x", "-a=b", "a=b c"] {
        assert!(parse_labels(query).is_err(), "{query}");
    }
}

#[test]
fn an_absent_label_selector_selects_nothing_and_an_empty_one_everything() {
    assert!(!Selector::from_struct(None).matches_labels(None));
    assert!(Selector::from_struct(Some(&json!({}))).matches_labels(None));
}

#[test]
fn field_terms() {
    let terms = parse_fields("spec.nodeName=a,status.phase!=Failed").unwrap();
    assert_eq!(terms[0], FieldTerm { field: "spec.nodeName".into(), value: "a".into(), equal: true });
    assert!(!terms[1].equal);
    assert!(parse_fields("nonsense").is_err());
}
