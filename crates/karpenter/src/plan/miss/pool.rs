//! Edits of NodePools.

use karpenter_core::{Pool, Taint};
use karpenter_scheduling::miss::PoolChange;
use serde_json::{Map, Value, json};

use super::path::{entry, field};
use super::pod::{expression_json, said};
use super::{Edit, NOTHING, amount, or_nothing, texts, yaml};

const REQUIREMENTS: &str = "spec.template.spec.requirements";
const TAINTS: &str = "spec.template.spec.taints";

/// The object to edit and the edit.
pub(super) fn edit(pool: &Pool, change: &PoolChange) -> (String, Edit) {
    (format!("NodePool {}", pool.name), of_pool(pool, change))
}

fn of_pool(pool: &Pool, change: &PoolChange) -> Edit {
    match change {
        PoolChange::Values { requirement, from, to } => {
            let of = &pool.requirements[*requirement];
            Edit {
                field: field(&entry(REQUIREMENTS, *requirement), "values"),
                from: yaml(&json!(texts(from))),
                to: yaml(&json!(texts(to))),
                what: format!("let {} be {} [{}]", of.key, of.operator.as_str(), texts(to).join(", ")),
            }
        }
        PoolChange::NoRequirement { requirement, from } => Edit {
            field: entry(REQUIREMENTS, *requirement),
            from: yaml(&expression_json(from)),
            to: NOTHING.to_owned(),
            what: format!("do not require {}", said(from)),
        },
        PoolChange::Requirement(expression) => Edit {
            field: entry(REQUIREMENTS, pool.requirements.len()),
            from: NOTHING.to_owned(),
            to: yaml(&expression_json(expression)),
            what: format!("define {}", said(expression)),
        },
        PoolChange::Label { key, from, to } => Edit {
            field: field("spec.template.metadata.labels", key),
            from: or_nothing(Some(from)),
            to: or_nothing(to.as_ref()),
            what: match to {
                Some(to) => format!("label nodes {key}={to} instead of {key}={from}"),
                None => format!("do not label nodes {key}={from}"),
            },
        },
        PoolChange::NoTaint { taint, from } => Edit {
            field: entry(TAINTS, *taint),
            from: yaml(&taint_json(from)),
            to: NOTHING.to_owned(),
            what: format!("do not taint nodes {from}"),
        },
        PoolChange::NoTaints => Edit {
            field: TAINTS.to_owned(),
            from: yaml(&Value::Array(pool.taints.iter().map(taint_json).collect())),
            to: NOTHING.to_owned(),
            what: "do not taint nodes".to_owned(),
        },
        PoolChange::Limit { resource, from, to } => Edit {
            field: field("spec.limits", resource),
            from: amount(*from),
            to: to.map_or_else(|| NOTHING.to_owned(), amount),
            what: match to {
                Some(to) => format!("raise the limit of {resource} from {from} to {to}"),
                None => format!("do not limit {resource}"),
            },
        },
        PoolChange::NoLimits => {
            let limits = pool.limits.iter().map(|(name, limit)| (name.to_owned(), Value::String(amount(limit))));
            Edit {
                field: "spec.limits".to_owned(),
                from: yaml(&Value::Object(limits.collect())),
                to: NOTHING.to_owned(),
                what: "drop the limits".to_owned(),
            }
        }
        PoolChange::MinValues { requirement, from, to } => Edit {
            field: field(&entry(REQUIREMENTS, *requirement), "minValues"),
            from: from.to_string(),
            to: to.map_or_else(|| NOTHING.to_owned(), |to| to.to_string()),
            what: match to {
                Some(to) => format!("ask for {to} values of {}", pool.requirements[*requirement].key),
                None => format!("do not ask for several values of {}", pool.requirements[*requirement].key),
            },
        },
    }
}

fn taint_json(taint: &Taint) -> Value {
    let mut map = Map::new();
    map.insert("key".to_owned(), taint.key.as_str().into());
    if !taint.value.is_empty() {
        map.insert("value".to_owned(), taint.value.as_str().into());
    }
    map.insert("effect".to_owned(), taint.effect.as_str().into());
    Value::Object(map)
}
