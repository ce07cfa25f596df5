//! Who set which field: `metadata.managedFields`.

use karpenter_kinds::strategy::Part;
use serde_json::Value;

use crate::error::ApiError;
use crate::registry::Served;
use crate::write::WriteOptions;

/// How an update names its fields.
pub(crate) enum Change<'a> {
    /// PUT and the patches: what differs is the manager's.
    Update,
    /// Server-side apply has already said whose is what.
    Applied(&'a Value),
}

/// The user agent up to its first slash, as the server names a manager nobody named.
pub(crate) fn default_manager(user_agent: &str) -> String {
    let name: String = user_agent
        .split('/')
        .next()
        .unwrap_or_default()
        .chars()
        .take(128)
        .collect();
    if name.is_empty() { "unknown".into() } else { name }
}

pub(crate) fn on_create(
    _served: &Served,
    object: &mut Value,
    _manual: Option<Value>,
    _options: &WriteOptions,
    _now: &str,
) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.shift_remove("managedFields");
    }
}

pub(crate) fn on_update(
    _served: &Served,
    object: &mut Value,
    old: &Value,
    change: Change<'_>,
    _part: Part,
    _options: &WriteOptions,
    _now: &str,
) -> Result<(), ApiError> {
    let managed = match change {
        Change::Applied(managed) => Some(managed.clone()),
        Change::Update => old["metadata"].get("managedFields").cloned(),
    };
    if let Some(metadata) = object["metadata"].as_object_mut() {
        match managed {
            Some(managed) => metadata.insert("managedFields".into(), managed),
            None => metadata.shift_remove("managedFields"),
        };
    }
    Ok(())
}

/// Whether nothing changed that is worth a write: times of managed fields alone are not.
pub(crate) fn same_ignoring_times(object: &Value, old: &Value) -> bool {
    let strip = |value: &Value| {
        let mut value = value.clone();
        for entry in value["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.shift_remove("time");
            }
        }
        value
    };
    object == old || strip(object) == strip(old)
}
