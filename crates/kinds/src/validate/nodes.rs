//! Nodes.

use serde_json::Value;

use super::items;
use crate::fielderror::FieldError;
use crate::names;

pub(super) fn validate(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known: Vec<(&str, &str)> = Vec::new();
    for (field, taint) in items(&object["spec"]["taints"], "metadata.taints") {
        let text = |key: &str| taint[key].as_str().unwrap_or_default();
        for message in names::qualified_name(text("key")).err().into_iter().flatten() {
            errors.push(FieldError::invalid(format!("{field}.key"), text("key"), message));
        }
        for message in names::label_value(text("value")).err().into_iter().flatten() {
            errors.push(FieldError::invalid(format!("{field}.value"), text("value"), message));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if text("effect").is_empty() {
            errors.push(FieldError::required(format!("{field}.effect"), ""));
        } else if !effects.contains(&text("effect")) {
            errors.push(FieldError::not_supported(format!("{field}.effect"), text("effect"), &effects));
        }
        let pair = (text("key"), text("effect"));
        if known.contains(&pair) {
            let mut error = FieldError::duplicate(&field, "");
            // The server's internal type, all its fields written out.
            error.value = Some(format!(
                "{{\"Key\":{:?},\"Value\":{:?},\"Effect\":{:?},\"TimeAdded\":{}}}",
                text("key"),
                text("value"),
                text("effect"),
                taint["timeAdded"]
            ));
            error.detail = "taints must be unique by key and effect pair".into();
            errors.push(error);
        }
        known.push(pair);
    }
    let ranges = object["spec"]["podCIDRs"].as_array().cloned().unwrap_or_else(|| {
        object["spec"]["podCIDR"].as_str().filter(|range| !range.is_empty()).map(Value::from).into_iter().collect()
    });
    for (index, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
        if !super::services::is_cidr(range) {
            errors.push(FieldError::invalid(format!("spec.podCIDRs[{index}]"), range, super::services::CIDR));
        }
    }
    errors
}

pub(super) fn update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |object: &Value, key: &str| object["spec"][key].as_str().unwrap_or_default().to_owned();
    let (new, before) = (text(object, "providerID"), text(old, "providerID"));
    if !before.is_empty() && new != before {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", detail));
    }
    let (new, before) = (text(object, "podCIDR"), text(old, "podCIDR"));
    if !before.is_empty() && new != before {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.podCIDRs", detail));
    }
    errors
}
