//! The AWS calls the provider needs, in plain types: what `aws-client` makes over the wire and `aws-sim` plays.
//!
//! Each method is one action. Pages are read to the end by whoever implements it, `max_results` for each; retries are
//! theirs too. Nothing here decides anything.

mod ec2;
mod fleet;
mod permissions;
mod services;
mod template;

pub use ec2::{
    CapacityReservation, DescribeImages, DescribeInstances, DescribeLaunchTemplates, Ec2, Instance, InstanceState,
    InstanceStatus, LaunchTemplate, PlacementGroup, SecurityGroup, SpotPrice, StateChange, StatusCheck, Subnet,
};
pub use fleet::{CreateFleet, FleetAnswer, FleetConfig, FleetError, FleetInstances, FleetKind, Override, RunInstances};
pub use permissions::{PERMISSIONS, service_of};
pub use services::{
    Cluster, Eks, Iam, InstanceProfile, NewInstanceProfile, PriceQuery, Pricing, QueueMessage, ReceiveMessages, Shift,
    Sqs, Ssm, ZonalShift,
};
pub use template::{
    BlockDevice, CapacityReservationTarget, ConnectionTracking, Interface, MetadataOptions, NewLaunchTemplate, Volume,
};

use std::collections::BTreeMap;
use std::sync::Arc;

pub use karpenter_ec2::images::{Filter, Image};

pub type Tags = BTreeMap<String, String>;
pub type Result<T> = std::result::Result<T, AwsError>;

/// A refusal or failure of one call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {code}: {message}")]
pub struct AwsError {
    pub operation: &'static str,
    /// AWS's own, as in `RequestLimitExceeded`.
    pub code: String,
    pub message: String,
    /// HTTP 5xx, or no answer at all.
    pub server_fault: bool,
    pub request_id: Option<String>,
}

impl AwsError {
    pub fn new(operation: &'static str, code: &str, message: impl Into<String>) -> Self {
        Self { operation, code: code.to_owned(), message: message.into(), server_fault: false, request_id: None }
    }
}

/// All services of one account and region.
#[derive(Clone)]
pub struct Aws {
    pub region: String,
    pub ec2: Arc<dyn Ec2>,
    pub ssm: Arc<dyn Ssm>,
    pub iam: Arc<dyn Iam>,
    pub eks: Arc<dyn Eks>,
    pub pricing: Arc<dyn Pricing>,
    pub sqs: Arc<dyn Sqs>,
    pub zonal_shift: Arc<dyn ZonalShift>,
}
