//! What only pods have: binding to a node, and eviction within a disruption budget.

use std::sync::Arc;

use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::selector::Selector;
use karpenter_kinds::strategy::Part;
use serde_json::{Value, json};

use crate::delete::{self, DeleteOptions, Deleted};
use crate::error::ApiError;
use crate::history::Verb;
use crate::managed::{self, Author};
use crate::planted::Planted;
use crate::request::User;
use crate::state::State;
use crate::store::Object;
use crate::write::{self, Place};

/// Assigns a pod to a node, as the scheduler asks.
pub(crate) fn bind(state: &mut State, place: &Place, binding: &Value, dry_run: bool) -> Result<(), ApiError> {
    let target = &binding["target"];
    let kind = target["kind"].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if !kind.is_empty() && kind != "Node" && kind != "Minion" {
        errors.push(FieldError::not_supported("target.kind", kind, &["Node", "<empty>"]));
    }
    let node = target["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    if !errors.is_empty() {
        // The reference server has no status for these.
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(ApiError::new(500, "", karpenter_kinds::fielderror::aggregate(&texts)));
    }
    let pod = crate::read::get(state, &place.served, &place.namespace, &place.name)?;
    let mut value = pod.value();
    let conflict = |why: String| Err(ApiError::conflict("", "pods/binding", &place.name, &why));
    let uid = binding["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && uid != &*pod.uid {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", pod.uid);
        return Err(ApiError::conflict("", "pods", &place.name, &why));
    }
    if value["metadata"].get("deletionTimestamp").is_some() {
        return conflict(format!("pod {} is being deleted, cannot be assigned to a host", place.name));
    }
    if let Some(assigned) = value["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) {
        return conflict(format!("pod {} is already assigned to node {assigned:?}", place.name));
    }
    if value["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return conflict(format!("pod {} has non-empty .spec.schedulingGates", place.name));
    }
    value["spec"]["nodeName"] = Value::from(node);
    if let Some(status) = value["status"].as_object_mut() {
        status.shift_remove("nominatedNodeName");
    }
    for key in ["annotations", "labels"] {
        for (name, text) in binding["metadata"][key].as_object().into_iter().flatten() {
            value["metadata"][key][name] = text.clone();
        }
    }
    for (name, text) in topology_labels(state, node) {
        value["metadata"]["labels"][name] = text;
    }
    let now = state.now_text();
    set_condition(&mut value, json!({"type": "PodScheduled", "status": "True"}), &now);
    if dry_run {
        return Ok(());
    }
    let value = write::reorder(&place.served, value);
    let (table, now) = (place.served.table.expect("pods are stored"), state.now);
    let stored = state.store.put(table, &pod.key, value, Verb::Update, now);
    crate::admission::after_store(state, &place.served, &stored);
    Ok(())
}

/// A bound pod carries its node's zone and region.
fn topology_labels(state: &State, node: &str) -> Vec<(&'static str, Value)> {
    const KEYS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
    let Some(node) = state.registry.table("", "nodes").and_then(|table| state.store.get(table, node)) else {
        return Vec::new();
    };
    KEYS.iter().filter_map(|key| node.label(key).map(|value| (*key, Value::from(value)))).collect()
}

/// Sets a condition by type; the transition time moves when the status does.
pub(crate) fn set_condition(value: &mut Value, mut condition: Value, now: &str) {
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = Value::from(now);
    let conditions = &mut value["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    match list.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}

/// How long a client should wait before it tries an eviction again, where the server can tell.
const BUDGET_RETRY_SECONDS: i64 = 10;
/// More disrupted pods than this and the budget's controller has lost track.
const MAX_DISRUPTED_PODS: usize = 2000;

/// Deletes a pod if its disruption budget allows.
pub(crate) fn evict(state: &mut State, place: &Place, eviction: &Value, user: &User) -> Result<Deleted, ApiError> {
    let given = eviction["metadata"]["name"].as_str().unwrap_or_default();
    if !given.is_empty() && given != place.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = &eviction["deleteOptions"];
    let options = if options.is_null() { DeleteOptions::default() } else { DeleteOptions::from_value(options)? };
    let pod = crate::read::get(state, &place.served, &place.namespace, &place.name)?;
    let value = pod.value();
    let phase = value["status"]["phase"].as_str().unwrap_or_default();
    let ended = state.suffers(Planted::BudgetsIgnored)
        || matches!(phase, "Succeeded" | "Failed" | "Pending")
        || value["metadata"].get("deletionTimestamp").is_some();
    if ended {
        return mark_and_delete(state, place, options, user);
    }
    let budgets = budgets_of(state, &pod);
    if budgets.len() > 1 {
        let message =
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(ApiError::new(500, "", message));
    }
    let Some(budget) = budgets.into_iter().next() else {
        return mark_and_delete(state, place, options, user);
    };
    let pdb = budget.value();
    if !is_ready(&value) {
        let always = pdb["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        let number = |key: &str| pdb["status"][key].as_i64().unwrap_or(0);
        let healthy = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
        if always || healthy {
            return mark_and_delete(state, place, options, user);
        }
    }
    let mut pdb = take_from_budget(state, pdb, place)?;
    if !options.dry_run {
        let served = state.registry.find("policy", "v1", "poddisruptionbudgets").cloned();
        let served = served.expect("a built-in resource");
        let (table, now) = (served.table.expect("budgets are stored"), state.now);
        let live = budget.value();
        let text = state.now_text();
        let author = Author { manager: "kube-apiserver", part: Part::Status, subresource: "status", now: &text };
        managed::update(&served, Some(&live), &mut pdb, &author);
        state.store.put(table, &budget.key, write::reorder(&served, pdb), Verb::Update, now);
    }
    mark_and_delete(state, place, options, user)
}

/// An evicted pod says why it goes before it does.
fn mark_and_delete(
    state: &mut State,
    place: &Place,
    mut options: DeleteOptions,
    user: &User,
) -> Result<Deleted, ApiError> {
    let pod = crate::read::get(state, &place.served, &place.namespace, &place.name)?;
    delete::check_preconditions(place, &options, &pod)?;
    if !options.dry_run {
        let mut value = pod.value();
        let now = state.now_text();
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting"});
        set_condition(&mut value, condition, &now);
        let (table, now) = (place.served.table.expect("pods are stored"), state.now);
        state.store.put(table, &pod.key, write::reorder(&place.served, value), Verb::Update, now);
        // We are the one who changed it.
        options.version = None;
    }
    delete::delete(state, place, &options, user)
}

fn budgets_of(state: &State, pod: &Object) -> Vec<Arc<Object>> {
    let Some(table) = state.registry.table("policy", "poddisruptionbudgets") else {
        return Vec::new();
    };
    let prefix = format!("{}/", pod.namespace());
    let matches = |budget: &&Arc<Object>| {
        Selector::from_struct(budget.shared()["spec"].get("selector")).matches(|key| pod.label(key))
    };
    state.store.table(table).range(&prefix, None).filter(matches).cloned().collect()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The budget with one disruption less, or the refusal.
fn take_from_budget(state: &State, mut pdb: Value, place: &Place) -> Result<Value, ApiError> {
    let name = pdb["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let refuse = |message: String, retry: i64| {
        let mut error =
            ApiError::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", None);
        let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": message}]});
        if retry > 0 {
            details["retryAfterSeconds"] = Value::from(retry);
        }
        error.details = Some(details);
        Err(error)
    };
    if number(&pdb["status"]["observedGeneration"]) < number(&pdb["metadata"]["generation"]) {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        return refuse(message, BUDGET_RETRY_SECONDS);
    }
    let allowed = number(&pdb["status"]["disruptionsAllowed"]);
    let forbidden = |why: &str| Err(ApiError::forbidden("policy", "poddisruptionbudgets", &name, why));
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if pdb["status"]["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        let (desired, current) = (number(&pdb["status"]["desiredHealthy"]), number(&pdb["status"]["currentHealthy"]));
        let message = format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently");
        return refuse(message, 0);
    }
    let left = allowed - 1;
    pdb["status"]["disruptionsAllowed"] = Value::from(left);
    if left == 0 {
        set_budget_condition(&mut pdb, &state.now_text());
    }
    pdb["status"]["disruptedPods"][place.name.as_str()] = Value::from(state.now_text());
    Ok(pdb)
}

/// The condition a budget has when nothing is left of it.
fn set_budget_condition(pdb: &mut Value, now: &str) {
    let generation = pdb["status"]["observedGeneration"].clone();
    let conditions = &mut pdb["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    let mut condition = json!({"type": "DisruptionAllowed", "status": "False", "observedGeneration": generation,
        "lastTransitionTime": now, "reason": "InsufficientPods", "message": ""});
    match list.iter_mut().find(|old| old["type"] == "DisruptionAllowed") {
        Some(old) => {
            if old["status"] == "False" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}
