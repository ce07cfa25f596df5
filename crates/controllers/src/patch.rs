//! What differs between an object as it was read and as it should be, as a merge patch.

use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::error::Result;
use crate::write::{Written, locked};

/// Whether somebody else may have written since. Patches of lists replace them whole and must not be lost or overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// A conflict if anything changed since the read.
    Version,
    /// For single fields and map entries.
    None,
}

impl Context {
    /// Writes metadata and spec where they differ. Answers the object as it is then; the same where nothing differs.
    pub async fn write<T: Written>(&self, before: &T, after: &T, lock: Lock) -> Result<T> {
        if before == after {
            return Ok(after.clone());
        }
        let (before_value, after_value) = (without_status(before), without_status(after));
        match difference(&before_value, &after_value) {
            None => Ok(after.clone()),
            Some(body) => self.merge(&name(before), &lock.on(body, before)).await,
        }
    }

    /// Writes the status where it differs. Under a lock it is replaced whole, which is less work for an API server than a
    /// patch; the definitions prune what our types do not know, so nothing is lost by it.
    pub async fn write_status<T: Written>(&self, before: &T, after: &T, lock: Lock) -> Result<T> {
        if before == after {
            return Ok(after.clone());
        }
        let wanted = only_status(after);
        match (difference(&only_status(before), &wanted), lock) {
            (None, _) => Ok(after.clone()),
            (Some(_), Lock::Version) => self.replace_status(&name(before), &lock.on(wanted, before)).await,
            (Some(body), Lock::None) => self.merge_status(&name(before), &body).await,
        }
    }
}

impl Lock {
    fn on<T: Written>(self, body: Value, read: &T) -> Value {
        match self {
            Self::Version => locked(body, read.meta().resource_version.as_deref()),
            Self::None => body,
        }
    }
}

fn name<T: Written>(object: &T) -> String {
    object.meta().name.clone().unwrap_or_default()
}

fn value<T: Written>(object: &T) -> Map<String, Value> {
    match serde_json::to_value(object) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn without_status<T: Written>(object: &T) -> Value {
    let mut fields = value(object);
    fields.remove("status");
    Value::Object(fields)
}

fn only_status<T: Written>(object: &T) -> Value {
    json!({"status": value(object).remove("status").unwrap_or_else(|| json!({}))})
}

/// What turns `before` into `after` as a merge patch (RFC 7386); `None` if they are equal.
pub fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(present) => patch.extend(difference(present, value).map(|change| (key.clone(), change))),
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_written() {
        for (before, after, want) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), Some(json!({"a": {"c": 3}}))),
            (json!({"a": {"b": 1}}), json!({"a": {}}), Some(json!({"a": {"b": null}}))),
            (json!({"l": [1, 2]}), json!({"l": [2]}), Some(json!({"l": [2]}))),
            (json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
        ] {
            assert_eq!(difference(&before, &after), want, "{before} to {after}");
        }
    }
}
