//! EC2NodeClass `karpenter.k8s.aws/v1`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object::kubernetes_object;

pub use ami_family::{AmiAlias, AmiFamily, LATEST};
pub use devices::{BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, MetadataOptions, NetworkInterface};
pub use selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, PlacementGroupSelector, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};
pub use status::{Ami, CapacityReservation, EC2NodeClassStatus, SecurityGroup, Subnet};
pub(crate) use status::{DEFAULT_RESERVATION_STATE, DEFAULT_RESERVATION_TYPE};

mod ami_family;
mod devices;
mod selectors;
mod status;

kubernetes_object! {
    /// How nodes look in EC2: images, network, volumes, identity and kubelet settings.
    EC2NodeClass, "karpenter.k8s.aws", "v1", "ec2nodeclasses", ClusterResourceScope,
    #[serde(default)] spec: EC2NodeClassSpec, status: EC2NodeClassStatus
}

/// Kubelet settings as an open map: the API server keeps whatever it is given, the controller validates.
pub type KubeletConfiguration = serde_json::Map<String, serde_json::Value>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassSpec {
    #[serde(default)]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    #[serde(default)]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_reservation_selector_terms: Option<Vec<CapacityReservationSelectorTerm>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    #[serde(rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_prefix_count: Option<i32>,
    #[serde(default)]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// As written; [`EC2NodeClass::ami_family`] tells the family in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfiguration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_device_mappings: Option<Vec<BlockDeviceMapping>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    #[serde(default)]
    pub metadata_options: MetadataOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
}
