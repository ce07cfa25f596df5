use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::values;

fn errors(schema: Value, value: Value) -> Vec<String> {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": schema}})).unwrap();
    validate(&json!({"spec": value}), None, &schema, "").iter().map(ToString::to_string).collect()
}

#[test]
fn messages_read_as_the_servers() {
    for (schema, value, want) in [
        (
            json!({"type": "string"}),
            json!(1),
            vec![r#"spec: Invalid value: "integer": spec in body must be of type string: "integer""#],
        ),
        (
            json!({"type": "string"}),
            json!(null),
            vec![r#"spec: Invalid value: "null": spec in body must be of type string: "null""#],
        ),
        (json!({"type": "string", "nullable": true}), json!(null), vec![]),
        (json!({"type": "integer"}), json!(1.0), vec![]),
        (
            json!({"type": "integer"}),
            json!(1.5),
            vec![
                r#"spec: Invalid value: "number": spec in body must be of type integer: "number""#,
                r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec"#,
            ],
        ),
        (json!({"type": "number"}), json!(1), vec![]),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000i64),
            vec![r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec"#],
        ),
        (json!({"type": "string", "maxLength": 2}), json!("abc"), vec!["spec: Too long: may not be more than 2 bytes"]),
        (
            json!({"type": "string", "minLength": 2}),
            json!("a"),
            vec![r#"spec: Invalid value: "a": spec in body should be at least 2 chars long"#],
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("b"),
            vec![r#"spec: Invalid value: "b": spec in body should match '^a+$'"#],
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            vec![r#"spec: Unsupported value: "c": supported values: "a", "b""#],
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            vec![r#"spec: Unsupported value: 3: supported values: "1", "2""#],
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("x"),
            vec![r#"spec: Invalid value: "x": spec in body must be of type date-time: "x""#],
        ),
        (
            json!({"type": "integer", "maximum": 5}),
            json!(6),
            vec!["spec: Invalid value: 6: spec in body should be less than or equal to 5"],
        ),
        (
            json!({"type": "number", "maximum": 5.5, "exclusiveMaximum": true}),
            json!(5.5),
            vec!["spec: Invalid value: 5.5: spec in body should be less than 5.5"],
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            vec!["spec: Invalid value: 0: spec in body should be greater than or equal to 1"],
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            vec!["spec: Invalid value: 4: spec in body should be a multiple of 3"],
        ),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
            json!(["a", 2]),
            vec![
                r#"spec[1]: Invalid value: "integer": spec[1] in body must be of type string: "integer""#,
                "spec: Too many: 2: must have at most 1 item",
            ],
        ),
        (
            json!({"type": "array", "minItems": 1, "items": {"type": "string"}}),
            json!([]),
            vec!["spec: Invalid value: 0: spec in body should have at least 1 items"],
        ),
        (json!({"type": "object", "required": ["a"]}), json!({}), vec!["spec.a: Required value"]),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            vec!["spec: Invalid value: 0: spec in body should have at least 1 properties"],
        ),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({"a": "x", "b": 1}),
            vec![
                "spec: Too many: 2: must have at most 1 item",
                r#"spec.b: Invalid value: "integer": spec.b in body must be of type string: "integer""#,
            ],
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            vec![r#"spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#],
        ),
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            vec![
                r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
                "spec.a: Required value",
            ],
        ),
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"a": 1, "b": 1}),
            vec![
                r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ],
        ),
        (
            json!({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            vec![
                r#"<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)"#,
                "spec.a: Required value",
            ],
        ),
        (
            json!({"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 1}]}),
            json!(2),
            vec![
                "spec: Invalid value: 2: spec in body should be greater than or equal to 3",
                "spec: Invalid value: 2: spec in body should be less than or equal to 1",
                r#"<nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated"#,
            ],
        ),
        (
            json!({"type": "integer", "not": {"minimum": 3}}),
            json!(4),
            vec![r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#],
        ),
    ] {
        assert_eq!(errors(schema.clone(), value.clone()), want, "{schema} {value}");
    }
}

#[test]
fn the_status_alone_is_named_from_its_own_root() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"n": {"type": "integer"}}})).unwrap();
    let got = validate(&json!({"n": "x"}), None, &schema, "status");
    assert_eq!(got[0].to_string(), r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#);
}

#[test]
fn what_did_not_change_is_let_through() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}}},
        "atomic": {"type": "array", "items": {"type": "string", "maxLength": 1}},
    }}}}))
    .unwrap();
    let old =
        json!({"spec": {"a": "long", "list": [{"k": "x", "v": "long"}, {"k": "y", "v": "s"}], "atomic": ["long"]}});
    for (new, count) in [
        (json!({"spec": {"a": "long"}}), 0),
        (json!({"spec": {"a": "longer"}}), 1),
        (json!({"spec": {"list": [{"k": "y", "v": "s"}, {"k": "x", "v": "long"}]}}), 0),
        (json!({"spec": {"list": [{"k": "z", "v": "long"}]}}), 1),
        (json!({"spec": {"atomic": ["long"]}}), 0),
        (json!({"spec": {"atomic": ["long", "s"]}}), 1),
    ] {
        assert_eq!(validate(&new, Some(&old), &schema, "").len(), count, "{new}");
    }
}

proptest! {
    #[test]
    fn an_unchanged_object_is_always_let_through(value in values()) {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "object", "additionalProperties": {"type": "string"}},
            "name": {"type": "array", "items": {"type": "boolean"}}}})).unwrap();
        let mut value = value;
        super::super::prune(&mut value, &schema, super::super::Root::Part);
        let complaints = validate(&value, Some(&value), &schema, "");
        prop_assert!(complaints.is_empty(), "{:?}", complaints);
    }
}
