//! Defaults of the built-in kinds.

use serde_json::Value;

/// Fills in what the kind's version defaults.
pub fn apply(_group: &str, _version: &str, _kind: &str, _object: &mut Value) {}

/// A Job without a manual selector selects its own pods by its uid.
pub fn job_selector(_job: &mut Value) {}
