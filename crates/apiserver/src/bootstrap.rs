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
    roles(state);
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

/// The roles everybody has from the start: administrators may do everything, whoever is known may look around.
fn roles(state: &mut State) {
    let group = "rbac.authorization.k8s.io";
    let paths = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let everything =
        json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    let oneself = json!([
        {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], "verbs": ["create"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]}]);
    for (name, rules, subjects) in [
        ("cluster-admin", everything, vec!["system:masters"]),
        ("system:basic-user", oneself, vec!["system:authenticated"]),
        ("system:discovery", json!([{"nonResourceURLs": paths, "verbs": ["get"]}]), vec!["system:authenticated"]),
        (
            "system:public-info-viewer",
            json!([{"nonResourceURLs": public, "verbs": ["get"]}]),
            vec!["system:authenticated", "system:unauthenticated"],
        ),
    ] {
        let metadata = json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}});
        add(state, group, "v1", "clusterroles", "", json!({"metadata": metadata, "rules": rules}));
        let subjects: Vec<Value> = subjects.iter().map(|group| json!({"kind": "Group", "name": group})).collect();
        let binding =
            json!({"metadata": metadata, "roleRef": {"kind": "ClusterRole", "name": name}, "subjects": subjects});
        add(state, group, "v1", "clusterrolebindings", "", binding);
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
