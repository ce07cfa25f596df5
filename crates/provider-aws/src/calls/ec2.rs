//! EC2.

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_ec2::catalogue::TypeFacts;

use super::{CreateFleet, Filter, FleetAnswer, Image, NewLaunchTemplate, Result, RunInstances, Tags};

#[async_trait]
pub trait Ec2: Send + Sync {
    /// Nothing but whether we may; the answer to a dry run that would have worked is the error `DryRunOperation`.
    async fn describe_instance_types_dry_run(&self) -> Result<()>;
    /// Of hardware virtualisation, x86_64 or arm64. What EC2 does not tell (baseline bandwidth, branch interfaces) is
    /// left open.
    async fn describe_instance_types(&self, max_results: u32) -> Result<Vec<TypeFacts>>;
    /// Type and zone name.
    async fn describe_instance_type_offerings(&self, max_results: u32) -> Result<Vec<(String, String)>>;
    /// Latest prices of `Linux/UNIX` and `Linux/UNIX (Amazon VPC)`.
    async fn describe_spot_price_history(&self, from: Timestamp, max_results: u32) -> Result<Vec<SpotPrice>>;
    async fn describe_subnets(&self, filters: &[Filter], max_results: u32) -> Result<Vec<Subnet>>;
    async fn describe_security_groups(&self, filters: &[Filter], max_results: u32) -> Result<Vec<SecurityGroup>>;
    async fn describe_images(&self, request: &DescribeImages) -> Result<Vec<Image>>;
    async fn describe_capacity_reservations(
        &self,
        ids: &[String],
        filters: &[Filter],
        max_results: Option<u32>,
    ) -> Result<Vec<CapacityReservation>>;
    async fn describe_placement_groups(&self, filters: &[Filter]) -> Result<Vec<PlacementGroup>>;

    async fn describe_instances(&self, request: &DescribeInstances) -> Result<Vec<Instance>>;
    async fn describe_instance_status(&self, filters: &[Filter]) -> Result<Vec<InstanceStatus>>;
    async fn create_fleet(&self, request: &CreateFleet) -> Result<FleetAnswer>;
    /// Only ever as a dry run.
    async fn run_instances_dry_run(&self, request: &RunInstances) -> Result<()>;
    async fn terminate_instances(&self, ids: &[String]) -> Result<Vec<StateChange>>;
    async fn create_tags(&self, resources: &[String], tags: &Tags) -> Result<()>;

    async fn create_launch_template(&self, template: &NewLaunchTemplate) -> Result<LaunchTemplate>;
    async fn describe_launch_templates(&self, request: &DescribeLaunchTemplates) -> Result<Vec<LaunchTemplate>>;
    async fn delete_launch_template_by_id(&self, id: &str) -> Result<()>;
    async fn delete_launch_template_by_name(&self, name: &str) -> Result<()>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct SpotPrice {
    pub instance_type: String,
    pub zone: String,
    /// As EC2 writes it, in dollars.
    pub price: String,
    pub timestamp: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    pub id: String,
    pub zone: String,
    pub zone_id: String,
    pub free_addresses: i64,
    pub tags: Tags,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    pub id: String,
    pub name: String,
    pub tags: Tags,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribeImages {
    pub owners: Vec<String>,
    pub filters: Vec<Filter>,
    pub include_deprecated: bool,
    pub max_results: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityReservation {
    pub id: String,
    pub zone: String,
    pub instance_type: String,
    /// `open` or `targeted`.
    pub instance_match_criteria: String,
    pub owner_id: String,
    /// `default` or `capacity-block`.
    pub reservation_type: String,
    pub interruptible: bool,
    pub available: u32,
    pub end: Option<Timestamp>,
    pub tags: Tags,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementGroup {
    pub id: String,
    pub name: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    pub partitions: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribeInstances {
    pub ids: Vec<String>,
    pub filters: Vec<Filter>,
    /// Not together with ids.
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub id: String,
    pub state: InstanceState,
    pub instance_type: String,
    pub image_id: String,
    pub zone: String,
    pub zone_id: Option<String>,
    pub subnet_id: Option<String>,
    pub launched_at: Timestamp,
    pub tags: Tags,
    pub spot_request_id: Option<String>,
    pub capacity_reservation_id: Option<String>,
    /// `capacity-reservations-only`, `open` or `none`.
    pub reservation_preference: Option<String>,
    /// `spot`, `capacity-block`, `interruptible-capacity-reservation`; none on demand.
    pub lifecycle: Option<String>,
    pub tenancy: Option<String>,
    pub security_groups: Vec<String>,
    pub efa_interfaces: u32,
    pub placement_group_id: Option<String>,
    pub partition: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceState {
    Pending,
    Running,
    ShuttingDown,
    Terminated,
    Stopping,
    Stopped,
}

impl InstanceState {
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::ShuttingDown, Self::Terminated, Self::Stopping, Self::Stopped];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What TerminateInstances says of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    pub id: String,
    pub state: InstanceState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    pub instance_id: String,
    /// Name, status, and since when it is impaired, of the system's and the instance's own checks.
    pub system_checks: Vec<StatusCheck>,
    pub instance_checks: Vec<StatusCheck>,
    /// Codes of scheduled events.
    pub events: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusCheck {
    pub status: String,
    pub impaired_since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchTemplate {
    pub id: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribeLaunchTemplates {
    pub names: Vec<String>,
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
}
