//! The managed fields of an object after an update, the usual way: most writes repeat what their writer wrote before, so
//! the entries are looked at as they are on the wire and only those that change are read.
//!
//! What this cannot do, it leaves to the long way; the two agree, and a test holds them to it.

use serde_json::Value;

use super::managed::{self, Manager, Operation, Owned};
use super::set::Set;
use super::typed::Comparison;
use super::{Changes, MOST, Write};

/// The new entries, in no order; `None` where the long way is needed.
pub(super) fn retrack(entries: &[Value], changes: &Changes, write: Write<'_>) -> Option<Vec<Value>> {
    let usable = |entry: &Value| {
        entry["apiVersion"] == write.api_version
            && entry["fieldsType"] == "FieldsV1"
            && entry["fieldsV1"].as_object().is_some_and(|fields| !fields.is_empty())
            && (entry["operation"] == "Update" || entry["operation"] == "Apply")
    };
    // The shapes of custom resources change, and what is owned with them.
    let fixed = write.versions.shape(write.api_version).is_some_and(|shape| shape.is_native());
    if !fixed || entries.is_empty() || !entries.iter().all(usable) {
        return None;
    }
    let writer = Manager::new(write.manager, Operation::Update, write.api_version, write.subresource);
    let gained = changes.owned();
    let mut found = false;
    let mut out = Vec::with_capacity(entries.len() + 1);
    for entry in entries {
        let is_writer = !found && is(&writer, entry);
        found |= is_writer;
        let owned = is_writer.then_some(&gained).filter(|owned| !owned.is_empty());
        out.extend(after(entry, owned, changes, write)?);
    }
    if !found && !gained.is_empty() {
        out.push(managed::entry(&writer, &new_entry(gained, write)));
    }
    (out.iter().filter(|entry| entry["operation"] == "Update").count() <= MOST && !out.is_empty()).then_some(out)
}

/// The entry of whoever made an object.
pub(super) fn first_entry(owned: Set, write: Write<'_>) -> Value {
    let writer = Manager::new(write.manager, Operation::Update, write.api_version, write.subresource);
    managed::entry(&writer, &new_entry(owned, write))
}

fn is(manager: &Manager, entry: &Value) -> bool {
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    text("operation") == "Update" && text("manager") == manager.name && text("subresource") == manager.subresource
}

fn new_entry(set: Set, write: Write<'_>) -> Owned {
    Owned { set, api_version: write.api_version.to_owned(), time: Some(write.now.to_owned()) }
}

/// One entry after the write, `owned` being what it gains: `Some(None)` if nothing is left of it.
fn after(entry: &Value, owned: Option<&Set>, changes: &Changes, write: Write<'_>) -> Option<Option<Value>> {
    let wire = &entry["fieldsV1"];
    let Comparison { added, modified, removed } = &changes.comparison;
    let loses = removed.meets_wire(wire);
    match owned {
        None if !loses && !added.meets_wire(wire) && !modified.meets_wire(wire) => return Some(Some(entry.clone())),
        Some(owned) if !loses && entry.get("time").is_some() && owned.is_within_wire(wire) => {
            let mut entry = entry.clone();
            entry["time"] = write.now.into();
            return Some(Some(entry));
        }
        _ => {}
    }
    let (manager, before) = managed::read(&Value::Array(vec![entry.clone()])).ok()?.pop_first()?;
    let set = before.set.difference(&changes.touched()).difference(removed);
    let after = match owned {
        Some(owned) => new_entry(set.union(owned), write),
        None => Owned { set, ..before },
    };
    Some((!after.set.is_empty()).then(|| managed::entry(&manager, &after)))
}
