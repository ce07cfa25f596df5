//! Between the stored version of an object and the others it is served in.

use karpenter_kinds::decode;
use karpenter_kinds::types::Types;
use serde_json::{Map, Value, json};

use crate::conversion;
use crate::custom::CustomVersion;
use crate::registry::{Origin, Served};

/// Whether stored bytes need no conversion for this version.
pub(crate) fn is_stored_version(served: &Served) -> bool {
    match &served.origin {
        Origin::Builtin(_) => match (&*served.group, &*served.kind) {
            ("events.k8s.io", "Event") => false,
            ("autoscaling", "HorizontalPodAutoscaler") => &*served.version == "v2",
            _ => true,
        },
        Origin::Custom(custom) => *custom.storage_version == *served.version,
    }
}

/// From what is stored to the served version.
pub(crate) fn from_stored(served: &Served, value: Value) -> Value {
    match (&served.origin, &*served.group, &*served.kind) {
        (Origin::Custom(custom), _, _) => custom_version(custom, value, &served.api_version()),
        (_, "events.k8s.io", "Event") => rename(value, EVENT_FIELDS, "events.k8s.io/v1", Direction::ToServed),
        (_, "autoscaling", "HorizontalPodAutoscaler") if &*served.version == "v1" => autoscaler_to_v1(value),
        _ => value,
    }
}

/// From the served version to what is stored.
pub(crate) fn to_stored(served: &Served, value: Value) -> Value {
    match (&served.origin, &*served.group, &*served.kind) {
        (Origin::Custom(custom), _, _) => {
            custom_version(custom, value, &format!("{}/{}", served.group, custom.storage_version))
        }
        (_, "events.k8s.io", "Event") => rename(value, EVENT_FIELDS, "v1", Direction::ToStored),
        (_, "autoscaling", "HorizontalPodAutoscaler") if &*served.version == "v1" => autoscaler_to_v2(value),
        _ => value,
    }
}

/// An object in another version of its kind, whichever that is.
pub(crate) fn between(served: &Served, object: &Value, api_version: &str) -> Value {
    let mut object = object.clone();
    match (&served.origin, &*served.group, api_version) {
        (Origin::Builtin(_), "autoscaling", "autoscaling/v1") => autoscaler_to_v1(object),
        (Origin::Builtin(_), "autoscaling", "autoscaling/v2") => autoscaler_to_v2(object),
        (Origin::Builtin(_), _, "v1") if &*served.kind == "Event" => {
            rename(object, EVENT_FIELDS, "v1", Direction::ToStored)
        }
        (Origin::Builtin(_), _, "events.k8s.io/v1") => {
            rename(object, EVENT_FIELDS, "events.k8s.io/v1", Direction::ToServed)
        }
        (Origin::Custom(custom), _, _) => custom_version(custom, object, api_version),
        _ => {
            object["apiVersion"] = Value::from(api_version);
            object
        }
    }
}

fn custom_version(custom: &CustomVersion, mut value: Value, api_version: &str) -> Value {
    match &custom.webhook {
        Some(webhook) => conversion::convert(webhook, value, api_version),
        None => {
            value["apiVersion"] = Value::from(api_version);
            value
        }
    }
}

enum Direction {
    ToServed,
    ToStored,
}

/// (in core/v1, in events.k8s.io/v1), in the order the latter writes them; what is not here has one name in both.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("reportingComponent", "reportingController"),
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Written as the type of that version writes it.
fn as_type(value: Value, api_version: &str, kind: &str) -> Value {
    let Some(id) = Types::get().kind(api_version, kind) else { return value };
    decode::decode(id, value.clone()).map(|decoded| decoded.value).unwrap_or(value)
}

fn rename(value: Value, names: &[(&str, &str)], api_version: &str, direction: Direction) -> Value {
    let Value::Object(fields) = value else { return value };
    let mut out = Map::new();
    for (key, value) in fields {
        let key = names
            .iter()
            .find_map(|(stored, served)| match direction {
                Direction::ToServed => (*stored == key).then_some(*served),
                Direction::ToStored => (*served == key).then_some(*stored),
            })
            .map(str::to_owned)
            .unwrap_or(key);
        out.insert(key, value);
    }
    out.insert("apiVersion".into(), Value::from(api_version));
    as_type(Value::Object(out), api_version, "Event")
}

fn autoscaler_to_v1(mut value: Value) -> Value {
    value["apiVersion"] = json!("autoscaling/v1");
    let metrics = value["spec"].as_object_mut().and_then(|spec| spec.shift_remove("metrics"));
    let is_cpu = |metric: &Value| {
        metric["type"] == "Resource"
            && metric["resource"]["name"] == "cpu"
            && !metric["resource"]["target"]["averageUtilization"].is_null()
    };
    let mut others = Vec::new();
    for metric in metrics.as_ref().and_then(Value::as_array).into_iter().flatten() {
        if is_cpu(metric) && value["spec"].get("targetCPUUtilizationPercentage").is_none() {
            let target = metric["resource"]["target"]["averageUtilization"].clone();
            value["spec"]["targetCPUUtilizationPercentage"] = target;
        } else {
            others.push(metric.clone());
        }
    }
    if !others.is_empty() {
        annotate(&mut value, "autoscaling.alpha.kubernetes.io/metrics", &Value::Array(others));
    }
    if let Some(behavior) = value["spec"].as_object_mut().and_then(|spec| spec.shift_remove("behavior")) {
        annotate(&mut value, "autoscaling.alpha.kubernetes.io/behavior", &internal_behavior(&behavior));
    }
    let status = value["status"].as_object_mut();
    let (conditions, current) = match status {
        Some(status) => (status.shift_remove("conditions"), status.shift_remove("currentMetrics")),
        None => (None, None),
    };
    if let Some(conditions) = conditions.filter(|conditions| !conditions.is_null()) {
        annotate(&mut value, "autoscaling.alpha.kubernetes.io/conditions", &conditions);
    }
    for metric in current.as_ref().and_then(Value::as_array).into_iter().flatten() {
        if metric["type"] == "Resource" && metric["resource"]["name"] == "cpu" {
            let current = &metric["resource"]["current"]["averageUtilization"];
            if !current.is_null() {
                value["status"]["currentCPUUtilizationPercentage"] = current.clone();
            }
        }
    }
    as_type(value, "autoscaling/v1", "HorizontalPodAutoscaler")
}

/// The annotation holds the server's internal form, whose fields have no JSON names.
fn internal_behavior(behavior: &Value) -> Value {
    let rules = |rules: &Value| {
        if rules.is_null() {
            return Value::Null;
        }
        let policies: Vec<Value> = rules["policies"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|p| json!({"Type": p["type"], "Value": p["value"], "PeriodSeconds": p["periodSeconds"]}))
            .collect();
        json!({"StabilizationWindowSeconds": rules["stabilizationWindowSeconds"], "SelectPolicy": rules["selectPolicy"],
            "Policies": policies, "Tolerance": rules["tolerance"]})
    };
    json!({"ScaleUp": rules(&behavior["scaleUp"]), "ScaleDown": rules(&behavior["scaleDown"])})
}

fn external_behavior(behavior: Value) -> Value {
    match behavior {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| {
                let mut letters = key.chars();
                let first = letters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
                (first + letters.as_str(), external_behavior(value))
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(external_behavior).collect(),
        other => other,
    }
}

fn annotate(value: &mut Value, key: &str, content: &Value) {
    value["metadata"]["annotations"][key] = Value::from(content.to_string());
}

fn autoscaler_to_v2(mut value: Value) -> Value {
    value["apiVersion"] = json!("autoscaling/v2");
    let mut metrics = Vec::new();
    if let Some(target) =
        value["spec"].as_object_mut().and_then(|spec| spec.shift_remove("targetCPUUtilizationPercentage"))
    {
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": target}}}));
    }
    for (annotation, field) in [
        ("autoscaling.alpha.kubernetes.io/metrics", "metrics"),
        ("autoscaling.alpha.kubernetes.io/behavior", "behavior"),
    ] {
        let text = value["metadata"]["annotations"].as_object_mut().and_then(|all| all.shift_remove(annotation));
        let parsed = text.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
        match (field, parsed) {
            ("metrics", Some(Value::Array(more))) => metrics.splice(0..0, more).for_each(drop),
            ("behavior", Some(behavior)) => value["spec"]["behavior"] = external_behavior(behavior),
            _ => {}
        }
    }
    if !metrics.is_empty() {
        value["spec"]["metrics"] = Value::Array(metrics);
    }
    if let Some(status) = value["status"].as_object_mut() {
        status.shift_remove("currentCPUUtilizationPercentage");
    }
    as_type(value, "autoscaling/v2", "HorizontalPodAutoscaler")
}
