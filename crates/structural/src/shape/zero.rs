//! What the server's own types always have: a struct that is not a pointer is there even when it is empty, and so are
//! required fields. Objects of built-in kinds come out of the real server with them, and are compared with them.

use serde_json::{Map, Value};

use super::{Field, Shape};

/// Adds to an object of a built-in kind the fields its Go type writes even when nobody set them: empty structs such as
/// `resources: {}`, empty strings, nulls of required lists. Objects of other kinds are left as they are.
pub fn fill_zero_fields(value: &mut Value, shape: Shape<'_>) {
    if shape.is_native() {
        fill(value, shape);
    }
}

fn fill(value: &mut Value, shape: Shape<'_>) {
    match value {
        Value::Object(fields) => {
            let Some(map) = shape.map() else { return };
            for field in map.fields() {
                if fields.get(&field.name).is_some_and(|value| !value.is_null()) {
                    continue;
                }
                if let Some(zero) = zero_of(field) {
                    fields.insert(field.name.clone(), zero.cloned().unwrap_or_default());
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(under) = map.under(name) {
                    fill(value, under);
                }
            }
        }
        Value::Array(items) => {
            let Some(list) = shape.list() else { return };
            items.iter_mut().for_each(|item| fill(item, list.element));
        }
        _ => {}
    }
}

/// What a type writes for a field nobody set, if anything; `Some(None)` is a null.
pub(crate) fn zero_of(field: &Field) -> Option<Option<&Value>> {
    match &field.default {
        Some(default) => is_zero(default).then_some(Some(default)),
        None => field.required.then_some(None),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields == &Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::builtin;
    use super::*;

    #[test]
    fn empty_structs_are_there() {
        let shape = builtin::shapes().kind("apps/v1", "Deployment").unwrap();
        let mut value = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i"}]}}}});
        fill_zero_fields(&mut value, shape);
        assert_eq!(
            value,
            json!({
                "metadata": {}, "status": {},
                "spec": {"selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": [
                    {"name": "a", "image": "i", "resources": {}}]}}},
            })
        );
    }
}
