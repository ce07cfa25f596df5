//! NodeClaim `karpenter.sh/v1`.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use crate::ResourceList;
use crate::duration::{GoDuration, NillableDuration};
use crate::nodepool::{NodeClassReference, default_expire_after};
use crate::object::kubernetes_object;
use crate::requirement::NodeSelectorRequirement;

kubernetes_object! {
    /// One node, from the wish for it to its end.
    NodeClaim, "karpenter.sh", "v1", "nodeclaims", ClusterResourceScope, spec: NodeClaimSpec, status: NodeClaimStatus
}

/// Immutable once created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    pub node_class_ref: NodeClassReference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<GoDuration>,
    #[serde(default = "default_expire_after")]
    pub expire_after: NillableDuration,
}

impl Default for NodeClaimSpec {
    fn default() -> Self {
        Self {
            taints: None,
            startup_taints: None,
            requirements: Vec::new(),
            resources: None,
            node_class_ref: NodeClassReference::default(),
            termination_grace_period: None,
            expire_after: default_expire_after(),
        }
    }
}

/// The least the instance must offer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceRequirements {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceList>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    #[serde(rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Estimates made at launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<ResourceList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// When a pod was last bound to the node, left it or went terminal on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
}
