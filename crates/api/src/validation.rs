//! Is this object one the API server would take, and one the controller could use?
//!
//! Three layers, all of which report every fault with the path of its field:
//!
//! - [`validate`]: the schema and the admission rules, over the raw object; what an API server with our CRDs would say;
//! - [`validate_update`]: that, and the rules about what may change;
//! - [`runtime`] and [`kubelet`]: what the controller checks later, after which an object is not ready.

mod admission;
pub mod kubelet;
pub mod names;
mod path;
pub mod runtime;

use std::fmt;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::Object;
use crate::schema::{schema_of, v1beta1_schema_of};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Where: `spec.template.spec.requirements[0].key`. Empty when it is the object itself.
    pub field: String,
    /// What, in words that make sense after the field.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.field, self.message) }
    }
}

/// Everything an API server would refuse in a new object, which must have been through
/// [`apply_defaults`](crate::apply_defaults).
pub fn validate(kind: Kind, object: &Value) -> Vec<Fault> {
    admission::create(schema_of(kind), object)
}

/// As [`validate`], and what may not change from the old object to the new one.
pub fn validate_update(kind: Kind, old: &Value, new: &Value) -> Vec<Fault> {
    let mut faults = admission::create(schema_of(kind), new);
    admission::update(schema_of(kind), old, new, &mut faults);
    faults
}

/// As [`validate`] and, with an old object, [`validate_update`], for objects of v1beta1.
pub fn validate_v1beta1(kind: Kind, old: Option<&Value>, new: &Value) -> Vec<Fault> {
    let Some(schema) = v1beta1_schema_of(kind) else { return Vec::new() };
    let mut faults = admission::create(schema, new);
    if let Some(old) = old {
        admission::update(schema, old, new, &mut faults);
    }
    faults
}

/// The paths of fields no schema knows. An API server drops them silently or refuses them, as the client asks. What
/// lies under `status` is left alone: it is written by controllers, maybe newer ones.
pub fn unknown_fields(kind: Kind, object: &Value) -> Vec<String> {
    admission::unknown_fields(schema_of(kind), object)
}

/// [`validate`] for an object that has its type already.
pub fn validate_create<T: Object>(object: &T) -> Vec<Fault> {
    validate(T::KIND_OF_OBJECT, &object.to_value())
}

/// [`validate_update`] for objects that have their type already.
pub fn validate_change<T: Object>(old: &T, new: &T) -> Vec<Fault> {
    validate_update(T::KIND_OF_OBJECT, &old.to_value(), &new.to_value())
}

#[cfg(test)]
mod tests;
