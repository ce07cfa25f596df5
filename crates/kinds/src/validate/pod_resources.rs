//! Resources of whole pods, and changes of resources in place.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{items, without_nulls};
use crate::fielderror::FieldError;
use crate::pods;
use crate::quantity::Quantity;

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| Quantity::parse(text).ok())
}

/// `spec.resources`: cpu, memory and huge pages for all containers together.
pub(super) fn of_pod(spec: &Value, field: &str) -> Vec<FieldError> {
    let Some(resources) = spec.get("resources").filter(|resources| resources.is_object()) else { return Vec::new() };
    let field = format!("{field}.resources");
    let mut errors = Vec::new();
    if resources.get("claims").is_some_and(Value::is_array) {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(format!("{field}.claims"), detail));
    }
    for list in ["limits", "requests"] {
        for (name, value) in resources[list].as_object().into_iter().flatten() {
            let at = format!("{field}.{list}[{name}]");
            let supported = ["cpu", "memory"].contains(&name.as_str()) || name.starts_with("hugepages-");
            if !supported {
                errors.push(FieldError::not_supported(&at, name, &["cpu", "hugepages-", "memory"]));
            }
            if quantity(value).is_some_and(|found| found.nanos < 0) {
                errors.push(FieldError::invalid(&at, value, "must be greater than or equal to 0"));
            }
            if list == "requests" {
                super::pod::request_against_limit(resources, name, &field, &mut errors);
            }
        }
    }
    claims(resources, spec, &field, &mut errors);
    errors.extend(against_containers(spec, resources, &field));
    errors
}

/// Claims must be among the pod's.
pub(super) fn claims(resources: &Value, spec: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut known: Vec<&str> =
        spec["resourceClaims"].as_array().into_iter().flatten().filter_map(|claim| claim["name"].as_str()).collect();
    known.sort_unstable();
    for (field, claim) in items(&resources["claims"], &format!("{field}.claims")) {
        let name = claim["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if !known.contains(&name) {
            let mut error = FieldError::not_found(field, name);
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            error.detail +=
                &if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", known.join(", ")) };
            errors.push(error);
        }
    }
}

/// What all containers ask for: the running ones and sidecars together, or the greediest moment of the start.
fn requested(spec: &Value) -> BTreeMap<String, Quantity> {
    let add = |total: &mut BTreeMap<String, Quantity>, container: &Value| {
        for (name, value) in container["resources"]["requests"].as_object().into_iter().flatten() {
            let Some(found) = quantity(value) else { continue };
            total.entry(name.clone()).and_modify(|sum| *sum = sum.plus(found)).or_insert(found);
        }
    };
    let mut total = BTreeMap::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        add(&mut total, container);
    }
    let (mut sidecars, mut peak) = (BTreeMap::new(), BTreeMap::<String, Quantity>::new());
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        let mut now = sidecars.clone();
        add(&mut now, container);
        if container["restartPolicy"] == "Always" {
            add(&mut total, container);
            sidecars = now.clone();
        }
        for (name, found) in now {
            let most = peak.entry(name).or_insert(found);
            *most = if found > *most { found } else { *most };
        }
    }
    for (name, found) in peak {
        let most = total.entry(name).or_insert(found);
        *most = if found > *most { found } else { *most };
    }
    total
}

fn against_containers(spec: &Value, resources: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, sum) in requested(spec) {
        if let Some(most) = quantity(&resources["requests"][&name]).filter(|most| sum > *most) {
            let detail =
                format!("must be greater than or equal to aggregate container requests of {}", sum.canonical());
            errors.push(FieldError::invalid(format!("{field}.requests[{name}]"), most.canonical(), detail));
        }
    }
    for (index, container) in spec["containers"].as_array().into_iter().flatten().enumerate() {
        for (name, value) in container["resources"]["limits"].as_object().into_iter().flatten() {
            let (Some(found), Some(most)) = (quantity(value), quantity(&resources["limits"][name])) else { continue };
            if found > most {
                let at = format!("{field}.containers[{index}][{name}].limits");
                let detail = format!("must be less than or equal to pod limits of {}", most.canonical());
                errors.push(FieldError::invalid(at, found.canonical(), detail));
            }
        }
    }
    errors
}

/// `resizePolicy` of a container.
pub(super) fn resize_policy(container: &Value, pod: &Value, field: &str) -> Vec<FieldError> {
    let field = format!("{field}.resizePolicy");
    let mut errors = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (index, policy) in container["resizePolicy"].as_array().into_iter().flatten().enumerate() {
        let text = |key: &str| policy[key].as_str().unwrap_or_default();
        let (resource, restart) = (text("resourceName"), text("restartPolicy"));
        if known.contains(&resource) {
            errors.push(FieldError::duplicate(format!("{field}[{index}]"), resource));
        }
        known.push(resource);
        errors.extend(super::one_of(&field, &policy["resourceName"], &["cpu", "memory"]));
        errors.extend(super::one_of(&field, &policy["restartPolicy"], &["NotRequired", "RestartContainer"]));
        if pod["restartPolicy"] == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(&field, restart, detail));
        }
    }
    errors
}

/// What a resize may change: cpu and memory, without changing the pod's quality of service.
pub(super) fn resize(object: &Value, old: &Value) -> Vec<FieldError> {
    let refused = |why: &str| vec![FieldError::forbidden("", why)];
    if old["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return refused("static pods cannot be resized");
    }
    if old["spec"]["os"]["name"] == "windows" {
        return refused("windows pods cannot be resized");
    }
    let (spec, before) = (&object["spec"], &old["spec"]);
    let mut errors = super::pod::spec(spec, "spec", super::pod::Owner::Pod);
    if old["status"]["qosClass"] != pods::qos_class(spec) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", &object["status"]["qosClass"], detail));
    }
    for list in ["initContainers", "containers"] {
        let both = spec[list].as_array().into_iter().flatten().zip(before[list].as_array().into_iter().flatten());
        for (index, (new, old)) in both.enumerate() {
            for (part, detail) in
                [("requests", "resource requests cannot be removed"), ("limits", "resource limits cannot be removed")]
            {
                let names = |container: &Value| -> Vec<String> {
                    let list = container["resources"][part].as_object().into_iter().flatten();
                    list.map(|(name, _)| name.clone()).collect()
                };
                let left = names(new);
                if names(old).iter().any(|name| !left.contains(name)) {
                    let field = format!("spec.{list}[{index}].resources.{part}");
                    errors.push(FieldError::forbidden(field, detail));
                }
            }
        }
    }
    for (list, detail) in [
        ("containers", "only cpu and memory resources are mutable"),
        ("initContainers", "only cpu and memory resources for init or sidecar containers are mutable"),
    ] {
        let both = spec[list].as_array().into_iter().flatten().zip(before[list].as_array().into_iter().flatten());
        for (index, (new, old)) in both.enumerate() {
            if without_compute(new) != without_compute(old) {
                let field = if list == "containers" { "spec".to_owned() } else { format!("spec.{list}[{index}]") };
                errors.push(FieldError::forbidden(field, detail));
            }
        }
    }
    errors
}

/// A container without its cpu and memory.
fn without_compute(container: &Value) -> Value {
    let mut container = container.clone();
    for part in ["requests", "limits"] {
        if let Some(list) = container["resources"][part].as_object_mut() {
            list.shift_remove("cpu");
            list.shift_remove("memory");
            if list.is_empty() {
                container["resources"][part] = Value::Null;
            }
        }
    }
    without_nulls(&container)
}

/// Ephemeral containers of a pod.
pub(super) fn ephemeral_containers(spec: &Value, field: &str, known: &[String]) -> Vec<FieldError> {
    const FORBIDDEN: [&str; 6] = ["ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let mut errors = Vec::new();
    let mut names = known.to_vec();
    for (field, container) in items(&spec["ephemeralContainers"], &format!("{field}.ephemeralContainers")) {
        super::pod::ephemeral(container, spec, &field, &mut errors);
        let name = container["name"].as_str().unwrap_or_default();
        if names.iter().any(|known| known == name) {
            errors.push(FieldError::duplicate(format!("{field}.name"), name));
        } else {
            names.push(name.to_owned());
        }
        let target = container["targetContainerName"].as_str().unwrap_or_default();
        if !target.is_empty() && !known.iter().any(|known| known == target) {
            errors.push(FieldError::not_found(format!("{field}.targetContainerName"), target));
        }
        for key in FORBIDDEN {
            let set = container.get(key).is_some_and(|value| without_nulls(value) != Value::Object(Default::default()));
            if set && !container[key].is_null() {
                errors.push(FieldError::forbidden(format!("{field}.{key}"), WHY));
            }
        }
        for (field, mount) in items(&container["volumeMounts"], &format!("{field}.volumeMounts")) {
            for key in ["subPath", "subPathExpr"] {
                if !mount[key].as_str().unwrap_or_default().is_empty() {
                    errors.push(FieldError::forbidden(format!("{field}.{key}"), WHY));
                }
            }
        }
    }
    errors
}

/// Ephemeral containers come and stay as they are.
pub(super) fn ephemeral_update(object: &Value, old: &Value) -> Vec<FieldError> {
    if old["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return vec![FieldError::forbidden("", "static pods do not support ephemeral containers")];
    }
    let mut errors = super::pod::spec(&object["spec"], "spec", super::pod::Owner::Pod);
    let now = object["spec"]["ephemeralContainers"].as_array();
    for old in old["spec"]["ephemeralContainers"].as_array().into_iter().flatten() {
        let name = old["name"].as_str().unwrap_or_default();
        let what = match now.into_iter().flatten().find(|new| new["name"] == name) {
            None => "removed\n",
            Some(new) if without_nulls(new) != without_nulls(old) => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name:?} may not be {what}");
        errors.push(FieldError::forbidden("spec.ephemeralContainers", detail));
    }
    errors
}
