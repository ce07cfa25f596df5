//! ResourceQuota: nothing is created that would take more than the namespace may have.
//!
//! The reference server trusts the usage its controller keeps in the status; here usage is counted when it matters, and
//! the status follows every change, so that quotas work without a controller.

use std::collections::BTreeMap;

use karpenter_kinds::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::{Attributes, limit_ranges};
use crate::error::ApiError;
use crate::history::Verb;
use crate::registry::Served;
use crate::state::State;

type Usage = BTreeMap<String, Quantity>;

/// A resource that would not fit.
struct Excess<'a> {
    resource: &'a str,
    requested: Quantity,
    used: Quantity,
    limit: Quantity,
}

fn quotas(state: &State, namespace: &str) -> Vec<(String, Value)> {
    let Some(table) = state.registry.table("", "resourcequotas") else { return Vec::new() };
    let prefix = format!("{namespace}/");
    state.store.table(table).range(&prefix, None).map(|quota| (quota.key.to_string(), quota.value())).collect()
}

pub(super) fn check(state: &State, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
    if !attributes.served.namespaced || attributes.served.is("", "ResourceQuota") {
        return Ok(());
    }
    let quotas = quotas(state, attributes.namespace);
    if quotas.is_empty() {
        return Ok(());
    }
    let added = usage_of(attributes.served, object);
    for (_, quota) in quotas {
        if !in_scope(&quota, attributes.served, object) {
            continue;
        }
        let hard = quota["spec"]["hard"].as_object().cloned().unwrap_or_default();
        let used = usage(state, attributes.namespace, &quota);
        let name = quota["metadata"]["name"].as_str().unwrap_or_default();
        if attributes.served.is("", "Pod") {
            must_specify(attributes, name, &hard, object)?;
        }
        let mut over: Vec<Excess<'_>> = Vec::new();
        for (resource, limit) in &hard {
            let (Some(limit), Some(request)) = (quantity(limit), added.get(resource)) else { continue };
            let current = used.get(resource).copied().unwrap_or(Quantity::from_units(0));
            if current.plus(*request) > limit && !request.is_zero() {
                over.push(Excess { resource, requested: *request, used: current, limit });
            }
        }
        if !over.is_empty() {
            let list = |pick: &dyn Fn(&Excess<'_>) -> Quantity| {
                let texts: Vec<String> =
                    over.iter().map(|entry| format!("{}={}", entry.resource, pick(entry).canonical())).collect();
                texts.join(",")
            };
            let why = format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                list(&|entry| entry.requested),
                list(&|entry| entry.used),
                list(&|entry| entry.limit)
            );
            return Err(attributes.forbidden(&why));
        }
    }
    Ok(())
}

/// A pod must say what a quota counts.
fn must_specify(
    attributes: &Attributes<'_>,
    quota: &str,
    hard: &Map<String, Value>,
    pod: &Value,
) -> Result<(), ApiError> {
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            for key in hard.keys() {
                let (part, resource) = match key.as_str() {
                    "cpu" | "memory" => ("requests", key.as_str()),
                    "requests.cpu" | "requests.memory" => ("requests", &key["requests.".len()..]),
                    "limits.cpu" | "limits.memory" => ("limits", &key["limits.".len()..]),
                    _ => continue,
                };
                if container["resources"][part].get(resource).is_none() {
                    let name = container["name"].as_str().unwrap_or_default().to_owned();
                    missing.entry(key.clone()).or_default().push(name);
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = missing.iter().map(|(key, names)| format!("{key} for: {}", names.join(","))).collect();
    Err(attributes.forbidden(&format!("failed quota: {quota}: must specify {}", texts.join("; "))))
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| Quantity::parse(text).ok())
}

/// What one object uses.
fn usage_of(served: &Served, object: &Value) -> Usage {
    let mut usage = Usage::new();
    let one = Quantity::from_units(1);
    let count = if served.group.is_empty() {
        format!("count/{}", served.plural)
    } else {
        format!("count/{}.{}", served.plural, served.group)
    };
    usage.insert(count, one);
    match (&*served.group, &*served.kind) {
        ("", "Pod") => {
            if matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                return usage;
            }
            usage.insert("pods".into(), one);
            for (part, prefix) in [("requests", "requests."), ("limits", "limits.")] {
                for (name, value) in limit_ranges::total(object, part).as_object().into_iter().flatten() {
                    let Some(value) = quantity(value) else { continue };
                    usage.insert(format!("{prefix}{name}"), value);
                    if part == "requests" && matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
                        usage.insert(name.clone(), value);
                    }
                }
            }
        }
        ("", "Service") => {
            usage.insert("services".into(), one);
            let kind = object["spec"]["type"].as_str().unwrap_or_default();
            let ports = object["spec"]["ports"].as_array().map_or(0, Vec::len);
            if kind == "LoadBalancer" {
                usage.insert("services.loadbalancers".into(), one);
            }
            if kind == "LoadBalancer" || kind == "NodePort" {
                usage.insert("services.nodeports".into(), Quantity::from_units(i64::try_from(ports).unwrap_or(0)));
            }
        }
        ("", "PersistentVolumeClaim") => {
            usage.insert("persistentvolumeclaims".into(), one);
            if let Some(size) = quantity(&object["spec"]["resources"]["requests"]["storage"]) {
                usage.insert("requests.storage".into(), size);
                if let Some(class) = object["spec"]["storageClassName"].as_str() {
                    usage.insert(format!("{class}.storageclass.storage.k8s.io/requests.storage"), size);
                    usage.insert(format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one);
                }
            }
        }
        ("", "ConfigMap" | "Secret" | "ReplicationController" | "ResourceQuota") => {
            usage.insert(served.plural.to_string(), one);
        }
        _ => {}
    }
    usage
}

/// What a quota counts in its namespace now.
fn usage(state: &State, namespace: &str, quota: &Value) -> Usage {
    let hard = quota["spec"]["hard"].as_object().cloned().unwrap_or_default();
    let mut total: Usage = hard.keys().map(|name| (name.clone(), Quantity::from_units(0))).collect();
    let prefix = format!("{namespace}/");
    for served in counted(state, &hard) {
        let Some(table) = served.table else { continue };
        for object in state.store.table(table).range(&prefix, None) {
            let value = object.value();
            if !in_scope(quota, &served, &value) {
                continue;
            }
            for (name, used) in usage_of(&served, &value) {
                if let Some(sum) = total.get_mut(&name) {
                    *sum = sum.plus(used);
                }
            }
        }
    }
    total
}

/// The kinds a quota's names speak of.
fn counted(state: &State, hard: &Map<String, Value>) -> Vec<std::sync::Arc<Served>> {
    let mut found = Vec::new();
    let mut add = |group: &str, plural: &str| {
        let mut versions: Vec<_> = state
            .registry
            .all()
            .filter(|served| &*served.group == group && &*served.plural == plural)
            .cloned()
            .collect();
        versions.sort_by(|a, b| a.version.cmp(&b.version));
        if let Some(served) = versions.into_iter().next()
            && !found.iter().any(|known: &std::sync::Arc<Served>| known.table == served.table)
        {
            found.push(served);
        }
    };
    for name in hard.keys() {
        if let Some(counted) = name.strip_prefix("count/") {
            let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
            add(group, plural);
        } else if name.contains("storageclass.storage.k8s.io")
            || name == "persistentvolumeclaims"
            || name == "requests.storage"
        {
            add("", "persistentvolumeclaims");
        } else if name.starts_with("services") {
            add("", "services");
        } else if matches!(name.as_str(), "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas") {
            add("", name);
        } else {
            add("", "pods");
        }
    }
    found
}

/// Whether the quota's scopes include the object. Scopes speak of pods alone.
fn in_scope(quota: &Value, served: &Served, object: &Value) -> bool {
    let scopes = quota["spec"]["scopes"].as_array().cloned().unwrap_or_default();
    let selector = quota["spec"]["scopeSelector"]["matchExpressions"].as_array().cloned().unwrap_or_default();
    if scopes.is_empty() && selector.is_empty() {
        return true;
    }
    if !served.is("", "Pod") {
        return false;
    }
    let of = |scope: &str| match scope {
        "Terminating" => object["spec"].get("activeDeadlineSeconds").is_some(),
        "NotTerminating" => object["spec"].get("activeDeadlineSeconds").is_none(),
        "BestEffort" => karpenter_kinds::pods::qos_class(&object["spec"]) == "BestEffort",
        "NotBestEffort" => karpenter_kinds::pods::qos_class(&object["spec"]) != "BestEffort",
        "PriorityClass" => object["spec"].get("priorityClassName").is_some(),
        _ => false,
    };
    let by_selector = |expression: &Value| {
        let scope = expression["scopeName"].as_str().unwrap_or_default();
        let class = &object["spec"]["priorityClassName"];
        let listed = expression["values"].as_array().is_some_and(|values| values.contains(class));
        match expression["operator"].as_str() {
            Some("In") if scope == "PriorityClass" => listed,
            Some("NotIn") if scope == "PriorityClass" => !listed,
            Some("DoesNotExist") => !of(scope),
            _ => of(scope),
        }
    };
    scopes.iter().filter_map(Value::as_str).all(of) && selector.iter().all(by_selector)
}

/// The status of the namespace's quotas after something changed there.
pub(super) fn refresh(state: &mut State, served: &Served, namespace: &str) {
    if !served.namespaced || namespace.is_empty() {
        return;
    }
    let quotas = quotas(state, namespace);
    if quotas.is_empty() {
        return;
    }
    let Some(served) = state.registry.find("", "v1", "resourcequotas").cloned() else { return };
    let Some(table) = served.table else { return };
    for (key, mut quota) in quotas {
        let used: Map<String, Value> = usage(state, namespace, &quota)
            .into_iter()
            .map(|(name, used)| (name, Value::from(used.canonical())))
            .collect();
        let before = quota.clone();
        quota["status"] = json!({"hard": quota["spec"]["hard"], "used": used});
        let quota = crate::write::reorder(&served, quota);
        if quota != before {
            let now = state.now;
            state.store.put(table, &key, quota, Verb::System, now);
        }
    }
}
