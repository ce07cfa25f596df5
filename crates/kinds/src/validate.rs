//! Validation of the built-in kinds: what users meet, in the server's words.

use serde_json::Value;

use crate::fielderror::FieldError;
use crate::names;
use crate::strategy::Part;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    Subdomain,
    Label,
    Dns1035,
    PathSegment,
}

/// Errors of an object about to be created.
pub fn create(_group: &str, kind: &str, namespaced: bool, object: &Value) -> Vec<FieldError> {
    metadata(namespaced, name_rule(kind), object)
}

/// Errors of an update.
pub fn update(
    _group: &str,
    _kind: &str,
    _namespaced: bool,
    _part: Part,
    object: &Value,
    old: &Value,
) -> Vec<FieldError> {
    metadata_update(object, old)
}

fn name_rule(kind: &str) -> NameRule {
    match kind {
        "Namespace" => NameRule::Label,
        "Service" => NameRule::Dns1035,
        "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

pub fn metadata(_namespaced: bool, rule: NameRule, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        let check = match rule {
            NameRule::Subdomain => names::dns_subdomain(name),
            NameRule::Label => names::dns_label(name),
            NameRule::Dns1035 => names::dns1035_label(name),
            NameRule::PathSegment => names::path_segment(name),
        };
        for message in check.err().into_iter().flatten() {
            errors.push(FieldError::invalid("metadata.name", name, message));
        }
    }
    errors
}

pub fn metadata_update(_object: &Value, _old: &Value) -> Vec<FieldError> {
    Vec::new()
}
