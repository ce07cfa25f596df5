//! Garbage collection by owner references, right after the write that makes something garbage.
//!
//! On a real cluster a controller does this a little later; here it is part of the write, so that the same requests
//! always leave the same objects. What it decides is the same: dependents whose owners are all gone are deleted in the
//! background; foreground deletion takes dependents first; orphaning cuts the references and lets them live.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::delete::{self, DeleteOptions, Policy};
use crate::history::Verb;
use crate::request::User;
use crate::state::State;
use crate::store::{Object, TableId};
use crate::write::Place;

enum Work {
    /// The object of this uid is gone.
    OwnerGone(Arc<str>),
    /// Look at an object that waits for us or whose owners may not exist.
    Inspect(TableId, Arc<str>),
}

/// After an object is gone for good.
pub(crate) fn after_remove(state: &mut State, object: &Arc<Object>) {
    let mut queue = VecDeque::from([Work::OwnerGone(object.uid.clone())]);
    for owner in &object.owners {
        enqueue_uid(state, owner, &mut queue);
    }
    run(state, queue);
}

/// After an object was written.
pub(crate) fn after_write(state: &mut State, table: TableId, object: &Arc<Object>) {
    let namespace = object.namespace();
    if !object.deleting && object.owners.iter().all(|uid| owner_exists(state, uid, namespace)) {
        return;
    }
    run(state, VecDeque::from([Work::Inspect(table, object.key.clone())]));
}

/// An owner that waits in the foreground for its dependents is looked at again when one of them goes.
fn enqueue_uid(state: &State, uid: &str, queue: &mut VecDeque<Work>) {
    if let Some((table, key)) = state.store.locate(uid)
        && state.store.get(table, &key).is_some_and(|owner| owner.deleting)
    {
        queue.push_back(Work::Inspect(table, key));
    }
}

fn run(state: &mut State, mut queue: VecDeque<Work>) {
    while let Some(work) = queue.pop_front() {
        match work {
            Work::OwnerGone(uid) => {
                for (table, key) in state.store.dependents(&uid) {
                    collect(state, table, &key, &mut queue);
                }
            }
            Work::Inspect(table, key) => inspect(state, table, &key, &mut queue),
        }
    }
}

fn inspect(state: &mut State, table: TableId, key: &str, queue: &mut VecDeque<Work>) {
    let Some(object) = state.store.get(table, key).cloned() else {
        return;
    };
    let value = object.value();
    let deleting = value["metadata"].get("deletionTimestamp").is_some();
    let has = |name: &str| value["metadata"]["finalizers"].as_array().into_iter().flatten().any(|f| f == name);
    if deleting && has("orphan") {
        for (dependent_table, dependent_key) in state.store.dependents(&object.uid) {
            drop_references(state, dependent_table, &dependent_key, std::slice::from_ref(&object.uid));
        }
        remove_finalizer(state, table, key, "orphan", queue);
        return;
    }
    if deleting && has("foregroundDeletion") {
        let dependents = state.store.dependents(&object.uid);
        let mut blocking = false;
        for (dependent_table, dependent_key) in dependents {
            let Some(dependent) = state.store.get(dependent_table, &dependent_key).cloned() else {
                continue;
            };
            let value = dependent.value();
            let blocks = value["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|owner| owner["uid"] == *object.uid && owner["blockOwnerDeletion"] == true);
            if value["metadata"].get("deletionTimestamp").is_none() {
                delete_object(state, dependent_table, &dependent_key, Some(Policy::Foreground), queue);
            }
            blocking |= blocks && state.store.get(dependent_table, &dependent_key).is_some();
        }
        if !blocking {
            remove_finalizer(state, table, key, "foregroundDeletion", queue);
        }
        return;
    }
    if !deleting && !object.owners.is_empty() {
        collect(state, table, key, queue);
    }
}

/// Deletes a dependent none of whose owners exist; cuts the references to those that are gone otherwise.
fn collect(state: &mut State, table: TableId, key: &str, queue: &mut VecDeque<Work>) {
    let Some(object) = state.store.get(table, key).cloned() else {
        return;
    };
    let value = object.value();
    let namespace = object.namespace();
    let (mut gone, mut alive) = (Vec::new(), 0);
    for owner in value["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
        let uid: Arc<str> = owner["uid"].as_str().unwrap_or_default().into();
        if !is_known(state, owner) || owner_exists(state, &uid, namespace) {
            alive += 1;
        } else {
            gone.push(uid);
        }
    }
    if gone.is_empty() || value["metadata"].get("deletionTimestamp").is_some() {
        return;
    }
    if alive > 0 {
        drop_references(state, table, key, &gone);
        return;
    }
    delete_object(state, table, key, None, queue);
}

/// Owners of kinds nobody serves are left alone: nothing can be known of them.
fn is_known(state: &State, owner: &Value) -> bool {
    let api_version = owner["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    state.registry.find_kind(group, owner["kind"].as_str().unwrap_or_default()).is_some()
}

/// A namespaced owner counts in its own namespace only.
fn owner_exists(state: &State, uid: &str, namespace: &str) -> bool {
    match state.store.locate(uid) {
        Some((_, key)) => match key.split_once('/') {
            Some((owner_namespace, _)) => owner_namespace == namespace,
            None => true,
        },
        None => false,
    }
}

fn drop_references(state: &mut State, table: TableId, key: &str, uids: &[Arc<str>]) {
    let Some(object) = state.store.get(table, key).cloned() else {
        return;
    };
    let mut value = object.value();
    let Some(metadata) = value["metadata"].as_object_mut() else {
        return;
    };
    let left: Vec<Value> = metadata
        .get("ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|owner| !uids.iter().any(|uid| owner["uid"] == **uid))
        .cloned()
        .collect();
    if left.is_empty() {
        metadata.shift_remove("ownerReferences");
    } else {
        metadata.insert("ownerReferences".into(), Value::Array(left));
    }
    let now = state.now;
    state.store.put(table, key, value, Verb::System, now);
}

fn remove_finalizer(state: &mut State, table: TableId, key: &str, name: &str, queue: &mut VecDeque<Work>) {
    let Some(object) = state.store.get(table, key).cloned() else {
        return;
    };
    let mut value = object.value();
    let Some(metadata) = value["metadata"].as_object_mut() else {
        return;
    };
    let left: Vec<Value> = metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|finalizer| *finalizer != name)
        .cloned()
        .collect();
    if left.is_empty() {
        metadata.shift_remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), Value::Array(left));
    }
    let now = state.now;
    if delete::is_done(&value) {
        if let Some(removed) = state.store.remove(table, key, now) {
            if let Some(served) = state.registry.of_table(table) {
                crate::admission::after_remove(state, &served, &removed);
            }
            queue.push_back(Work::OwnerGone(removed.uid.clone()));
            for owner in &removed.owners {
                enqueue_uid(state, owner, queue);
            }
        }
    } else {
        state.store.put(table, key, value, Verb::System, now);
    }
}

fn delete_object(state: &mut State, table: TableId, key: &str, policy: Option<Policy>, _queue: &mut VecDeque<Work>) {
    let Some(served) = state.registry.of_table(table) else {
        return;
    };
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let place = Place { served, namespace: namespace.to_owned(), name: name.to_owned() };
    let options = DeleteOptions { policy: Some(policy.unwrap_or(Policy::Background)), ..DeleteOptions::default() };
    let collector = User::new("system:serviceaccount:kube-system:generic-garbage-collector", &["system:masters"]);
    // It was found a moment ago under the same lock; nothing but admission could refuse, and then it stays.
    let _ = delete::delete(state, &place, &options, &collector);
}
