//! NodePools and NodeClaims.

use serde_json::{Map, Value, json};

use super::{
    ExpiryOfPool, KUBELET, NODE_CLASS_REFERENCE, annotation, existing, remove_annotation, set_annotation, text,
};
use crate::labels;
use crate::nodepool::consolidation_policy::{BALANCED, WHEN_EMPTY, WHEN_EMPTY_OR_UNDERUTILIZED};
use crate::requirement::operator;

/// What v1 calls `WhenEmptyOrUnderutilized`.
const WHEN_UNDERUTILIZED: &str = "WhenUnderutilized";
/// Without a pause: what `WhenUnderutilized` always meant.
const AT_ONCE: &str = "0s";
const NEVER: &str = crate::duration::NEVER;
const TEMPLATE: &str = "/spec/template/spec";

pub(super) fn pool_up(pool: &mut Value) {
    template_up(pool, TEMPLATE);
    let Some(spec) = existing(pool, "/spec") else { return };
    let Some(disruption) = spec.get_mut("disruption").and_then(Value::as_object_mut) else { return };
    let expire_after = disruption.shift_remove("expireAfter");
    let nothing_else = expire_after.is_some() && disruption.is_empty();
    let under = match disruption.get("consolidationPolicy").and_then(Value::as_str) {
        Some(WHEN_UNDERUTILIZED) => {
            disruption.insert("consolidationPolicy".to_owned(), WHEN_EMPTY_OR_UNDERUTILIZED.into());
            true
        }
        _ => false,
    };
    if under && !disruption.contains_key("consolidateAfter") {
        disruption.insert("consolidateAfter".to_owned(), AT_ONCE.into());
    }
    if nothing_else {
        spec.shift_remove("disruption");
    }
    if let Some(expire_after) = expire_after
        && let Some(template) = existing(pool, TEMPLATE)
    {
        template.insert("expireAfter".to_owned(), expire_after);
    }
}

pub(super) fn pool_down(pool: &mut Value) {
    template_down(pool, TEMPLATE);
    let expire_after = existing(pool, TEMPLATE).and_then(|template| template.shift_remove("expireAfter"));
    let Some(spec) = existing(pool, "/spec") else { return };
    spec.shift_remove("replicas");
    if let Some(disruption) = spec.get_mut("disruption").and_then(Value::as_object_mut) {
        let policy = disruption.get("consolidationPolicy").and_then(Value::as_str).map(str::to_owned);
        if matches!(policy.as_deref(), Some(WHEN_EMPTY_OR_UNDERUTILIZED | BALANCED)) {
            disruption.insert("consolidationPolicy".to_owned(), WHEN_UNDERUTILIZED.into());
        }
        let never = disruption.get("consolidateAfter").and_then(Value::as_str) == Some(NEVER);
        if policy.as_deref() != Some(WHEN_EMPTY) && !never {
            disruption.shift_remove("consolidateAfter");
        }
        for budget in disruption.get_mut("budgets").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(budget) = budget.as_object_mut() {
                budget.shift_remove("reasons");
            }
        }
    }
    if let Some(expire_after) = expire_after
        && let Some(disruption) = spec.entry("disruption").or_insert_with(|| Map::new().into()).as_object_mut()
    {
        disruption.insert("expireAfter".to_owned(), expire_after);
    }
    if let Some(status) = existing(pool, "/status") {
        status.shift_remove("nodes");
        status.shift_remove("nodeClassObservedGeneration");
    }
}

pub(super) fn claim_up(claim: &mut Value, expiry: ExpiryOfPool<'_>) {
    template_up(claim, "/spec");
    let pool =
        claim.pointer("/metadata/labels").and_then(|labels| labels.get(labels::NODEPOOL)).and_then(Value::as_str);
    if let Some(expire_after) = pool.and_then(expiry)
        && let Some(spec) = existing(claim, "/spec")
    {
        spec.insert("expireAfter".to_owned(), expire_after.into());
    }
}

pub(super) fn claim_down(claim: &mut Value) {
    template_down(claim, "/spec");
    if let Some(spec) = existing(claim, "/spec") {
        spec.shift_remove("expireAfter");
    }
    if let Some(status) = existing(claim, "/status") {
        status.shift_remove("lastPodEventTime");
    }
}

/// What the template of a pool and the spec of a claim have in common.
fn template_up(object: &mut Value, place: &str) {
    let Some(spec) = existing(object, place) else { return };
    let kubelet = spec.shift_remove("kubelet");
    let reference = spec.get("nodeClassRef").cloned().unwrap_or_else(|| json!({"name": ""}));
    let part = |field: &str| text(&reference, field).to_owned();
    let group = match part("apiVersion").split_once('/') {
        Some((group, _)) => group.to_owned(),
        None => part("apiVersion"),
    };
    let or = |given: String, otherwise: &str| if given.is_empty() { otherwise.to_owned() } else { given };
    // An absent reference is an empty one; there is nothing to guess.
    let known = |otherwise| if part("name").is_empty() { "" } else { otherwise };
    let converted = json!({
        "group": or(group, known(labels::AWS_GROUP)),
        "kind": or(part("kind"), known("EC2NodeClass")),
        "name": part("name"),
    });
    spec.insert("nodeClassRef".to_owned(), converted);
    match kubelet {
        Some(kubelet) => set_annotation(object, KUBELET, &kubelet.to_string()),
        None => drop(remove_annotation(object, KUBELET)),
    }
    set_annotation(object, NODE_CLASS_REFERENCE, &reference.to_string());
}

fn template_down(object: &mut Value, place: &str) {
    let parsed = |text: String| serde_json::from_str::<Value>(&text).ok().filter(Value::is_object);
    let reference = annotation(object, NODE_CLASS_REFERENCE).map(str::to_owned).and_then(parsed);
    remove_annotation(object, NODE_CLASS_REFERENCE);
    let kubelet = remove_annotation(object, KUBELET).and_then(parsed);
    let Some(spec) = existing(object, place) else { return };
    if let Some(current) = spec.get("nodeClassRef").cloned() {
        let part = |field: &str| text(&current, field).to_owned();
        // A reference that was changed since is not the one remembered.
        let same = |old: &Value| text(old, "name") == part("name");
        let shown = reference.filter(same).unwrap_or_else(|| json!({"kind": part("kind"), "name": part("name")}));
        if shown == json!({"name": ""}) && current == json!({"group": "", "kind": "", "name": ""}) {
            spec.shift_remove("nodeClassRef");
        } else {
            spec.insert("nodeClassRef".to_owned(), shown);
        }
    }
    if let Some(kubelet) = kubelet {
        spec.insert("kubelet".to_owned(), kubelet);
    }
    spec.shift_remove("terminationGracePeriod");
    for requirement in spec.get_mut("requirements").and_then(Value::as_array_mut).into_iter().flatten() {
        strictly(requirement);
    }
}

/// v1beta1 knows only `Gt` and `Lt`. Labels are never negative, so `Gte 0` asks that there is one.
fn strictly(requirement: &mut Value) {
    let bound = requirement.pointer("/values/0").and_then(Value::as_str).and_then(|text| text.parse::<i64>().ok());
    let (Some(bound), Some(map)) = (bound, requirement.as_object_mut()) else { return };
    let (name, value) = match map.get("operator").and_then(Value::as_str) {
        Some(operator::GTE) if bound <= 0 => {
            map.insert("operator".to_owned(), operator::EXISTS.into());
            map.shift_remove("values");
            return;
        }
        Some(operator::GTE) => (operator::GT, bound - 1),
        Some(operator::LTE) => (operator::LT, bound.saturating_add(1)),
        _ => return,
    };
    map.insert("operator".to_owned(), name.into());
    map.insert("values".to_owned(), json!([value.to_string()]));
}
