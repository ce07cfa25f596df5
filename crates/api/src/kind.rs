//! The kinds this crate knows, for code that handles raw objects.

use k8s_openapi::Resource;

use crate::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    NodePool,
    NodeClaim,
    NodeOverlay,
    CapacityBuffer,
    EC2NodeClass,
}

impl Kind {
    pub const ALL: [Self; 5] =
        [Self::NodePool, Self::NodeClaim, Self::NodeOverlay, Self::CapacityBuffer, Self::EC2NodeClass];

    /// The kind of an object by what stands in its `apiVersion` and `kind`.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.api_version() == api_version && k.as_str() == kind)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::NodePool => NodePool::KIND,
            Self::NodeClaim => NodeClaim::KIND,
            Self::NodeOverlay => NodeOverlay::KIND,
            Self::CapacityBuffer => CapacityBuffer::KIND,
            Self::EC2NodeClass => EC2NodeClass::KIND,
        }
    }

    pub fn api_version(self) -> &'static str {
        match self {
            Self::NodePool => NodePool::API_VERSION,
            Self::NodeClaim => NodeClaim::API_VERSION,
            Self::NodeOverlay => NodeOverlay::API_VERSION,
            Self::CapacityBuffer => CapacityBuffer::API_VERSION,
            Self::EC2NodeClass => EC2NodeClass::API_VERSION,
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::NodePool => NodePool::URL_PATH_SEGMENT,
            Self::NodeClaim => NodeClaim::URL_PATH_SEGMENT,
            Self::NodeOverlay => NodeOverlay::URL_PATH_SEGMENT,
            Self::CapacityBuffer => CapacityBuffer::URL_PATH_SEGMENT,
            Self::EC2NodeClass => EC2NodeClass::URL_PATH_SEGMENT,
        }
    }

    /// `group/version` taken apart.
    pub fn group_version(self) -> (&'static str, &'static str) {
        self.api_version().split_once('/').expect("each of our kinds has a group")
    }

    pub fn is_namespaced(self) -> bool {
        match self {
            Self::CapacityBuffer => true,
            Self::NodePool | Self::NodeClaim | Self::NodeOverlay | Self::EC2NodeClass => false,
        }
    }
}
