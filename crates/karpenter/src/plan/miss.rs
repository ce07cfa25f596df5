//! Nearest misses as edits of the manifests.
//!
//! `object` is the object to edit, `field` a path into it: names joined by dots, `["name"]` where a name holds other
//! characters than letters, digits, `-` and `_`, `[n]` for the n-th entry of a list. `from` and `to` are what stands and
//! what should stand there, as YAML: a plain text, or flow style for lists and maps. `null` means that the field, the
//! entry of the map or the entry of the list is not there; one past the last entry of a list appends.

mod path;
mod pod;
mod pool;

use std::collections::BTreeMap;

use karpenter_core::Quantity;
use karpenter_core::plan::{NearestMiss, Plan};
use karpenter_manifests::Loaded;
use karpenter_scheduling::miss::{Change, ClassChange, Miss, Written, nearest_misses};
use serde_json::Value;

/// One edit, and what it means.
struct Edit {
    field: String,
    from: String,
    to: String,
    /// What to do, as a clause that begins in lower case.
    what: String,
}

/// Looks for the nearest miss of every pod left over.
pub(crate) fn fill_in(loaded: &Loaded, plan: &mut Plan) {
    let (world, written) = (&loaded.world, &loaded.written);
    let least = |pod: usize, resource: &str| {
        let lever = written.lever(pod, &world.pods[pod], resource);
        lever.map_or(world.pods[pod].shape.requests.get(resource), |lever| lever.least)
    };
    let known = Written { together: &|pod| written.together(pod), least: &least };
    let misses = nearest_misses(world, plan, &known);
    let mut told: BTreeMap<usize, NearestMiss> =
        misses.iter().filter_map(|miss| Some((miss.pod, render(loaded, miss)?))).collect();
    for left in plan.left_over.iter_mut().chain(&mut plan.ignored) {
        left.nearest_miss = told.remove(&left.pod);
    }
}

fn render(loaded: &Loaded, miss: &Miss) -> Option<NearestMiss> {
    let (object, edit) = match &miss.change {
        Change::Pod(change) => pod::edit(loaded, miss.pod, change)?,
        Change::Pool(pool, change) => pool::edit(&loaded.world.pools[*pool], change),
        Change::StorageClass(name, change) => (format!("StorageClass {name}"), class(loaded, name, *change)),
    };
    let taker = match miss.pool {
        Some(pool) => format!("NodePool {} would launch a node for it", loaded.world.pools[pool].name),
        None => "it would fit on a node that is there".to_owned(),
    };
    let text = format!("{}: {}, and {taker}", object, edit.what);
    Some(NearestMiss { pool: miss.pool, object, field: edit.field, from: edit.from, to: edit.to, text })
}

fn class(loaded: &Loaded, name: &str, change: ClassChange) -> Edit {
    match change {
        ClassChange::WaitForFirstConsumer => Edit {
            field: "volumeBindingMode".to_owned(),
            from: "Immediate".to_owned(),
            to: "WaitForFirstConsumer".to_owned(),
            what: "bind volumes when a pod needs them".to_owned(),
        },
        ClassChange::NoAllowedTopologies => {
            let class = loaded.world.storage.classes.get(name);
            let expressions = class.into_iter().flat_map(|class| &class.allowed_topologies).map(|all| {
                let each = all.iter().map(|e| serde_json::json!({"key": &*e.key, "values": texts(&e.values)}));
                serde_json::json!({"matchLabelExpressions": each.collect::<Vec<_>>()})
            });
            Edit {
                field: "allowedTopologies".to_owned(),
                from: yaml(&Value::Array(expressions.collect())),
                to: NOTHING.to_owned(),
                what: "let volumes be anywhere".to_owned(),
            }
        }
    }
}

const NOTHING: &str = "null";

fn texts<T: AsRef<str>>(values: &[T]) -> Vec<&str> {
    values.iter().map(AsRef::as_ref).collect()
}

/// Flow style; a text stands alone where nobody can take it for something else.
fn yaml(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    let words = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
        && !words.contains(&text.to_ascii_lowercase().as_str())
}

/// As people write it; a whole number is read as one, which is a quantity too.
fn amount(quantity: Quantity) -> String {
    quantity.to_string()
}

fn or_nothing(text: Option<&String>) -> String {
    text.map_or_else(|| NOTHING.to_owned(), |text| yaml(&Value::String(text.clone())))
}
