//! Volumes, interfaces and options of an instance.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether the device holds the kubelet's root directory; at most one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockDevice {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// MiB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// MiB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_initialization_rate: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    pub network_card_index: i32,
    pub device_index: i32,
    /// `interface` or `efa-only`.
    pub interface_type: String,
}

/// The instance metadata service as nodes see it. Every field has a default, also inside a partly written object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    pub http_endpoint: String,
    #[serde(rename = "httpProtocolIPv6")]
    pub http_protocol_ipv6: String,
    pub http_put_response_hop_limit: i64,
    pub http_tokens: String,
}

pub(crate) const DEFAULT_HTTP_ENDPOINT: &str = "enabled";
pub(crate) const DEFAULT_HTTP_PROTOCOL_IPV6: &str = "disabled";
pub(crate) const DEFAULT_HTTP_PUT_RESPONSE_HOP_LIMIT: i64 = 1;
pub(crate) const DEFAULT_HTTP_TOKENS: &str = "required";

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: DEFAULT_HTTP_ENDPOINT.to_owned(),
            http_protocol_ipv6: DEFAULT_HTTP_PROTOCOL_IPV6.to_owned(),
            http_put_response_hop_limit: DEFAULT_HTTP_PUT_RESPONSE_HOP_LIMIT,
            http_tokens: DEFAULT_HTTP_TOKENS.to_owned(),
        }
    }
}

/// Idle timeouts in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionTracking {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_established_timeout: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_stream_timeout: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_timeout: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// `enabled` or `disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<String>,
}
