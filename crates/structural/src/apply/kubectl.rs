//! Moving from `kubectl apply` as it was to server-side apply: what the old one set is kubectl's own.

use serde_json::Value;

use super::{Conflicts, Set, Write, typed};

pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(super) fn last_applied(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][LAST_APPLIED].as_str().filter(|text| !text.is_empty())
}

/// Conflicts about what `kubectl apply` of old set and nobody changed since are none; the others come back.
pub(super) fn owns(conflicts: &Conflicts, live: &Value, write: Write<'_>) -> Result<(), Conflicts> {
    let allowed = (|| {
        let last: Value = serde_json::from_str(last_applied(live)?).ok()?;
        let shape = write.versions.shape(write.api_version)?;
        if last["apiVersion"].as_str() != Some(write.api_version) {
            return None;
        }
        typed::check(&last, shape).ok()?;
        let comparison = typed::compare_objects(&last, live, shape, &Set::default());
        let set = typed::field_set(&last, shape);
        Some(set.difference(&comparison.modified).difference(&comparison.added).difference(&comparison.removed))
    })();
    let Some(allowed) = allowed else {
        return Err(conflicts.clone());
    };
    let rest: Conflicts = conflicts.iter().filter(|(_, path)| !allowed.has(path)).cloned().collect();
    if rest.is_empty() { Ok(()) } else { Err(rest) }
}

/// Whoever moves from client-side to server-side apply keeps the annotation true, so that he can go back.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if last_applied(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.shift_remove(LAST_APPLIED);
        if annotations.is_empty() {
            metadata.shift_remove("annotations");
        }
    }
    object["metadata"]["annotations"][LAST_APPLIED] = format!("{}\n", crate::go::marshal(&config)).into();
}
