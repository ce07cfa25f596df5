//! The other services.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Result, Tags};

#[async_trait]
pub trait Ssm: Send + Sync {
    /// By name or ARN.
    async fn get_parameter(&self, name: &str) -> Result<String>;
}

#[async_trait]
pub trait Iam: Send + Sync {
    async fn get_instance_profile(&self, name: &str) -> Result<InstanceProfile>;
    async fn create_instance_profile(&self, profile: &NewInstanceProfile) -> Result<InstanceProfile>;
    async fn add_role_to_instance_profile(&self, name: &str, role: &str) -> Result<()>;
    async fn remove_role_from_instance_profile(&self, name: &str, role: &str) -> Result<()>;
    async fn delete_instance_profile(&self, name: &str) -> Result<()>;
    async fn list_instance_profiles(&self, path_prefix: &str) -> Result<Vec<InstanceProfile>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceProfile {
    pub name: String,
    pub path: String,
    /// Role names; IAM allows one.
    pub roles: Vec<String>,
    pub created_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInstanceProfile {
    pub name: String,
    pub path: String,
    pub tags: Tags,
}

#[async_trait]
pub trait Eks: Send + Sync {
    async fn describe_cluster(&self, name: &str) -> Result<Cluster>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    pub arn: String,
    pub version: String,
    pub endpoint: String,
    pub service_ipv4_cidr: Option<String>,
    pub service_ipv6_cidr: Option<String>,
    /// Base64.
    pub certificate_authority: Option<String>,
}

#[async_trait]
pub trait Pricing: Send + Sync {
    /// GetProducts of AmazonEC2: each item is one product of the price list, as JSON text.
    async fn get_products(&self, query: &PriceQuery) -> Result<Vec<String>>;
}

/// All `TERM_MATCH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceQuery {
    pub filters: Vec<(&'static str, String)>,
    pub max_results: u32,
}

#[async_trait]
pub trait Sqs: Send + Sync {
    async fn get_queue_url(&self, name: &str) -> Result<String>;
    /// Long poll, with the attribute `SentTimestamp` and all message attributes.
    async fn receive_messages(&self, request: &ReceiveMessages) -> Result<Vec<QueueMessage>>;
    async fn delete_message(&self, url: &str, receipt_handle: &str) -> Result<()>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveMessages {
    pub url: String,
    pub at_most: u32,
    /// How long what was received is hidden from others.
    pub visibility: Duration,
    /// How long to wait for a first message.
    pub wait: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMessage {
    pub id: String,
    pub receipt_handle: String,
    pub body: String,
    pub sent_at: Option<Timestamp>,
}

#[async_trait]
pub trait ZonalShift: Send + Sync {
    /// The shifts of a cluster that is registered with ARC; an error if it is not.
    async fn get_managed_resource(&self, arn: &str) -> Result<Vec<Shift>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Traffic is shifted away from this one.
    pub zone_id: String,
    /// `APPLIED` or `NOT_APPLIED`.
    pub applied: bool,
    pub expires_at: Option<Timestamp>,
}
