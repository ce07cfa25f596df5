//! What may change in a pod: images, deadlines, more tolerations, fewer gates, and little else.

use serde_json::Value;

use super::pod;
use crate::fielderror::FieldError;
use crate::strategy::Part;

const FORBIDDEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn update(part: Part, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match part {
        Part::Resize => return super::pod_resources::resize(object, old),
        Part::EphemeralContainers => return super::pod_resources::ephemeral_update(object, old),
        _ => {}
    }
    let (spec, before) = (&object["spec"], &old["spec"]);
    for list in ["containers", "initContainers"] {
        let (new, prior) = (spec[list].as_array(), before[list].as_array());
        if new.map_or(0, Vec::len) != prior.map_or(0, Vec::len) {
            let detail = format!(
                "pod updates may not add or remove {}",
                if list == "containers" { "containers" } else { "init containers" }
            );
            errors.push(FieldError::forbidden(format!("spec.{list}"), detail));
            return errors;
        }
        for (index, container) in new.into_iter().flatten().enumerate() {
            if container["image"].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(format!("spec.{list}[{index}].image"), ""));
            }
        }
    }
    errors.extend(deadline(spec, before));
    errors.extend(tolerations(spec, before));
    let gated = before["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    errors.extend(gates(spec, before));
    // Compare what is left, with everything that may change set as it was.
    let mut munged = spec.clone();
    for list in ["containers", "initContainers"] {
        for (index, container) in munged[list].as_array_mut().into_iter().flatten().enumerate() {
            container["image"] = before[list][index]["image"].clone();
        }
    }
    let mut restore = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if gated {
        // A gated pod may narrow where it goes; the scheduler has not looked at it yet.
        restore.extend(["nodeSelector", "affinity"]);
        errors.extend(narrowed(spec, before));
    }
    if before["terminationGracePeriodSeconds"].as_i64().is_some_and(|n| n < 0)
        && spec["terminationGracePeriodSeconds"] == 1
    {
        restore.push("terminationGracePeriodSeconds");
    }
    for key in restore {
        match before.get(key) {
            Some(value) => munged[key] = value.clone(),
            None => {
                if let Some(munged) = munged.as_object_mut() {
                    munged.shift_remove(key);
                }
            }
        }
    }
    if super::without_nulls(&munged) != super::without_nulls(before) {
        errors.push(FieldError::forbidden("spec", FORBIDDEN));
    }
    errors
}

fn deadline(spec: &Value, before: &Value) -> Vec<FieldError> {
    let (new, old) = (spec["activeDeadlineSeconds"].as_i64(), before["activeDeadlineSeconds"].as_i64());
    let field = "spec.activeDeadlineSeconds";
    match (new, old) {
        (Some(new), _) if new < 0 || new > i64::from(i32::MAX) => {
            vec![FieldError::invalid(field, new, "must be between 0 and 2147483647, inclusive")]
        }
        (Some(new), Some(old)) if new > old => {
            vec![FieldError::invalid(field, new, "must be less than or equal to previous value")]
        }
        (None, Some(_)) => {
            vec![FieldError::invalid(field, Value::Null, "must not update from a positive integer to nil value")]
        }
        _ => Vec::new(),
    }
}

fn tolerations(spec: &Value, before: &Value) -> Vec<FieldError> {
    let list = |spec: &Value| spec["tolerations"].as_array().cloned().unwrap_or_default();
    let (new, old) = (list(spec), list(before));
    let same_but_seconds = |a: &Value, b: &Value| {
        let strip = |value: &Value| {
            let mut value = value.clone();
            if let Some(fields) = value.as_object_mut() {
                fields.shift_remove("tolerationSeconds");
            }
            value
        };
        strip(a) == strip(b)
    };
    if old.iter().any(|old| !new.iter().any(|new| same_but_seconds(new, old))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return vec![FieldError::forbidden("spec.tolerations", detail)];
    }
    pod::tolerations(&spec["tolerations"], "spec.tolerations")
}

fn gates(spec: &Value, before: &Value) -> Vec<FieldError> {
    let names = |spec: &Value| -> Vec<String> {
        spec["schedulingGates"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|gate| gate["name"].as_str().map(str::to_owned))
            .collect()
    };
    let old = names(before);
    let mut errors = Vec::new();
    for (index, name) in names(spec).iter().enumerate() {
        if !old.contains(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(format!("spec.schedulingGates[{index}].name"), detail));
        }
    }
    errors
}

fn narrowed(spec: &Value, before: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in before["nodeSelector"].as_object().into_iter().flatten() {
        if spec["nodeSelector"].get(key) != Some(value) {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid("spec.nodeSelector", &spec["nodeSelector"], detail));
            break;
        }
    }
    errors
}

/// What a status update may not say.
pub(super) fn status(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nominated = object["status"]["nominatedNodeName"].as_str().unwrap_or_default();
    if !nominated.is_empty() {
        for message in crate::names::dns_subdomain(nominated).err().into_iter().flatten() {
            errors.push(FieldError::invalid("status.nominatedNodeName", nominated, message));
        }
        let bound = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        if bound && old["status"]["nominatedNodeName"].as_str() != Some(nominated) {
            let detail = "may not be set on pods that are already bound to a node";
            errors.push(FieldError::forbidden("status.nominatedNodeName", detail));
        }
    }
    let (new, before) = (&object["status"]["qosClass"], &old["status"]["qosClass"]);
    if new != before {
        errors.push(FieldError::invalid("status.qosClass", new, "field is immutable"));
    }
    for (index, condition) in object["status"]["conditions"].as_array().into_iter().flatten().enumerate() {
        let name = condition["type"].as_str().unwrap_or_default();
        for message in crate::names::qualified_name(name).err().into_iter().flatten() {
            errors.push(FieldError::invalid(format!("status.conditions[{index}].type"), name, message));
        }
    }
    errors
}
