//! What the selectors resolved to.

use k8s_openapi::api::core::v1::NodeSelectorRequirement;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<Subnet>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<SecurityGroup>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_reservations: Option<Vec<CapacityReservation>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amis: Option<Vec<Ami>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    pub id: String,
    pub zone: String,
    #[serde(rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ami {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which instance types the image runs on.
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    pub availability_zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    pub id: String,
    /// `open` or `targeted`.
    pub instance_match_criteria: String,
    pub instance_type: String,
    #[serde(rename = "ownerID")]
    pub owner_id: String,
    #[serde(default = "default_reservation_type")]
    pub reservation_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    #[serde(default = "default_reservation_state")]
    pub state: String,
}

pub(crate) const DEFAULT_RESERVATION_TYPE: &str = "default";
pub(crate) const DEFAULT_RESERVATION_STATE: &str = "active";

fn default_reservation_type() -> String {
    DEFAULT_RESERVATION_TYPE.to_owned()
}

fn default_reservation_state() -> String {
    DEFAULT_RESERVATION_STATE.to_owned()
}
