//! How objects are named.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Namespace and name; cluster-scoped objects have an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Of an object without a namespace.
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }

    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}
