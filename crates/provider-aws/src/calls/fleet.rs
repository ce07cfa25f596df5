//! CreateFleet and RunInstances.

use karpenter_core::MicroUsd;

use super::Tags;

/// An instant fleet. Lists are in our order; equal fleets compare equal, which is what batching joins by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CreateFleet {
    pub client_token: Option<String>,
    pub dry_run: bool,
    pub kind: FleetKind,
    pub total: u32,
    pub configs: Vec<FleetConfig>,
    /// On instance, volume and fleet.
    pub tags: Tags,
    pub context: Option<String>,
    /// By our priorities instead of EC2's own judgement.
    pub prioritized: bool,
}

/// How the fleet buys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetKind {
    OnDemand,
    Spot,
    /// A default reservation, named by the template; an on-demand fleet.
    Reserved,
    CapacityBlock,
    InterruptibleReservation,
}

impl FleetKind {
    /// `DefaultTargetCapacityType`.
    pub fn target_capacity_type(self) -> &'static str {
        match self {
            Self::OnDemand | Self::Reserved => "on-demand",
            Self::Spot => "spot",
            Self::CapacityBlock => "capacity-block",
            Self::InterruptibleReservation => "reserved-capacity",
        }
    }

    /// The spot or on-demand allocation strategy; the other kinds send no such block.
    pub fn allocation_strategy(self, prioritized: bool) -> Option<&'static str> {
        match (self, prioritized) {
            (Self::Spot, false) => Some("price-capacity-optimized"),
            (Self::Spot, true) => Some("capacity-optimized-prioritized"),
            (Self::OnDemand | Self::Reserved, false) => Some("lowest-price"),
            (Self::OnDemand | Self::Reserved, true) => Some("prioritized"),
            (Self::CapacityBlock | Self::InterruptibleReservation, _) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FleetConfig {
    pub template_name: String,
    pub version: &'static str,
    pub overrides: Vec<Override>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Override {
    pub instance_type: String,
    pub zone: String,
    pub subnet_id: String,
    pub image_id: String,
    /// Lower goes first, where priorities count.
    pub priority: MicroUsd,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetAnswer {
    pub fleet_id: String,
    pub instances: Vec<FleetInstances>,
    pub errors: Vec<FleetError>,
}

/// Instances launched from one override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetInstances {
    pub ids: Vec<String>,
    pub instance_type: String,
    pub zone: String,
    pub subnet_id: Option<String>,
    pub image_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FleetError {
    pub code: String,
    pub message: String,
    pub instance_type: String,
    pub zone: String,
    pub subnet_id: Option<String>,
}

/// For checking permissions: one instance from a template, never launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInstances {
    pub template_name: String,
    pub instance_type: String,
    pub subnet_id: String,
    pub tags: Tags,
}
