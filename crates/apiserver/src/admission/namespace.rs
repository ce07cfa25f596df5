//! NamespaceLifecycle: nothing is created in a namespace that does not exist or is going away, and those the cluster
//! cannot do without stay.

use serde_json::json;

use super::{Attributes, Operation};
use crate::error::ApiError;
use crate::state::State;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn lifecycle(state: &State, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    let served = attributes.served;
    if attributes.operation == Operation::Delete && served.is("", "Namespace") && IMMORTAL.contains(&attributes.name) {
        return Err(ApiError::forbidden("", "namespaces", attributes.name, "this namespace may not be deleted"));
    }
    if attributes.operation != Operation::Create || !served.namespaced || served.is("", "Namespace") {
        return Ok(());
    }
    // Reviews are answered, not kept.
    if &*served.group == "authorization.k8s.io" {
        return Ok(());
    }
    let namespace = attributes.namespace;
    let found = state.registry.table("", "namespaces").and_then(|table| state.store.get(table, namespace));
    let Some(found) = found else {
        return Err(ApiError::not_found("", "namespaces", namespace));
    };
    let value = found.shared();
    if value["status"]["phase"] != "Terminating" {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = json!({"reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace"});
    let error = ApiError::forbidden(&served.group, &served.plural, attributes.name, &why);
    Err(error.with_cause(cause))
}
