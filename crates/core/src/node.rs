//! Existing nodes: what runs now, and what was bought and is still on its way.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::labels::{HOSTNAME, Labels, NODEPOOL};
use crate::resources::Resources;
use crate::taints::Taint;

/// A Node and its NodeClaim as the scheduler should see them now: labels, taints and resources are the effective ones
/// for the stage the node is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The Node's name; the NodeClaim's while the node is managed and not registered.
    pub name: Arc<str>,
    /// The NodeClaim's name, for managed nodes.
    pub claim: Option<Arc<str>>,
    pub provider_id: Option<Arc<str>>,
    pub stage: Stage,
    /// A Node object exists; otherwise there is only a launched NodeClaim.
    pub has_node: bool,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub capacity: Resources,
    pub allocatable: Resources,
    /// Going away: no target, and its pods need another place.
    pub deleting: bool,
    /// How many volumes of a driver can be attached; a driver that is not listed is not limited.
    pub volume_limits: BTreeMap<Arc<str>, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Somebody else's node; always complete.
    Unmanaged,
    Launched,
    Registered,
    Initialized,
}

impl Node {
    pub fn is_initialized(&self) -> bool {
        matches!(self.stage, Stage::Unmanaged | Stage::Initialized)
    }

    pub fn is_managed(&self) -> bool {
        self.stage != Stage::Unmanaged
    }

    pub fn pool(&self) -> Option<&str> {
        self.labels.get(NODEPOOL).map(String::as_str)
    }

    /// The value of the hostname topology: the label, or the name where there is none.
    pub fn hostname(&self) -> &str {
        self.labels.get(HOSTNAME).map_or(&*self.name, String::as_str)
    }
}
