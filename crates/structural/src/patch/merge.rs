//! RFC 7386 merge patch, as kube-apiserver does it.

use serde_json::{Map, Value};

use super::PatchError;

/// Applies a merge patch, given decoded. A patch that is a list takes the place of the document, as on the real server,
/// where it then fails to decode.
pub fn merge_patch(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            let mut document = document.clone();
            merge(&mut document, patch);
            Ok(Value::Object(document))
        }
        (_, Value::Object(_) | Value::Array(_)) => Ok(without_nulls(patch)),
        _ => Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
    }
}

fn merge(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, change) in patch {
        match (document.get_mut(key), change) {
            (_, Value::Null) => {
                document.shift_remove(key);
            }
            (Some(Value::Object(current)), Value::Object(change)) => merge(current, change),
            // What takes the place of an object keeps its nulls; the library does not look into it.
            (Some(current @ Value::Object(_)), change) => *current = change.clone(),
            (_, change) => {
                document.insert(key.clone(), without_nulls(change));
            }
        }
    }
}

/// A null in an object means "absent"; in a list it is an element.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::values;

    #[test]
    fn patches_of_the_rfc() {
        for (document, patch, want) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({"a": 1}), json!({"a": [null, {"b": null}]}), json!({"a": [null, {}]})),
            (json!({"a": {}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
        ] {
            assert_eq!(merge_patch(&document, &patch).unwrap(), want, "{document} + {patch}");
        }
        let error = merge_patch(&json!({}), &json!("x")).unwrap_err();
        assert_eq!(error, PatchError::BadRequest("Invalid JSON Patch".to_owned()));
    }

    proptest! {
        #[test]
        fn a_second_time_changes_nothing(document in values(), patch in values()) {
            if let (Value::Object(_), Value::Object(_)) = (&document, &patch) {
                let once = merge_patch(&document, &patch).unwrap();
                prop_assert_eq!(merge_patch(&once, &patch).unwrap(), once);
            }
        }
    }
}
