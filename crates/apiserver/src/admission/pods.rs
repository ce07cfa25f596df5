//! What every pod gets: an account and its token, tolerations, a priority, its runtime's overhead.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Attributes;
use crate::error::ApiError;
use crate::state::State;
use crate::store::Object;

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn find(state: &State, group: &str, plural: &str, key: &str) -> Option<Arc<Object>> {
    state.registry.table(group, plural).and_then(|table| state.store.get(table, key)).cloned()
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

/// ServiceAccount: the pod's account must exist, and its token is mounted unless somebody minds.
pub(super) fn service_account(state: &mut State, attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
    if pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return Ok(());
    }
    let spec = &mut pod["spec"];
    let named = ["serviceAccountName", "serviceAccount"]
        .iter()
        .find_map(|key| spec[*key].as_str().filter(|name| !name.is_empty()));
    let name = named.unwrap_or("default").to_owned();
    spec["serviceAccountName"] = json!(name);
    spec["serviceAccount"] = json!(name);
    let namespace = attributes.namespace;
    let Some(account) = find(state, "", "serviceaccounts", &format!("{namespace}/{name}")) else {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(attributes.forbidden(&why));
    };
    let account = account.shared();
    let automount = spec["automountServiceAccountToken"].as_bool();
    let automount = automount.or(account["automountServiceAccountToken"].as_bool()).unwrap_or(true);
    if automount {
        mount_token(state, &mut pod["spec"]);
    }
    let spec = &mut pod["spec"];
    if spec["imagePullSecrets"].as_array().is_none_or(Vec::is_empty)
        && let Some(secrets) = account.get("imagePullSecrets")
    {
        spec["imagePullSecrets"] = secrets.clone();
    }
    Ok(())
}

fn mount_token(state: &mut State, spec: &mut Value) {
    let mounted = |container: &Value| {
        container["volumeMounts"].as_array().into_iter().flatten().any(|mount| mount["mountPath"] == TOKEN_PATH)
    };
    // A pod that was copied brings its volume along.
    let existing = spec["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["name"].as_str())
        .find(|name| name.starts_with("kube-api-access-"))
        .map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| format!("kube-api-access-{}", state.ids.suffix()));
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            if !mounted(container) {
                needed = true;
                push(&mut container["volumeMounts"], json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            }
        }
    }
    if needed && existing.is_none() {
        push(
            &mut spec["volumes"],
            json!({"name": name, "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}], "defaultMode": 420}}),
        );
    }
}

/// Priority: the class decides; the default class where none is named.
pub(super) fn priority(state: &State, attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let spec = &mut pod["spec"];
    let class = match spec["priorityClassName"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => match find(state, "scheduling.k8s.io", "priorityclasses", name) {
            Some(class) => Some(class),
            None => {
                return Err(attributes.forbidden(&format!("no PriorityClass with name {name} was found")));
            }
        },
        None => default_class(state),
    };
    let (value, policy) = match class.as_deref().map(Object::shared) {
        Some(class) => {
            spec["priorityClassName"] = class["metadata"]["name"].clone();
            (class["value"].as_i64().unwrap_or(0), class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority"))
        }
        None => (0, "PreemptLowerPriority"),
    };
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != value) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
             {value} from the given PriorityClass name"
        );
        return Err(attributes.forbidden(&why));
    }
    if let Some(given) = spec["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller \
             computed {policy} from the given PriorityClass name"
        );
        return Err(attributes.forbidden(&why));
    }
    spec["priority"] = json!(value);
    spec["preemptionPolicy"] = json!(policy);
    Ok(())
}

/// The class marked as the default; of several the one of the lowest value.
fn default_class(state: &State) -> Option<Arc<Object>> {
    let table = state.registry.table("scheduling.k8s.io", "priorityclasses")?;
    let classes = state.store.table(table).range("", None).filter(|class| class.shared()["globalDefault"] == true);
    classes.min_by_key(|class| class.shared()["value"].as_i64().unwrap_or(0)).cloned()
}

pub(super) fn one_default_priority(state: &State, attributes: &Attributes<'_>, class: &Value) -> Result<(), ApiError> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    match default_class(state) {
        Some(other) if class["metadata"]["name"] != *other.name() => Err(attributes.forbidden(&format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            other.name()
        ))),
        _ => Ok(()),
    }
}

/// DefaultTolerationSeconds: five minutes on a node that is not ready or cannot be reached.
pub(super) fn default_tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = pod["spec"]["tolerations"].as_array().into_iter().flatten().any(|toleration| {
            let of_key = toleration["key"] == key || toleration["key"].as_str().unwrap_or_default().is_empty();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            of_key && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerates {
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            push(&mut pod["spec"]["tolerations"], toleration);
        }
    }
}

/// RuntimeClass: its overhead and its nodes.
pub(super) fn runtime_class(state: &State, attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let name = pod["spec"]["runtimeClassName"].as_str().map(str::to_owned);
    let Some(name) = name else {
        if pod["spec"]["overhead"].as_object().is_some_and(|overhead| !overhead.is_empty()) {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(attributes.forbidden(why));
        }
        return Ok(());
    };
    let Some(class) = find(state, "node.k8s.io", "runtimeclasses", &name) else {
        return Err(attributes.forbidden(&format!("pod rejected: RuntimeClass {name:?} not found")));
    };
    let class = class.shared();
    let overhead =
        class.pointer("/overhead/podFixed").filter(|fixed| fixed.as_object().is_some_and(|fixed| !fixed.is_empty()));
    let given = pod["spec"].get("overhead").filter(|given| given.is_object());
    match (overhead, given) {
        (Some(overhead), Some(given)) if overhead != given => {
            return Err(
                attributes.forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
            );
        }
        (Some(overhead), _) => pod["spec"]["overhead"] = overhead.clone(),
        (None, Some(_)) => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(attributes.forbidden(why));
        }
        (None, None) => {}
    }
    for (key, value) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        match pod["spec"]["nodeSelector"].get(key).filter(|given| *given != value) {
            Some(given) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    text(value),
                    text(given)
                );
                return Err(attributes.forbidden(&why));
            }
            None => pod["spec"]["nodeSelector"][key] = value.clone(),
        }
    }
    for toleration in class["scheduling"]["tolerations"].as_array().into_iter().flatten() {
        push(&mut pod["spec"]["tolerations"], toleration.clone());
    }
    Ok(())
}
