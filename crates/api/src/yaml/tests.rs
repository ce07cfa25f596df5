use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn reads_like_a_manifest() {
    let value = json!({
        "kind": "NodePool",
        "empty": {},
        "none": [],
        "spec": {"list": [{"a": 1, "b": [true, null]}, "x", [1, 2]], "text": "it's: quoted", "number": "10", "yes": "no"},
    });
    assert_eq!(
        to_yaml(&value),
        "\
kind: NodePool
empty: {}
none: []
spec:
  list:
  - a: 1
    b:
    - true
    - null
  - x
  - - 1
    - 2
  text: 'it''s: quoted'
  number: '10'
  'yes': 'no'
"
    );
}

fn json_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-zA-Z0-9_./:#'\" -]{0,12}",
        "\\PC{0,6}",
        Just("\n".to_owned()),
        Just("~".to_owned()),
        Just("0x10".to_owned()),
        Just("1e3".to_owned()),
        Just("null".to_owned()),
        Just("- a".to_owned()),
        Just("a\tb\u{0}c".to_owned()),
        Just("2026-01-02".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_written_reads_back(value in json_value()) {
        let yaml = to_yaml(&value);
        let read: Value = serde_saphyr::from_str(&yaml).map_err(|e| TestCaseError::fail(format!("{e}\n{yaml}")))?;
        prop_assert_eq!(read, value, "{}", yaml);
    }
}
