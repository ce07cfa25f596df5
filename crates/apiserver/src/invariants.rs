//! What must be true of the store after any request, however bad: what fuzzing looks at.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_kinds::decode;
use karpenter_kinds::types::Types;
use serde_json::Value;

use crate::state::State;
use crate::store::{Object, TableId};

/// What is broken, in words; nothing, if all is well.
pub(crate) fn violations(state: &State) -> Vec<String> {
    let mut found = Vec::new();
    let mut uids = BTreeSet::new();
    for (id, table) in state.store.tables() {
        let mut say = |key: &str, what: String| found.push(format!("{}/{key}: {what}", table.name));
        for object in table.range("", None) {
            for what in faults_of(state, id, object) {
                say(&object.key, what);
            }
            if !uids.insert(object.uid.clone()) {
                say(&object.key, format!("another object has its uid {}", object.uid));
            }
            for owner in &object.owners {
                if !state.store.dependents(owner).contains(&(id, object.key.clone())) {
                    say(&object.key, format!("its owner {owner} does not know it"));
                }
            }
        }
        if let Some(what) = table.broken_past(state.store.version()) {
            say("", what);
        }
    }
    if state.store.located() != uids.len() {
        found.push(format!("{} uids are located, {} exist", state.store.located(), uids.len()));
    }
    found
}

fn faults_of(state: &State, table: TableId, object: &Arc<Object>) -> Vec<String> {
    let mut faults = Vec::new();
    let value: Value = match serde_json::from_slice(&object.json) {
        Ok(value) => value,
        Err(error) => return vec![format!("cannot be read: {error}")],
    };
    let metadata = |key: &str| value["metadata"][key].as_str().unwrap_or_default();
    let mut expect = |what: &str, got: &str, want: &str| {
        if got != want {
            faults.push(format!("{what} is {got:?}, not {want:?}"));
        }
    };
    expect("resourceVersion", metadata("resourceVersion"), &object.version.to_string());
    expect("uid", metadata("uid"), &object.uid);
    expect("name", metadata("name"), object.name());
    expect("namespace", metadata("namespace"), object.namespace());
    if object.uid.is_empty() || object.name().is_empty() {
        faults.push("has no uid or no name".into());
    }
    if object.version > state.store.version() {
        faults.push("comes from the future".into());
    }
    if state.store.locate(&object.uid) != Some((table, object.key.clone())) {
        faults.push("is not where its uid says".into());
    }
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    if let Some(id) = Types::get().kind(text("apiVersion"), text("kind")) {
        match decode::decode(id, value.clone()) {
            Ok(decoded) if decoded.value == value && decoded.strict_errors.is_empty() => {}
            Ok(decoded) => faults.push(format!("is not as its type writes it: {value} against {}", decoded.value)),
            Err(error) => faults.push(format!("is not of its type: {error}")),
        }
    }
    faults
}
