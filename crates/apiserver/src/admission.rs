//! Admission: what the server changes in and refuses of requests that are well-formed.

use std::sync::Arc;

use serde_json::Value;

use crate::error::ApiError;
use crate::registry::Served;
use crate::request::User;
use crate::state::State;
use crate::store::Object;

mod namespace;

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
    pub(crate) dry_run: bool,
}

/// Before validation: may change the object.
pub(crate) fn mutate(
    state: &mut State,
    attributes: &Attributes<'_>,
    _object: &mut Value,
    _old: Option<&Value>,
) -> Result<(), ApiError> {
    namespace::lifecycle(state, attributes)?;
    Ok(())
}

/// After validation: may only refuse.
pub(crate) fn validate(
    state: &mut State,
    attributes: &Attributes<'_>,
    _object: &Value,
    _old: Option<&Value>,
) -> Result<(), ApiError> {
    if attributes.operation == Operation::Delete {
        namespace::lifecycle(state, attributes)?;
    }
    Ok(())
}

/// The last step before the store: what needs the whole of the server's state.
pub(crate) fn before_store(
    _state: &mut State,
    _served: &Served,
    _object: &mut Value,
    _old: Option<&Value>,
    _dry_run: bool,
) -> Result<(), ApiError> {
    Ok(())
}

/// What follows from an object that was stored.
pub(crate) fn after_store(state: &mut State, served: &Served, object: &Arc<Object>) {
    if served.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        crate::crd::after_store(state, object);
    }
}

/// What follows from an object that is gone.
pub(crate) fn after_remove(state: &mut State, served: &Served, object: &Arc<Object>) {
    if served.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        crate::crd::after_remove(state, object);
    }
}
