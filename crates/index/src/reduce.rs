//! Pure functions from one object to its reduced form. An object that cannot be read is refused with every fault it
//! has, by field; it never takes others with it.

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
pub use daemon_set::{daemon_set, limits_stand_in_for_requests};
pub use intern::Interner;
pub use node::{claim_provider_id, is_tracked, node, provider_id};
pub use pod::{claims, pod, tracked_pod};
pub use pool::pool;
pub use requests::effective_requests;
pub use resources::resource_list;
pub use selector::selector;
pub use storage::{attachment, storage_class, volume, volume_claim};

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

/// Collects faults while an object is read, so that a user sees all of them at once.
#[derive(Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, at: &Path<'_>, message: impl Into<String>) {
        self.0.push(Fault { field: at.to_string(), message: message.into() });
    }

    pub(crate) fn finish<T>(self, kind: &str, metadata: &ObjectMeta, value: T) -> Result<T, Refused> {
        if self.0.is_empty() {
            return Ok(value);
        }
        Err(Refused { object: object_name(kind, metadata), faults: self.0 })
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
