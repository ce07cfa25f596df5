//! NodeOverlay `karpenter.sh/v1alpha1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::ResourceList;
use crate::object::kubernetes_object;
use crate::requirement::NodeSelectorRequirement;

kubernetes_object! {
    /// Changes the price or adds capacity of the instance types it matches, in simulation only.
    NodeOverlay, "karpenter.sh", "v1alpha1", "nodeoverlays", ClusterResourceScope,
    spec: NodeOverlaySpec, status: NodeOverlayStatus
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// `min_values` is never set here: the schema has no such field.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Shifts the price: `+5`, `-0.5`, `-10%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Replaces the price: `1.25`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOverlayStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
