//! Limit ranges and resource quotas.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::items;
use crate::fielderror::FieldError;
use crate::names;
use crate::quantity::Quantity;

type Amounts = BTreeMap<String, Quantity>;

fn amounts(list: &Value) -> Amounts {
    let list = list.as_object().into_iter().flatten();
    list.filter_map(|(name, value)| Some((name.clone(), Quantity::parse(value.as_str()?).ok()?))).collect()
}

pub(super) fn limit_range(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut types: Vec<&str> = Vec::new();
    for (field, limit) in items(&object["spec"]["limits"], "spec.limits") {
        let kind = limit["type"].as_str().unwrap_or_default();
        let at = format!("{field}.type");
        for message in names::qualified_name(kind).err().into_iter().flatten() {
            errors.push(FieldError::invalid(&at, kind, message));
        }
        if !kind.contains('/') && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind) {
            errors.push(FieldError::invalid(&at, kind, "must be a standard limit type or fully qualified"));
        }
        if types.contains(&kind) {
            errors.push(FieldError::duplicate(&at, kind));
        }
        types.push(kind);
        limit_item(limit, kind, &field, &mut errors);
    }
    errors
}

fn limit_item(limit: &Value, kind: &str, field: &str, errors: &mut Vec<FieldError>) {
    let mut lists: BTreeMap<&str, Amounts> = BTreeMap::new();
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if kind == "Pod" && (list == "default" || list == "defaultRequest") {
            if limit[list].as_object().is_some_and(|list| !list.is_empty()) {
                let detail = "may not be specified when `type` is 'Pod'";
                errors.push(FieldError::forbidden(format!("{field}.{list}"), detail));
            }
            continue;
        }
        if list == "maxLimitRequestRatio"
            && kind == "PersistentVolumeClaim"
            && limit["min"].get("storage").is_none()
            && limit["max"].get("storage").is_none()
        {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            errors.push(FieldError::required(format!("{field}.limits"), detail));
        }
        for name in limit[list].as_object().into_iter().flatten().map(|(name, _)| name) {
            let place = format!("{field}.{list}");
            if kind == "Pod" || kind == "Container" {
                super::pod::resource_name(name, &place, errors);
            } else {
                for message in names::qualified_name(name).err().into_iter().flatten() {
                    errors.push(FieldError::invalid(format!("{place}[{name}]"), name, message));
                }
            }
        }
        lists.insert(list, amounts(&limit[list]));
    }
    let names: BTreeSet<String> = lists.values().flat_map(|list| list.keys().cloned()).collect();
    for name in names {
        bounds(&lists, &name, field, errors);
    }
}

/// The bounds of one resource against each other.
fn bounds(lists: &BTreeMap<&str, Amounts>, name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let get = |list: &str| lists.get(list).and_then(|list| list.get(name)).copied();
    let (min, max) = (get("min"), get("max"));
    let (limit, request) = (get("default"), get("defaultRequest"));
    let mut check = |low: Option<Quantity>,
                     high: Option<Quantity>,
                     list: &str,
                     shown: Option<Quantity>,
                     words: (&str, &str)| {
        if let (Some(low), Some(high)) = (low, high)
            && low > high
        {
            let detail =
                format!("{} value {} is greater than {} value {}", words.0, low.canonical(), words.1, high.canonical());
            let value = shown.unwrap_or(low).canonical();
            errors.push(FieldError::invalid(format!("{field}.{list}[{name}]"), value, detail));
        }
    };
    check(min, max, "min", min, ("min", "max"));
    check(min, request, "defaultRequest", request, ("min", "default request"));
    check(request, max, "defaultRequest", request, ("default request", "max"));
    check(request, limit, "defaultRequest", request, ("default request", "default limit"));
    check(min, limit, "default", min, ("min", "default"));
    check(limit, max, "default", max, ("default", "max"));
    let Some(ratio) = get("maxLimitRequestRatio") else { return };
    let at = format!("{field}.maxLimitRequestRatio[{name}]");
    if ratio < Quantity::from_units(1) {
        let detail = format!("ratio {} is less than 1", ratio.canonical());
        errors.push(FieldError::invalid(&at, ratio.canonical(), detail));
    }
    if let (Some(min), Some(max)) = (min, max) {
        let most = max.nanos as f64 / min.nanos as f64;
        if ratio.nanos as f64 / 1e9 > most {
            let detail = format!("ratio {} is greater than max/min = {most:.6}", ratio.canonical());
            errors.push(FieldError::invalid(&at, ratio.canonical(), detail));
        }
    }
}

const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const STORAGE: [&str; 4] =
    ["ephemeral-storage", "requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage"];

fn is_standard(name: &str) -> bool {
    COUNTED.contains(&name)
        || COMPUTE.contains(&name)
        || STORAGE.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

pub(super) fn resource_quota(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    for (name, value) in spec["hard"].as_object().into_iter().flatten() {
        let field = format!("spec.hard[{name}]");
        for message in names::qualified_name(name).err().into_iter().flatten() {
            errors.push(FieldError::invalid(&field, name, message));
        }
        if !name.contains('/') && !is_standard(name) {
            errors.push(FieldError::invalid(&field, name, "must be a standard resource for quota"));
        }
        let Some(quantity) = value.as_str().and_then(|text| Quantity::parse(text).ok()) else { continue };
        if quantity.nanos < 0 {
            errors.push(FieldError::invalid(&field, value, "must be greater than or equal to 0"));
        }
        let extended = name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.");
        if (COUNTED.contains(&name.as_str()) || extended) && quantity.nanos % 1_000_000_000 != 0 {
            errors.push(FieldError::invalid(&field, value, "must be an integer"));
        }
    }
    errors.extend(scopes(spec));
    errors.extend(scope_selector(spec));
    errors
}

fn scope_fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => resource == "pods" || COMPUTE.contains(&resource),
    }
}

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
const CONTRADICTIONS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]];

fn standard_resources(spec: &Value) -> BTreeSet<&str> {
    let hard = spec["hard"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    hard.filter(|name| is_standard(name)).collect()
}

fn scopes(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let resources = standard_resources(spec);
    let scopes: Vec<&str> = spec["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut say = |detail: &str| errors.push(FieldError::invalid("spec.scopes", &spec["scopes"], detail));
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            say("unsupported scope");
        }
        for _ in resources.iter().filter(|resource| !scope_fits(scope, resource)) {
            say("unsupported scope applied to resource");
        }
    }
    for _ in CONTRADICTIONS.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))) {
        say("conflicting scopes");
    }
    errors
}

fn scope_selector(spec: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.scopeSelector.matchExpressions";
    let mut errors = Vec::new();
    for expression in spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten() {
        let text = |key: &str| expression[key].as_str().unwrap_or_default();
        let (scope, operator) = (text("scopeName"), text("operator"));
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(format!("{FIELD}.scopeName"), scope, "unsupported scope"));
        }
        if !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && SCOPES.contains(&scope)
            && operator != "Exists"
        {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(format!("{FIELD}.operator"), operator, detail));
        }
        let count = expression["values"].as_array().map_or(0, Vec::len);
        match operator {
            "In" | "NotIn" if count == 0 => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(FieldError::required(format!("{FIELD}.values"), detail));
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(FieldError::invalid(format!("{FIELD}.values"), &expression["values"], detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(format!("{FIELD}.operator"), other, "not a valid selector operator"))
            }
        }
    }
    errors
}
