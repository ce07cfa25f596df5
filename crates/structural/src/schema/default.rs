//! Defaults, and the nulls that stand where a default or nothing should.

use serde_json::Value;

use super::{Additional, Schema};

/// Fills in the defaults of the schema, everywhere the value has a place for them. Run
/// [`drop_undefaulted_nulls`] first, as the server does.
pub fn apply_defaults(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                match fields.get_mut(name) {
                    None => {
                        fields.insert(name.clone(), default.clone());
                    }
                    Some(found) if found.is_null() && !property.nullable => *found = default.clone(),
                    Some(_) => {}
                }
            }
            for (name, value) in fields.iter_mut() {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(property), _) => apply_defaults(value, property),
                    (None, Some(Additional::Schema(additional))) => default_element(value, additional),
                    (None, _) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                default_element(item, schema);
            }
        }
        _ => {}
    }
}

fn default_element(value: &mut Value, schema: &Schema) {
    if value.is_null() && !schema.nullable {
        *value = schema.default.clone().unwrap_or_default();
    }
    apply_defaults(value, schema);
}

/// Takes out the nulls that may not be null and have no default.
pub fn drop_undefaulted_nulls(value: &mut Value, schema: &Schema) {
    walk(value, Some(schema));
}

fn walk(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => {
            let place = |name: &str| schema.and_then(|schema| schema.under(name));
            fields.retain(|name, value| {
                !(value.is_null() && place(name).is_some_and(|schema| !schema.nullable && schema.default.is_none()))
            });
            for (name, value) in fields.iter_mut() {
                walk(value, place(name));
            }
        }
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                walk(item, schema);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::values;

    fn schema() -> Schema {
        Schema::parse(&json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 3}}},
            "n": {"type": "string", "nullable": true, "default": "y"},
            "plain": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 1}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"c": {"type": "integer", "default": 2}}}},
        }}))
        .unwrap()
    }

    #[test]
    fn defaults_fill_what_is_missing() {
        for (given, want) in [
            (json!({}), json!({"a": "x", "b": {"c": 3}, "n": "y"})),
            (json!({"a": "z", "b": {"c": 1}, "n": null}), json!({"a": "z", "b": {"c": 1}, "n": null})),
            (json!({"a": null, "plain": null}), json!({"a": "x", "b": {"c": 3}, "n": "y"})),
            (json!({"list": [{}, null]}), json!({"a": "x", "b": {"c": 3}, "n": "y", "list": [{"c": 1}, {"c": 1}]})),
            (json!({"map": {"k": {}}}), json!({"a": "x", "b": {"c": 3}, "n": "y", "map": {"k": {"c": 2}}})),
        ] {
            let mut value = given.clone();
            drop_undefaulted_nulls(&mut value, &schema());
            apply_defaults(&mut value, &schema());
            assert_eq!(value, want, "{given}");
        }
    }

    proptest! {
        #[test]
        fn a_second_time_changes_nothing(mut value in values()) {
            let schema = schema();
            apply_defaults(&mut value, &schema);
            let once = value.clone();
            apply_defaults(&mut value, &schema);
            prop_assert_eq!(value, once);
        }
    }
}
