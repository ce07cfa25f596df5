//! Pure functions from one object to its reduced form, with every fault the object has, by field; it never takes others
//! with it.
//!
//! Who asks for an object to be planned with wants it whole or not at all; who watches a cluster has to live with what is
//! there. So most functions come in two forms: one that refuses an object with faults, and `read_*`, which says how well
//! it could be read.

mod affinity;
mod budget;
mod daemon_set;
mod expressions;
mod intern;
mod node;
mod pod;
mod pool;
mod requests;
mod resources;
mod selector;
mod spread;
mod storage;
mod taints;

use std::fmt;

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_core::labels::Labels;
use karpenter_core::world::Service;

use crate::path::Path;

pub use budget::disruption_budget;
pub use daemon_set::{daemon_set, limits_stand_in_for_requests, read_daemon_set};
pub use intern::Interner;
pub use node::{claim_provider_id, is_tracked, node, provider_id, read_node};
pub use pod::{claims, pod, read_pod, tracked_pod};
pub use pool::pool;
pub use requests::effective_requests;
pub use resources::resource_list;
pub use selector::selector;
pub use storage::{attachment, read_storage_class, storage_class, volume, volume_claim};

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub field: String,
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

/// An object that cannot be used, and everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Refused {
    /// `Pod default/web-0`, `NodePool default`.
    pub object: String,
    pub faults: Vec<Fault>,
}

/// How well an object could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    Whole,
    /// It has values this version does not know, as those of a later Kubernetes. They were taken for the strictest they
    /// may mean, so what is decided from them holds.
    Careful(Box<Refused>),
    /// Something it needs is not known.
    Partial(Box<Refused>),
}

impl Reading {
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            Self::Whole => None,
            Self::Careful(refused) | Self::Partial(refused) => Some(refused),
        }
    }
}

/// An object as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read<T> {
    pub value: T,
    pub reading: Reading,
}

impl<T> Read<T> {
    /// Whole, or not at all.
    pub fn strict(self) -> Result<T, Refused> {
        match self.reading {
            Reading::Whole => Ok(self.value),
            Reading::Careful(refused) | Reading::Partial(refused) => Err(*refused),
        }
    }
}

/// Collects faults while an object is read, so that a user sees all of them at once.
#[derive(Default)]
pub(crate) struct Faults {
    all: Vec<Fault>,
    /// One of them leaves something open that no strict reading covers.
    partial: bool,
}

impl Faults {
    pub(crate) fn add(&mut self, at: &Path<'_>, message: impl Into<String>) {
        self.all.push(Fault { field: at.to_string(), message: message.into() });
        self.partial = true;
    }

    /// The value is taken for the strictest it may mean.
    pub(crate) fn careful(&mut self, at: &Path<'_>, message: impl Into<String>) {
        self.all.push(Fault { field: at.to_string(), message: message.into() });
    }

    pub(crate) fn read<T>(self, kind: &str, metadata: &ObjectMeta, value: T) -> Read<T> {
        if self.all.is_empty() {
            return Read { value, reading: Reading::Whole };
        }
        let refused = Box::new(Refused { object: object_name(kind, metadata), faults: self.all });
        let reading = match self.partial {
            false => Reading::Careful(refused),
            true => Reading::Partial(refused),
        };
        Read { value, reading }
    }

    pub(crate) fn finish<T>(self, kind: &str, metadata: &ObjectMeta, value: T) -> Result<T, Refused> {
        self.read(kind, metadata, value).strict()
    }

    /// For lists that stand alone.
    pub(crate) fn into_result<T>(self, value: T) -> Result<T, Vec<Fault>> {
        if self.all.is_empty() { Ok(value) } else { Err(self.all) }
    }
}

/// How messages name an object.
pub fn object_name(kind: &str, metadata: &ObjectMeta) -> String {
    let name = metadata.name.as_deref().unwrap_or("");
    match metadata.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{kind} {namespace}/{name}"),
        _ => format!("{kind} {name}"),
    }
}

pub fn service(object: &core_v1::Service) -> Service {
    Service {
        namespace: text(object.metadata.namespace.as_deref()),
        name: text(object.metadata.name.as_deref()),
        selector: object.spec.as_ref().and_then(|spec| spec.selector.clone()),
    }
}

/// A namespace's labels, with the one that every API server adds.
pub fn namespace_labels(object: &core_v1::Namespace) -> Labels {
    let mut labels = object.metadata.labels.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    labels.insert("kubernetes.io/metadata.name".to_owned(), name);
    labels
}

fn text(value: Option<&str>) -> std::sync::Arc<str> {
    value.unwrap_or("").into()
}

#[cfg(test)]
mod tests;
