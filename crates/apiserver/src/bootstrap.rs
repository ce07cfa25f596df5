//! What every cluster starts with.

use serde_json::{Value, json};

use crate::history::Verb;
use crate::request::User;
use crate::state::State;
use crate::write::{self, FieldValidation, Place, WriteOptions};

pub(crate) fn fill(state: &mut State) {
    for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
        add(state, "", "v1", "namespaces", "", json!({"metadata": {"name": name}}));
        add(state, "", "v1", "serviceaccounts", name, json!({"metadata": {"name": "default"}}));
    }
    defaults(state);
    let service = json!({"metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]}});
    add(state, "", "v1", "services", "default", service);
    for (name, value) in [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)] {
        let description = match name {
            "system-node-critical" => "Used for system critical pods that must not be moved from their current node.",
            _ => {
                "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
            }
        };
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        add(state, "scheduling.k8s.io", "v1", "priorityclasses", "", class);
    }
}

/// The roles and the flow control everybody has from the start, put down as they are: they are many, and every test
/// starts a server.
fn defaults(state: &mut State) {
    let now = state.now_text();
    for line in include_str!("../data/bootstrap.txt").lines() {
        let (place, json) = line.split_once('\t').expect("a place and an object");
        let mut place = place.splitn(3, ' ');
        let (group, plural, key) = (place.next(), place.next(), place.next());
        let (group, plural, key) = (group.unwrap_or_default(), plural.unwrap_or_default(), key.unwrap_or_default());
        let table = state.registry.table(group, plural).expect("a built-in resource");
        let uid = state.ids.uid();
        let at = state.now;
        state.store.put_written(table, key, &uid, json.replace("@now", &now).replace("@uid", &uid), at);
    }
}

fn add(state: &mut State, group: &str, version: &str, plural: &str, namespace: &str, object: Value) {
    let served = state.registry.find(group, version, plural).cloned().expect("bootstrap objects are of built-in kinds");
    let mut options = WriteOptions {
        dry_run: false,
        manager: "kube-apiserver".into(),
        validation: FieldValidation::Strict,
        user: User::new("system:apiserver", &["system:masters"]),
        warnings: Vec::new(),
    };
    let place = Place { served: served.clone(), namespace: namespace.to_owned(), name: String::new() };
    let object = write::decode_object(&served, object, &mut options, Vec::new());
    let written = object.and_then(|object| write::create(state, &place, object, &mut options, Verb::System));
    if let Err(error) = written {
        unreachable!("a bootstrap object is valid, and there is nothing yet to conflict with: {error}");
    }
}
