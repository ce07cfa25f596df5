//! A machine as the cloud tells of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_core::Resources;

/// Plain data; what of it goes into a NodeClaim is the lifecycle's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What `status.providerID` of the claim and `spec.providerID` of the Node say.
    pub provider_id: String,
    pub image_id: String,
    /// What is known about the machine and its type: goes onto the claim's labels.
    pub labels: BTreeMap<String, String>,
    /// Only from a launch: goes onto the claim's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Without zeros. Empty when the type is not known (its pool or node class is gone).
    pub capacity: Resources,
    pub allocatable: Resources,
    pub instance_type: String,
    pub zone: String,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: String,
    pub launched_at: Timestamp,
    /// Termination has begun.
    pub deleting: bool,
    /// The names the machine was launched or later marked with, where it carries them.
    pub node_claim: Option<String>,
    pub node_pool: Option<String>,
    pub node_class: Option<String>,
    pub cluster: Option<String>,
}
