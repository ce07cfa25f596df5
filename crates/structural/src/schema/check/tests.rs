use serde_json::json;

use super::*;

fn problems(schema: Value) -> Vec<String> {
    let schema = Schema::parse(&schema).unwrap();
    check(&schema, "spec.validation", CheckOptions::default()).iter().map(ToString::to_string).collect()
}

#[test]
fn schemas_must_be_structural_and_plain() {
    let at = "spec.validation.openAPIV3Schema";
    let spec = |schema: Value| json!({"type": "object", "properties": {"spec": schema}});
    for (schema, want) in [
        (json!({"type": "object"}), vec![]),
        (json!({}), vec![format!("{at}.type: Required value: must not be empty at the root")]),
        (json!({"type": "string"}), vec![format!("{at}.type: Invalid value: \"string\": must be object at the root")]),
        (
            spec(json!({})),
            vec![format!("{at}.properties[spec].type: Required value: must not be empty for specified object fields")],
        ),
        (
            spec(json!({"type": "array"})),
            vec![format!("{at}.properties[spec].items: Required value: must be specified")],
        ),
        (
            spec(json!({"type": "frob"})),
            vec![format!(
                "{at}.properties[spec].type: Unsupported value: \"frob\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\""
            )],
        ),
        (
            spec(json!({"type": "string", "pattern": "("})),
            vec![format!(
                "{at}.properties[spec].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"
            )],
        ),
        (
            spec(json!({"type": "string", "default": 1})),
            vec![format!(
                "{at}.properties[spec].default: Invalid value: \"integer\":  in body must be of type string: \"integer\""
            )],
        ),
        (
            spec(json!({"type": "object", "default": {"x": 1}})),
            vec![format!("{at}.properties[spec].default: Invalid value: {{\"x\":1}}: must not have unknown fields")],
        ),
        (
            spec(json!({"type": "object", "anyOf": [{"type": "object"}]})),
            vec![format!("{at}.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural")],
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}),
            vec![format!("{at}.properties[a]: Required value: because it is defined in {at}.anyOf[0].properties[a]")],
        ),
        (spec(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})), vec![]),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            vec![format!(
                "{at}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
            )],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}}}),
            vec![],
        ),
        (
            spec(
                json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            ),
            vec![format!(
                "{at}.properties[spec].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )],
        ),
        (
            spec(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"})),
            vec![format!(
                "{at}.properties[spec].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set"
            )],
        ),
        (
            spec(
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            ),
            vec![format!(
                "{at}.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"
            )],
        ),
        (
            spec(json!({"type": "string", "uniqueItems": true, "$ref": "#/x"})),
            vec![
                format!("{at}.properties[spec].$ref: Forbidden: $ref is not supported"),
                format!(
                    "{at}.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
                ),
            ],
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "string", "default": "x"}}}),
            vec![format!("{at}.properties[kind].default: Forbidden: must not be set in top-level kind")],
        ),
        (
            spec(json!({"type": "string", "x-kubernetes-validations": [{"rule": " "}]})),
            vec![format!(
                "{at}.properties[spec].x-kubernetes-validations[0].rule: Required value: rule is not specified"
            )],
        ),
        (
            spec(
                json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != ''", "reason": "Odd", "fieldPath": ".x"}]}),
            ),
            vec![
                format!(
                    "{at}.properties[spec].x-kubernetes-validations[0].reason: Unsupported value: \"Odd\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\""
                ),
                format!(
                    "{at}.properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: \".x\": must be a valid path"
                ),
            ],
        ),
    ] {
        assert_eq!(problems(schema.clone()), want, "{schema}");
    }
}

#[test]
fn the_root_is_bare_where_there_is_a_status() {
    let options = CheckOptions { status_subresource: true };
    let schema = Schema::parse(
        &json!({"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}}),
    )
    .unwrap();
    let got = check(&schema, "spec.validation", options);
    assert_eq!(got.len(), 1);
    assert!(
        got[0].detail.ends_with("fields are allowed at the root of the schema if the status subresource is enabled")
    );
}
