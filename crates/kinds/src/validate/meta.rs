//! Metadata, labels and selectors.

use serde_json::Value;

use super::items;
use crate::fielderror::FieldError;
use crate::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    Subdomain,
    Label,
    PathSegment,
    /// Judged when it was created.
    Any,
}

impl NameRule {
    fn check(self, name: &str) -> Result<(), Vec<String>> {
        match self {
            NameRule::Subdomain => names::dns_subdomain(name),
            NameRule::Label => names::dns_label(name),
            NameRule::PathSegment => names::path_segment(name),
            NameRule::Any => Ok(()),
        }
    }
}

const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;

/// Errors of an object's metadata.
pub fn metadata(namespaced: bool, rule: NameRule, object: &Value) -> Vec<FieldError> {
    let metadata = &object["metadata"];
    let mut errors = Vec::new();
    let text = |key: &str| metadata[key].as_str().unwrap_or_default();
    let (name, base) = (text("name"), text("generateName"));
    if !base.is_empty() {
        // A dash at the end is fine: something follows.
        let shown = base.strip_suffix('-').map(|rest| format!("{rest}a")).unwrap_or_else(|| base.to_owned());
        for message in rule.check(&shown).err().into_iter().flatten() {
            errors.push(FieldError::invalid("metadata.generateName", base, message));
        }
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        for message in rule.check(name).err().into_iter().flatten() {
            errors.push(FieldError::invalid("metadata.name", name, message));
        }
    }
    if namespaced && !text("namespace").is_empty() {
        for message in names::dns_label(text("namespace")).err().into_iter().flatten() {
            errors.push(FieldError::invalid("metadata.namespace", text("namespace"), message));
        }
    }
    errors.extend(labels(&metadata["labels"], "metadata.labels"));
    errors.extend(annotations(&metadata["annotations"], "metadata.annotations"));
    errors.extend(owner_references(&metadata["ownerReferences"]));
    // Custom resources are told by their group, which has a dot in it and is not Kubernetes' own.
    let group = object["apiVersion"].as_str().unwrap_or_default();
    let builtin = !group.contains('.') || group.split('/').next().is_some_and(|group| group.ends_with(".k8s.io"));
    errors.extend(finalizers(&metadata["finalizers"], builtin));
    errors
}

/// What may not change in metadata. Uids, names and times are restored before; what is left is what a client can touch.
pub fn metadata_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old["metadata"].get("deletionTimestamp").is_some() {
        let before: Vec<&Value> = old["metadata"]["finalizers"].as_array().into_iter().flatten().collect();
        let added: Vec<&str> = object["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|finalizer| !before.contains(finalizer))
            .filter_map(Value::as_str)
            .collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    errors
}

pub fn labels(labels: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        for message in names::qualified_name(key).err().into_iter().flatten() {
            errors.push(FieldError::invalid(field, key, message));
        }
        let value = value.as_str().unwrap_or_default();
        for message in names::label_value(value).err().into_iter().flatten() {
            errors.push(FieldError::invalid(field, value, message));
        }
    }
    errors
}

fn annotations(annotations: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        // Keys are checked in lower case: history has mixed ones.
        for message in names::qualified_name(&key.to_lowercase()).err().into_iter().flatten() {
            errors.push(FieldError::invalid(field, key, message));
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > MAX_ANNOTATIONS_BYTES {
        errors.push(FieldError::too_long(field, MAX_ANNOTATIONS_BYTES));
    }
    errors
}

fn owner_references(references: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controllers: Vec<String> = Vec::new();
    let field = "metadata.ownerReferences";
    for owner in references.as_array().into_iter().flatten() {
        let text = |key: &str| owner[key].as_str().unwrap_or_default();
        let api_version = text("apiVersion");
        if api_version.is_empty() || api_version.split('/').count() > 2 {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(format!("{field}.apiVersion"), api_version, detail));
        }
        for (key, detail) in
            [("kind", "must not be empty"), ("name", "must not be empty"), ("uid", "must not be empty")]
        {
            if text(key).is_empty() {
                errors.push(FieldError::invalid(format!("{field}.{key}"), text(key), detail));
            }
        }
        if api_version == "v1" && text("kind") == "Event" {
            let shown = format!("{api_version}, Kind=Event");
            errors.push(FieldError::invalid(field, shown, "is disallowed from being an owner"));
        }
        if owner["controller"] == true {
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if controllers.len() > 1 {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            controllers[0], controllers[1]
        );
        errors.push(FieldError::invalid("metadata.ownerReferences", references, detail));
    }
    errors
}

fn finalizers(list: &Value, kind_is_builtin: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut special = (false, false);
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    for (index, finalizer) in list.as_array().into_iter().flatten().filter_map(Value::as_str).enumerate() {
        if !finalizer.contains('/') && !STANDARD.contains(&finalizer) && kind_is_builtin {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{index}]"), finalizer, detail));
        }
        special.0 |= finalizer == "orphan";
        special.1 |= finalizer == "foregroundDeletion";
        for message in names::qualified_name(finalizer).err().into_iter().flatten() {
            errors.push(FieldError::invalid("metadata.finalizers", finalizer, message));
        }
    }
    if special == (true, true) {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", list, detail));
    }
    errors
}

/// A `LabelSelector` struct.
pub fn label_selector(selector: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = labels(&selector["matchLabels"], &format!("{field}.matchLabels"));
    for (field, expression) in items(&selector["matchExpressions"], &format!("{field}.matchExpressions")) {
        let count = expression["values"].as_array().map_or(0, Vec::len);
        match expression["operator"].as_str() {
            Some("In" | "NotIn") if count == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{field}.values"), detail));
            }
            Some("Exists" | "DoesNotExist") if count > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{field}.values"), detail));
            }
            Some("In" | "NotIn" | "Exists" | "DoesNotExist") => {}
            other => {
                let detail = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{field}.operator"), other.unwrap_or_default(), detail));
            }
        }
        let key = expression["key"].as_str().unwrap_or_default();
        for message in names::qualified_name(key).err().into_iter().flatten() {
            errors.push(FieldError::invalid(format!("{field}.key"), key, message));
        }
        for (index, value) in expression["values"].as_array().into_iter().flatten().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for message in names::label_value(value).err().into_iter().flatten() {
                errors.push(FieldError::invalid(format!("{field}.values[{index}]"), value, message));
            }
        }
    }
    errors
}
