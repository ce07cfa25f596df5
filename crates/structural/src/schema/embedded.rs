//! Objects inside objects: whatever says `x-kubernetes-embedded-resource` has a type and a metadata of its own.

use serde_json::{Map, Value};

use super::{Additional, Schema};
use crate::field::{FieldError, child, index, key};
use crate::shape::{Shape, builtin};
use crate::strict::drop_unknown_fields;

/// Checks the embedded resources in an object. `metadata` judges an ObjectMeta found at a path, as the caller does for
/// the object itself.
pub fn validate_embedded(
    value: &Value,
    schema: &Schema,
    metadata: &dyn Fn(&Value, &str) -> Vec<FieldError>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(value, schema, "", metadata, &mut errors);
    errors
}

/// Drops the fields of an object's `metadata`, and of every embedded object's, that no metadata has; returns their paths,
/// in order. [`prune`](super::prune) leaves metadata alone, because a schema does not describe it.
pub fn drop_unknown_metadata(value: &mut Value, schema: &Schema) -> Vec<String> {
    let Some(shape) = builtin::shapes().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta") else {
        return Vec::new();
    };
    let mut dropped = Vec::new();
    clean(value, Some(schema), true, "", shape, &mut dropped);
    dropped.sort();
    dropped
}

fn clean(
    value: &mut Value,
    schema: Option<&Schema>,
    object: bool,
    path: &str,
    shape: Shape<'_>,
    dropped: &mut Vec<String>,
) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                let inside = child(path, name);
                if object && name == "metadata" {
                    let gone = drop_unknown_fields(value, shape);
                    dropped.extend(gone.iter().map(|field| child(&inside, field)));
                } else if let Some(under) = schema.and_then(|schema| schema.under(name)) {
                    clean(value, Some(under), under.embedded_resource, &inside, shape, dropped);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.and_then(|schema| schema.items.as_deref()) else { return };
            for (at, item) in items.iter_mut().enumerate() {
                clean(item, Some(schema), schema.embedded_resource, &index(path, at), shape, dropped);
            }
        }
        _ => {}
    }
}

fn node(
    value: &Value,
    schema: &Schema,
    path: &str,
    metadata: &dyn Fn(&Value, &str) -> Vec<FieldError>,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                resource(fields, path, metadata, errors);
            }
            for (name, value) in fields {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(property), _) => node(value, property, &child(path, name), metadata, errors),
                    (None, Some(Additional::Schema(schema))) => node(value, schema, &key(path, name), metadata, errors),
                    (None, _) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (at, item) in items.iter().enumerate() {
                node(item, schema, &index(path, at), metadata, errors);
            }
        }
        _ => {}
    }
}

fn resource(
    fields: &Map<String, Value>,
    path: &str,
    metadata: &dyn Fn(&Value, &str) -> Vec<FieldError>,
    errors: &mut Vec<FieldError>,
) {
    let api_version = child(path, "apiVersion");
    match fields.get("apiVersion") {
        None => errors.push(FieldError::required(&api_version, "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&api_version, "", "must not be empty"));
        }
        Some(Value::String(text)) if text.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {text}");
            errors.push(FieldError::invalid(&api_version, text.as_str(), detail));
        }
        Some(Value::String(_)) => {}
        Some(other) => errors.push(FieldError::invalid(&api_version, other.clone(), "must be a string")),
    }
    let kind = child(path, "kind");
    match fields.get("kind") {
        None => errors.push(FieldError::required(&kind, "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&kind, "", "must not be empty"));
        }
        Some(Value::String(text)) => {
            let problems = label_problems(&text.to_lowercase());
            if !problems.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
                errors.push(FieldError::invalid(&kind, text.as_str(), detail));
            }
        }
        Some(other) => errors.push(FieldError::invalid(&kind, other.clone(), "must be a string")),
    }
    if let Some(value) = fields.get("metadata") {
        errors.extend(metadata(value, &child(path, "metadata")));
    }
}

fn label_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let shaped = text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(inside) && !text.ends_with('-');
    if !shaped {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_has_only_its_own_fields() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {"pod": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}))
        .unwrap();
        let mut value =
            json!({"metadata": {"name": "a", "foo": 1}, "pod": {"metadata": {"labels": {"any": "x"}, "bar": 1}}});
        assert_eq!(drop_unknown_metadata(&mut value, &schema), ["metadata.foo", "pod.metadata.bar"]);
        assert_eq!(value, json!({"metadata": {"name": "a"}, "pod": {"metadata": {"labels": {"any": "x"}}}}));
    }

    #[test]
    fn embedded_objects_have_a_type() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {"pods": {"type": "array", "items": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}}))
        .unwrap();
        let value =
            json!({"pods": [{"apiVersion": "v1", "kind": "Pod"}, {"kind": "9"}, {"apiVersion": "a/b/c", "kind": 3}]});
        let got: Vec<String> =
            validate_embedded(&value, &schema, &|_, _| Vec::new()).iter().map(ToString::to_string).collect();
        assert_eq!(got.len(), 4, "{got:?}");
        assert_eq!(got[0], "pods[1].apiVersion: Required value");
        assert_eq!(got[2], "pods[2].apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c");
        assert_eq!(got[3], "pods[2].kind: Invalid value: 3: must be a string");
    }
}
