//! Lists of type `set` hold no element twice, lists of type `map` no key.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Additional, Schema};
use crate::field::{FieldError, child, index, key};
use crate::go;

/// Checks the sets and keyed lists in an object.
pub fn validate_lists(value: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(value, schema, "", &mut errors);
    errors
}

fn node(value: &Value, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(Additional::Schema(schema)) = &schema.additional {
                    node(value, schema, &key(path, name), errors);
                }
                if let Some(property) = schema.properties.get(name) {
                    node(value, property, &child(path, name), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => {
                    for at in repeated(items) {
                        errors.push(FieldError::duplicate(&index(path, at), items[at].clone()));
                    }
                }
                Some("map") => keyed(items, schema, path, errors),
                _ => {}
            }
            if let Some(schema) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    node(item, schema, &index(path, at), errors);
                }
            }
        }
        _ => {}
    }
}

fn keyed(items: &[Value], schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(at) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&index(path, at), items[at].clone(), detail));
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let named = schema.list_map_keys.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
            Value::Object(named.collect::<Map<_, _>>())
        })
        .collect();
    for at in repeated(&keys) {
        errors.push(FieldError::duplicate(&index(path, at), keys[at].clone()));
    }
}

/// The places where a value comes for the second time; not those of the third.
fn repeated(items: &[Value]) -> Vec<usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut places = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let times = seen.entry(go::marshal(item)).or_default();
        *times += 1;
        if *times == 2 {
            places.push(at);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sets_and_keys_are_unique() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"], "items": {"type": "object"}},
            "deep": {"type": "object", "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}},
        }}))
        .unwrap();
        for (value, want) in [
            (json!({"set": ["a", "b"]}), vec![]),
            (json!({"set": ["a", "b", "a", "a"]}), vec![r#"set[2]: Duplicate value: "a""#]),
            (
                json!({"map": [{"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}]}),
                vec![r#"map[1]: Duplicate value: {"a":1,"b":2}"#],
            ),
            (json!({"map": [{"a": 1}, {"a": 1, "b": 2}]}), vec![]),
            (
                json!({"map": [{}, 3]}),
                vec!["map[1]: Invalid value: 3: must be an object for an array of list-type map"],
            ),
            (json!({"deep": {"k": [1, 1]}}), vec!["deep[k][1]: Duplicate value: 1"]),
        ] {
            let got: Vec<String> = validate_lists(&value, &schema).iter().map(ToString::to_string).collect();
            assert_eq!(got, want, "{value}");
        }
    }
}
