//! Pruning: what the schema does not know is dropped, unless it says to keep it.

use serde_json::Value;

use super::{Additional, Schema};
use crate::field::{child, index};

/// Whether a value is a whole object of the API, whose `metadata` and type the schema need not mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    Resource,
    Part,
}

/// Drops unknown fields and returns their paths, in order: what the server warns of or refuses under field validation.
pub fn prune(value: &mut Value, schema: &Schema, root: Root) -> Vec<String> {
    let mut dropped = Vec::new();
    let embedded = schema.embedded_resource || root == Root::Resource;
    Pruner { dropped: &mut dropped }.node(value, Some(schema), embedded, "");
    dropped.sort();
    dropped
}

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

struct Pruner<'a> {
    dropped: &'a mut Vec<String>,
}

impl Pruner<'_> {
    fn node(&mut self, value: &mut Value, schema: Option<&Schema>, embedded: bool, path: &str) {
        let keep = schema.is_some_and(Schema::preserves_unknown_fields);
        match value {
            Value::Object(fields) => {
                let names: Vec<String> = fields.keys().cloned().collect();
                for name in names {
                    if embedded && META.contains(&name.as_str()) {
                        continue;
                    }
                    let place = match schema {
                        None => Place::Nowhere,
                        Some(schema) => match (schema.properties.get(&name), &schema.additional) {
                            (Some(property), _) => Place::Schema(property),
                            (None, Some(Additional::Schema(schema))) => Place::Schema(schema),
                            (None, Some(Additional::Allowed(_))) => Place::Untyped,
                            (None, None) => Place::Nowhere,
                        },
                    };
                    let inside = child(path, &name);
                    match place {
                        Place::Schema(schema) => {
                            let value = fields.get_mut(&name).expect("the key was just read");
                            self.node(value, Some(schema), schema.embedded_resource, &inside);
                        }
                        // `additionalProperties: true` allows any key but says nothing of what is in it.
                        Place::Untyped => {
                            let value = fields.get_mut(&name).expect("the key was just read");
                            self.node(value, None, false, &inside);
                        }
                        Place::Nowhere if keep => {}
                        Place::Nowhere => {
                            if !(path.is_empty() && META.contains(&name.as_str())) {
                                self.dropped.push(inside);
                            }
                            fields.shift_remove(&name);
                        }
                    }
                }
            }
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                let embedded = schema.is_some_and(|schema| schema.embedded_resource);
                for (at, item) in items.iter_mut().enumerate() {
                    match schema {
                        // Inside of what is kept, items are only looked at where they have a schema.
                        None if keep => {}
                        Some(schema) if keep => self.kept_item(item, schema, &index(path, at)),
                        schema => self.node(item, schema, embedded, &index(path, at)),
                    }
                }
            }
            _ => {}
        }
    }

    /// An item of a list that keeps its unknown fields keeps its own too, but is pruned below.
    fn kept_item(&mut self, value: &mut Value, schema: &Schema, path: &str) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    if schema.embedded_resource && META.contains(&name.as_str()) {
                        continue;
                    }
                    let inside = child(path, name);
                    match (schema.properties.get(name), &schema.additional) {
                        (Some(schema), _) => self.node(value, Some(schema), schema.embedded_resource, &inside),
                        (None, Some(Additional::Schema(schema))) => {
                            self.node(value, Some(schema), schema.embedded_resource, &inside);
                        }
                        (None, Some(Additional::Allowed(_))) => self.node(value, None, false, &inside),
                        (None, None) => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &schema.items else { return };
                for (at, item) in items.iter_mut().enumerate() {
                    self.kept_item(item, schema, &index(path, at));
                }
            }
            _ => {}
        }
    }
}

enum Place<'a> {
    Schema(&'a Schema),
    Untyped,
    Nowhere,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::values;

    fn schema() -> Schema {
        Schema::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "string"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "free": {"type": "object", "additionalProperties": true},
                "keep": {"x-kubernetes-preserve-unknown-fields": true, "type": "object", "properties": {
                    "pruned": {"type": "object", "properties": {"a": {"type": "string"}}}}},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
            }},
        }}))
        .unwrap()
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        for (given, want, dropped) in [
            (
                json!({"apiVersion": "x", "kind": "y", "metadata": {"z": 1}, "spec": {"a": "1", "b": 2}}),
                json!({"apiVersion": "x", "kind": "y", "metadata": {"z": 1}, "spec": {"a": "1"}}),
                vec!["spec.b"],
            ),
            (
                json!({"zip": 1, "spec": {"list": [{"a": "x", "b": 1}, 3]}}),
                json!({"spec": {"list": [{"a": "x"}, 3]}}),
                vec!["spec.list[0].b", "zip"],
            ),
            (
                json!({"spec": {"map": {"k": {"a": "x", "b": 1}}}}),
                json!({"spec": {"map": {"k": {"a": "x"}}}}),
                vec!["spec.map.k.b"],
            ),
            (
                json!({"spec": {"free": {"k": 1, "l": {"m": 2}}}}),
                json!({"spec": {"free": {"k": 1, "l": {}}}}),
                vec!["spec.free.l.m"],
            ),
            (
                json!({"spec": {"keep": {"x": {"y": 1}, "pruned": {"a": "1", "b": 2}}}}),
                json!({"spec": {"keep": {"x": {"y": 1}, "pruned": {"a": "1"}}}}),
                vec!["spec.keep.pruned.b"],
            ),
            (
                json!({"spec": {"pod": {"apiVersion": "v1", "metadata": {}, "spec": {"x": 1}, "y": 1}}}),
                json!({"spec": {"pod": {"apiVersion": "v1", "metadata": {}, "spec": {}}}}),
                vec!["spec.pod.spec.x", "spec.pod.y"],
            ),
        ] {
            let mut value = given.clone();
            let got = prune(&mut value, &schema(), Root::Resource);
            assert_eq!((value, got), (want, dropped.into_iter().map(str::to_owned).collect::<Vec<_>>()), "{given}");
        }
    }

    proptest! {
        #[test]
        fn what_is_pruned_has_nothing_left_to_prune(value in values()) {
            let mut value = json!({"spec": value});
            prune(&mut value, &schema(), Root::Resource);
            prop_assert!(prune(&mut value, &schema(), Root::Resource).is_empty());
        }
    }
}
