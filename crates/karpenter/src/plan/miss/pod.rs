//! Edits of pods and of the workloads they come from.

use karpenter_core::Toleration;
use karpenter_core::pod::{NodeTerm, Pod, Spread, WhenUnsatisfiable};
use karpenter_core::requirement::Expression;
use karpenter_core::selector::Selector;
use karpenter_core::taints::TolerationOperator;
use karpenter_manifests::{Lever, Loaded};
use karpenter_scheduling::miss::PodChange;
use serde_json::{Map, Value, json};

use super::path::{entry, field};
use super::{Edit, NOTHING, amount, or_nothing, texts, yaml};

const NODE_AFFINITY: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
const NEAR: &str = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution";
const FAR: &str = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution";
const SPREAD: &str = "spec.topologySpreadConstraints";

/// The object to edit and the edit; nothing where no single field would do.
pub(super) fn edit(loaded: &Loaded, position: usize, change: &PodChange) -> Option<(String, Edit)> {
    let pod = &loaded.world.pods[position];
    let lever = match change {
        PodChange::Request { resource, .. } => Some(loaded.written.lever(position, pod, resource)?),
        _ => None,
    };
    let port = match change {
        PodChange::NoHostPort { port, .. } => loaded.written.host_port(position, pod, *port),
        _ => None,
    };
    let mut edit = of_pod(pod, change, lever, port)?;
    let object = match loaded.written.workload_of(position) {
        Some(workload) => {
            edit.field = format!("spec.template.{}", edit.field);
            workload.to_owned()
        }
        None => format!("Pod {}", pod.key()),
    };
    Some((object, edit))
}

fn of_pod(pod: &Pod, change: &PodChange, lever: Option<Lever>, port: Option<&str>) -> Option<Edit> {
    let shape = &*pod.shape;
    let removed =
        |field: String, from: Value, what: String| Edit { field, from: yaml(&from), to: NOTHING.to_owned(), what };
    Some(match change {
        PodChange::Request { resource, from, to } => {
            let lever = lever?;
            let less = *from - *to;
            let to = lever.amount - less;
            lowered(&lever, resource, to)?
        }
        PodChange::Toleration(toleration) => Edit {
            field: entry("spec.tolerations", shape.tolerations.len()),
            from: NOTHING.to_owned(),
            to: yaml(&toleration_json(toleration)),
            what: tolerated(toleration),
        },
        PodChange::Selector { key, from, to } => Edit {
            field: field("spec.nodeSelector", key),
            from: or_nothing(Some(from)),
            to: or_nothing(to.as_ref()),
            what: match to {
                Some(to) => format!("select {key}={to} instead of {key}={from}"),
                None => format!("do not select {key}={from}"),
            },
        },
        PodChange::NoSelector => {
            removed("spec.nodeSelector".to_owned(), json!(shape.node_selector), "drop the node selector".to_owned())
        }
        PodChange::AffinityValues { term, expression, from, to } => {
            let of = &shape.required_node_affinity[*term].expressions[*expression];
            let path = entry(&field(NODE_AFFINITY, "nodeSelectorTerms"), *term);
            let path = entry(&field(&path, "matchExpressions"), *expression);
            Edit {
                field: field(&path, "values"),
                from: yaml(&json!(texts(from))),
                to: yaml(&json!(texts(to))),
                what: format!("let {} be {} [{}]", of.key, of.operator.as_str(), texts(to).join(", ")),
            }
        }
        PodChange::NoAffinityExpression { term, expression, from } => {
            let path = entry(&field(NODE_AFFINITY, "nodeSelectorTerms"), *term);
            let path = entry(&field(&path, "matchExpressions"), *expression);
            removed(path, expression_json(from), format!("do not ask for {}", said(from)))
        }
        PodChange::NoAffinityTerm { term } => {
            let path = entry(&field(NODE_AFFINITY, "nodeSelectorTerms"), *term);
            let what = format!("drop alternative {term} of the required node affinity");
            removed(path, node_term_json(&shape.required_node_affinity[*term]), what)
        }
        PodChange::NoNodeAffinity => {
            let terms = shape.required_node_affinity.iter().map(node_term_json);
            let from = json!({"nodeSelectorTerms": terms.collect::<Vec<_>>()});
            removed(NODE_AFFINITY.to_owned(), from, "drop the required node affinity".to_owned())
        }
        PodChange::NoPodAffinityTerm { term } => {
            let of = &shape.required_pod_affinity[*term];
            let what = format!("do not require to be near other pods by {}", of.topology_key);
            removed(entry(NEAR, *term), term_json(&of.topology_key, of.selector.as_ref()), what)
        }
        PodChange::NoPodAffinity => {
            let all = shape.required_pod_affinity.iter().map(|of| term_json(&of.topology_key, of.selector.as_ref()));
            removed(NEAR.to_owned(), Value::Array(all.collect()), "drop the required pod affinity".to_owned())
        }
        PodChange::NoPodAntiAffinityTerm { term } => {
            let of = &shape.required_pod_anti_affinity[*term];
            let what = format!("do not require to be apart from other pods by {}", of.topology_key);
            removed(entry(FAR, *term), term_json(&of.topology_key, of.selector.as_ref()), what)
        }
        PodChange::NoPodAntiAffinity => {
            let all =
                shape.required_pod_anti_affinity.iter().map(|of| term_json(&of.topology_key, of.selector.as_ref()));
            removed(FAR.to_owned(), Value::Array(all.collect()), "drop the required pod anti-affinity".to_owned())
        }
        PodChange::MaxSkew { constraint, from, to } => Edit {
            field: field(&entry(SPREAD, *constraint), "maxSkew"),
            from: from.to_string(),
            to: to.to_string(),
            what: format!("allow a skew of {to} over {}", shape.spread[*constraint].topology_key),
        },
        PodChange::Anyway { constraint } => Edit {
            field: field(&entry(SPREAD, *constraint), "whenUnsatisfiable"),
            from: "DoNotSchedule".to_owned(),
            to: "ScheduleAnyway".to_owned(),
            what: format!("only prefer to spread over {}", shape.spread[*constraint].topology_key),
        },
        PodChange::NoSpread => {
            let all = Value::Array(shape.spread.iter().map(spread_json).collect());
            removed(SPREAD.to_owned(), all, "drop the topology spread constraints".to_owned())
        }
        PodChange::NoHostPort { from, .. } => {
            removed(port?.to_owned(), json!(from.port), format!("do not ask for the host port {}", from.port))
        }
    })
}

fn lowered(lever: &Lever, resource: &str, to: karpenter_core::Quantity) -> Option<Edit> {
    let what = format!("ask for {} of {resource} instead of {}", amount(to), amount(lever.amount));
    let Some(resources) = &lever.resources else {
        return Some(Edit { field: field(&lever.field, resource), from: amount(lever.amount), to: amount(to), what });
    };
    let before: Value = serde_json::from_str(resources).ok()?;
    let mut after = before.clone();
    for list in ["limits", "requests"] {
        let Some(Value::Object(list)) = after.get_mut(list) else { continue };
        match to.is_zero() {
            true => drop(list.remove(resource)),
            false => drop(list.insert(resource.to_owned(), Value::String(amount(to)))),
        }
    }
    let path = lever.field.strip_suffix(".requests")?.to_owned();
    Some(Edit { field: path, from: yaml(&before), to: yaml(&after), what })
}

fn toleration_json(toleration: &Toleration) -> Value {
    let mut map = Map::new();
    let mut set = |name: &str, text: &str| {
        if !text.is_empty() {
            map.insert(name.to_owned(), text.into());
        }
    };
    set("key", &toleration.key);
    set("operator", if toleration.operator == TolerationOperator::Exists { "Exists" } else { "Equal" });
    set("value", &toleration.value);
    set("effect", toleration.effect.map_or("", |effect| effect.as_str()));
    Value::Object(map)
}

fn tolerated(toleration: &Toleration) -> String {
    if toleration.key.is_empty() {
        return "tolerate every taint".to_owned();
    }
    let value = if toleration.value.is_empty() { String::new() } else { format!("={}", toleration.value) };
    let effect = toleration.effect.map_or(String::new(), |effect| format!(":{}", effect.as_str()));
    format!("tolerate {}{value}{effect}", toleration.key)
}

pub(super) fn expression_json(expression: &Expression) -> Value {
    let mut map = Map::new();
    map.insert("key".to_owned(), expression.key.as_ref().into());
    map.insert("operator".to_owned(), expression.operator.as_str().into());
    if !expression.values.is_empty() {
        map.insert("values".to_owned(), json!(texts(&expression.values)));
    }
    if let Some(least) = expression.min_values {
        map.insert("minValues".to_owned(), least.into());
    }
    Value::Object(map)
}

pub(super) fn said(expression: &Expression) -> String {
    let values = if expression.values.is_empty() {
        String::new()
    } else {
        format!(" [{}]", texts(&expression.values).join(", "))
    };
    format!("{} {}{values}", expression.key, expression.operator.as_str())
}

fn node_term_json(term: &NodeTerm) -> Value {
    json!({"matchExpressions": term.expressions.iter().map(expression_json).collect::<Vec<_>>()})
}

fn term_json(key: &str, selector: Option<&Selector>) -> Value {
    json!({"topologyKey": key, "labelSelector": selector.map(selector_json)})
}

fn selector_json(selector: &Selector) -> Value {
    let each = selector.expressions().iter().map(|expression| {
        use karpenter_core::selector::SelectorOperator::{DoesNotExist, Exists, In, NotIn};
        let operator = match expression.operator {
            In => "In",
            NotIn => "NotIn",
            Exists => "Exists",
            DoesNotExist => "DoesNotExist",
        };
        json!({"key": expression.key, "operator": operator, "values": expression.values})
    });
    json!({"matchExpressions": each.collect::<Vec<_>>()})
}

fn spread_json(spread: &Spread) -> Value {
    let when = match spread.when {
        WhenUnsatisfiable::DoNotSchedule => "DoNotSchedule",
        WhenUnsatisfiable::ScheduleAnyway => "ScheduleAnyway",
    };
    json!({
        "topologyKey": &*spread.topology_key,
        "maxSkew": spread.max_skew,
        "whenUnsatisfiable": when,
        "labelSelector": spread.selector.as_ref().map(selector_json),
    })
}
