//! CapacityBuffer `autoscaling.x-k8s.io/v1beta1`, shared with the cluster autoscaler.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::ResourceList;
use crate::object::kubernetes_object;

kubernetes_object! {
    /// Spare capacity kept ready for pods that do not exist yet.
    CapacityBuffer, "autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", NamespaceResourceScope,
    spec: CapacityBufferSpec, status: CapacityBufferStatus
}

/// The only strategy that acts.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferSpec {
    #[serde(default = "default_strategy")]
    pub provisioning_strategy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Of the replicas of `scalable_ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
}

impl Default for CapacityBufferSpec {
    fn default() -> Self {
        Self {
            provisioning_strategy: default_strategy(),
            pod_template_ref: None,
            scalable_ref: None,
            replicas: None,
            percentage: None,
            limits: None,
        }
    }
}

fn default_strategy() -> String {
    ACTIVE_CAPACITY.to_owned()
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalObjectRef {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// Absent or empty means the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
}
