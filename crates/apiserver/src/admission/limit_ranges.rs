//! LimitRanger: defaults and bounds for the resources of pods and claims.

use karpenter_kinds::fielderror::aggregate;
use karpenter_kinds::quantity::Quantity;
use serde_json::{Map, Value};

use super::Attributes;
use crate::error::ApiError;
use crate::state::State;

fn ranges(state: &State, namespace: &str) -> Vec<Value> {
    let Some(table) = state.registry.table("", "limitranges") else { return Vec::new() };
    let prefix = format!("{namespace}/");
    state.store.table(table).range(&prefix, None).map(|range| range.value()).collect()
}

fn limits(range: &Value) -> impl Iterator<Item = &Value> {
    range["spec"]["limits"].as_array().into_iter().flatten()
}

/// Containers that say nothing get the namespace's defaults, and an annotation that says so.
pub(super) fn default_resources(state: &State, attributes: &Attributes<'_>, pod: &mut Value) {
    for range in ranges(state, attributes.namespace) {
        let (mut requests, mut limits_) = (Map::new(), Map::new());
        for limit in limits(&range).filter(|limit| limit["type"] == "Container") {
            for (name, value) in limit["defaultRequest"].as_object().into_iter().flatten() {
                requests.insert(name.clone(), value.clone());
            }
            for (name, value) in limit["default"].as_object().into_iter().flatten() {
                limits_.insert(name.clone(), value.clone());
            }
        }
        let mut notes = Vec::new();
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                for (key, defaults, word) in [("requests", &requests, "request"), ("limits", &limits_, "limit")] {
                    let mut set: Vec<&str> = Vec::new();
                    for (resource, value) in defaults {
                        if container["resources"][key].get(resource).is_none() {
                            container["resources"][key][resource] = value.clone();
                            set.push(resource);
                        }
                    }
                    set.sort_unstable();
                    if !set.is_empty() {
                        notes.push(format!("{} {word} for {what} {name}", set.join(", ")));
                    }
                }
            }
        }
        if !notes.is_empty() {
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"] = Value::from(note);
        }
    }
}

pub(super) fn check_pod(state: &State, attributes: &Attributes<'_>, pod: &Value) -> Result<(), ApiError> {
    for range in ranges(state, attributes.namespace) {
        let mut errors = Vec::new();
        for limit in limits(&range) {
            match limit["type"].as_str() {
                Some("Container") => {
                    for list in ["containers", "initContainers"] {
                        for container in pod["spec"][list].as_array().into_iter().flatten() {
                            check(
                                limit,
                                &container["resources"]["requests"],
                                &container["resources"]["limits"],
                                &mut errors,
                            );
                        }
                    }
                }
                Some("Pod") => check(limit, &total(pod, "requests"), &total(pod, "limits"), &mut errors),
                _ => {}
            }
        }
        if !errors.is_empty() {
            return Err(attributes.forbidden(&aggregate(&errors)));
        }
    }
    Ok(())
}

pub(super) fn check_claim(state: &State, attributes: &Attributes<'_>, claim: &Value) -> Result<(), ApiError> {
    for range in ranges(state, attributes.namespace) {
        for limit in limits(&range).filter(|limit| limit["type"] == "PersistentVolumeClaim") {
            let requests = &claim["spec"]["resources"]["requests"];
            let mut errors = Vec::new();
            for (name, enforced) in limit["min"].as_object().into_iter().flatten() {
                errors.extend(too_small("PersistentVolumeClaim", name, enforced, requests, &Value::Null));
            }
            for (name, enforced) in limit["max"].as_object().into_iter().flatten() {
                let kind = "PersistentVolumeClaim";
                let (enforced_q, request) = (quantity(enforced), quantity(&requests[name]));
                match request {
                    None => errors.push(format!(
                        "maximum {name} usage per {kind} is {}.  No request is specified",
                        text(enforced)
                    )),
                    Some(request) if enforced_q.is_some_and(|enforced| request > enforced) => errors.push(format!(
                        "maximum {name} usage per {kind} is {}, but request is {}",
                        text(enforced),
                        text(&requests[name])
                    )),
                    Some(_) => {}
                }
            }
            if !errors.is_empty() {
                return Err(attributes.forbidden(&aggregate(&errors)));
            }
        }
    }
    Ok(())
}

fn check(limit: &Value, requests: &Value, limits: &Value, errors: &mut Vec<String>) {
    let kind = limit["type"].as_str().unwrap_or_default();
    for (name, enforced) in limit["min"].as_object().into_iter().flatten() {
        errors.extend(too_small(kind, name, enforced, requests, limits));
    }
    for (name, enforced) in limit["max"].as_object().into_iter().flatten() {
        errors.extend(too_large(kind, name, enforced, requests, limits));
    }
    for (name, enforced) in limit["maxLimitRequestRatio"].as_object().into_iter().flatten() {
        errors.extend(ratio(kind, name, enforced, requests, limits));
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| Quantity::parse(text).ok())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("0")
}

fn too_small(kind: &str, name: &str, enforced: &Value, requests: &Value, limits: &Value) -> Option<String> {
    let least = quantity(enforced)?;
    let prefix = format!("minimum {name} usage per {kind} is {}", text(enforced));
    let Some(request) = quantity(&requests[name]) else { return Some(format!("{prefix}.  No request is specified")) };
    if request < least {
        return Some(format!("{prefix}, but request is {}", text(&requests[name])));
    }
    let limit = quantity(&limits[name])?;
    (limit < least).then(|| format!("{prefix}, but limit is {}", text(&limits[name])))
}

fn too_large(kind: &str, name: &str, enforced: &Value, requests: &Value, limits: &Value) -> Option<String> {
    let most = quantity(enforced)?;
    let prefix = format!("maximum {name} usage per {kind} is {}", text(enforced));
    let Some(limit) = quantity(&limits[name]) else { return Some(format!("{prefix}.  No limit is specified")) };
    if limit > most {
        return Some(format!("{prefix}, but limit is {}", text(&limits[name])));
    }
    let request = quantity(&requests[name])?;
    (request > most).then(|| format!("{prefix}, but request is {}", text(&requests[name])))
}

fn ratio(kind: &str, name: &str, enforced: &Value, requests: &Value, limits: &Value) -> Option<String> {
    let most = quantity(enforced)?;
    let prefix = format!("{name} max limit to request ratio per {kind} is {}", text(enforced));
    let present = |list: &Value| quantity(&list[name]).filter(|quantity| !quantity.is_zero());
    let Some(request) = present(requests) else {
        return Some(format!("{prefix}, but no request is specified or request is 0"));
    };
    let Some(limit) = present(limits) else {
        return Some(format!("{prefix}, but no limit is specified or limit is 0"));
    };
    let ratio = limit.nanos as f64 / request.nanos as f64;
    let most = most.nanos as f64 / 1e9;
    (ratio > most).then(|| format!("{prefix}, but provided ratio is {ratio:.6}"))
}

/// What a pod's containers come to together: those that run at once summed, initialisation by its peak.
pub(super) fn total(pod: &Value, key: &str) -> Value {
    let mut sums: Map<String, Value> = Map::new();
    let add = |sums: &mut Map<String, Value>, name: &str, value: Quantity| {
        let sum = sums.get(name).and_then(quantity).map_or(value, |sum| sum.plus(value));
        sums.insert(name.to_owned(), Value::from(sum.canonical()));
    };
    let entries = |container: &Value| -> Vec<(String, Quantity)> {
        let list = container["resources"][key].as_object().cloned().unwrap_or_default();
        list.into_iter().filter_map(|(name, value)| Some((name, quantity(&value)?))).collect()
    };
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        for (name, value) in entries(container) {
            add(&mut sums, &name, value);
        }
    }
    let mut sidecars: Map<String, Value> = Map::new();
    let mut peaks: Vec<(String, Quantity)> = Vec::new();
    for container in pod["spec"]["initContainers"].as_array().into_iter().flatten() {
        let sidecar = container["restartPolicy"] == "Always";
        for (name, value) in entries(container) {
            if sidecar {
                add(&mut sums, &name, value);
                add(&mut sidecars, &name, value);
                peaks.push((name.clone(), quantity(&sidecars[&name]).unwrap_or(value)));
            } else {
                let beside = sidecars.get(&name).and_then(quantity).map_or(value, |beside| beside.plus(value));
                peaks.push((name, beside));
            }
        }
    }
    for (name, peak) in peaks {
        if sums.get(&name).and_then(quantity).is_none_or(|sum| sum < peak) {
            sums.insert(name, Value::from(peak.canonical()));
        }
    }
    for (name, value) in pod["spec"]["resources"][key].as_object().into_iter().flatten() {
        sums.insert(name.clone(), value.clone());
    }
    for (name, value) in pod["spec"]["overhead"].as_object().into_iter().flatten() {
        if let Some(value) = quantity(value)
            && (key == "requests" || sums.contains_key(name))
        {
            add(&mut sums, name, value);
        }
    }
    Value::Object(sums)
}
