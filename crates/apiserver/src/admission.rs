//! Admission: what the server changes in and refuses of requests that are well-formed, in the order of the reference
//! server's plugins. Webhooks would come between [`mutate`] and [`validate`].

use std::sync::Arc;

use serde_json::{Value, json};

use crate::aggregation;
use crate::error::ApiError;
use crate::escalation;
use crate::planted::Planted;
use crate::registry::Served;
use crate::request::User;
use crate::state::State;
use crate::store::Object;

mod limit_ranges;
mod namespace;
mod pods;
mod quota;
mod services;
mod storage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// The request as admission sees it.
pub(crate) struct Attributes<'a> {
    pub(crate) operation: Operation,
    pub(crate) served: &'a Arc<Served>,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user: &'a User,
}

impl Attributes<'_> {
    pub(crate) fn forbidden(&self, why: &str) -> ApiError {
        ApiError::forbidden(&self.served.group, &self.served.plural, self.name, why)
    }

    fn creates(&self, group: &str, kind: &str) -> bool {
        self.operation == Operation::Create && self.subresource.is_empty() && self.served.is(group, kind)
    }
}

/// Before validation: may change the object.
pub(crate) fn mutate(
    state: &mut State,
    attributes: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    namespace::lifecycle(state, attributes)?;
    escalation::check(state, attributes, object, old)?;
    if attributes.creates("", "Pod") {
        limit_ranges::default_resources(state, attributes, object);
        pods::service_account(state, attributes, object)?;
        pods::priority(state, attributes, object)?;
        if !state.suffers(Planted::TolerationsForgotten) {
            pods::default_tolerations(object);
        }
        pods::runtime_class(state, attributes, object)?;
    }
    if attributes.operation == Operation::Update
        && attributes.served.is("", "Pod")
        && attributes.subresource.is_empty()
        && !state.suffers(Planted::TolerationsForgotten)
    {
        pods::default_tolerations(object);
    }
    if attributes.creates("", "Node") {
        taint_new_node(object);
    }
    if attributes.creates("", "PersistentVolumeClaim") {
        storage::default_class(state, object);
    }
    if attributes.operation == Operation::Create {
        storage::protect(attributes, object);
    }
    if attributes.served.is("scheduling.k8s.io", "PriorityClass") && attributes.operation != Operation::Delete {
        pods::one_default_priority(state, attributes, object)?;
    }
    if attributes.creates("networking.k8s.io", "Ingress") {
        services::default_ingress_class(state, object);
    }
    if attributes.served.is("certificates.k8s.io", "CertificateSigningRequest") {
        signing_request_user(attributes, object, old);
    }
    Ok(())
}

/// After validation: may only refuse.
pub(crate) fn validate(
    state: &mut State,
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if attributes.operation == Operation::Delete {
        return namespace::lifecycle(state, attributes);
    }
    if attributes.served.is("", "Pod") && attributes.subresource.is_empty() && attributes.operation == Operation::Create
    {
        limit_ranges::check_pod(state, attributes, object)?;
    }
    if attributes.creates("", "PersistentVolumeClaim") {
        limit_ranges::check_claim(state, attributes, object)?;
    }
    if attributes.served.is("", "PersistentVolumeClaim")
        && attributes.operation == Operation::Update
        && attributes.subresource.is_empty()
    {
        storage::check_resize(state, attributes, object, old)?;
    }
    if attributes.operation == Operation::Create && attributes.subresource.is_empty() {
        quota::check(state, attributes, object)?;
    }
    Ok(())
}

/// The last step before the store: what needs the whole of the server's state.
pub(crate) fn before_store(
    state: &mut State,
    served: &Served,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if served.is("", "Service") {
        services::allocate(state, object, old)?;
    }
    Ok(())
}

/// What follows from an object that was stored.
pub(crate) fn after_store(state: &mut State, served: &Arc<Served>, object: &Arc<Object>) {
    if served.is("rbac.authorization.k8s.io", "ClusterRole") {
        aggregation::follow(state, served);
    }
    if served.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        crate::crd::after_store(state, object);
    }
    quota::refresh(state, served, object.namespace());
}

/// What follows from an object that is gone.
pub(crate) fn after_remove(state: &mut State, served: &Arc<Served>, object: &Arc<Object>) {
    if served.is("rbac.authorization.k8s.io", "ClusterRole") {
        aggregation::follow(state, served);
    }
    if served.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        crate::crd::after_remove(state, object);
    }
    quota::refresh(state, served, object.namespace());
}

/// A node is not ready before it says so.
fn taint_new_node(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let taints = &mut node["spec"]["taints"];
    match taints.as_array_mut() {
        Some(list) if list.iter().any(|t| t["key"] == taint["key"] && t["effect"] == taint["effect"]) => {}
        Some(list) => list.push(taint),
        None => *taints = json!([taint]),
    }
}

/// Who asks for a certificate is not for them to say.
fn signing_request_user(attributes: &Attributes<'_>, request: &mut Value, old: Option<&Value>) {
    match old {
        None => {
            let user = attributes.user;
            request["spec"]["username"] = json!(user.name);
            request["spec"]["groups"] = json!(user.groups);
            if !user.uid.is_empty() {
                request["spec"]["uid"] = json!(user.uid);
            }
        }
        Some(old) => request["spec"] = old["spec"].clone(),
    }
}
