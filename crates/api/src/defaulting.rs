//! Fills in what an API server would: the schema's defaults, also inside objects that were themselves filled in.

use serde_json::Value;

use crate::kind::Kind;
use crate::schema::{Schema, Shape, schema_of, v1beta1_schema_of};

/// Applies the defaults of the kind's CRD to a raw object, as the API server does when it reads one. A `null` where the
/// schema wants a value counts as absent. `status` is not made up, only completed when there is one.
pub fn apply_defaults(kind: Kind, object: &mut Value) {
    default(schema_of(kind), object);
}

/// As [`apply_defaults`], for an object of v1beta1. Kinds that v1beta1 did not have are left alone.
pub fn apply_v1beta1_defaults(kind: Kind, object: &mut Value) {
    if let Some(schema) = v1beta1_schema_of(kind) {
        default(schema, object);
    }
}

fn default(schema: &Schema, value: &mut Value) {
    match (&schema.shape, value) {
        (Shape::Object { properties, .. }, Value::Object(map)) => {
            for (name, schema) in properties {
                if map.get(*name).is_some_and(Value::is_null) {
                    map.shift_remove(*name);
                }
                if let Some(value) = &schema.default {
                    map.entry(*name).or_insert_with(|| value.clone());
                }
                if let Some(child) = map.get_mut(*name) {
                    default(schema, child);
                }
            }
        }
        (Shape::Map { values, .. }, Value::Object(map)) => {
            map.retain(|_, child| !child.is_null());
            map.values_mut().for_each(|child| default(values, child));
        }
        (Shape::List { items, .. }, Value::Array(elements)) => {
            elements.iter_mut().for_each(|child| default(items, child));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
