//! Launch templates, as far as we fill them in.

use super::Tags;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewLaunchTemplate {
    pub name: String,
    pub image_id: String,
    pub instance_profile: String,
    pub monitoring: bool,
    /// Base64.
    pub user_data: String,
    pub block_devices: Vec<BlockDevice>,
    pub metadata: MetadataOptions,
    /// Security groups are set here and nowhere else.
    pub interfaces: Vec<Interface>,
    pub tenancy: String,
    pub placement_group_id: Option<String>,
    pub partition: Option<u32>,
    pub nested_virtualization: Option<String>,
    pub enclaves: bool,
    pub reservation: Option<CapacityReservationTarget>,
    /// `capacity-block` or `interruptible-capacity-reservation`.
    pub market_type: Option<String>,
    /// On the template, and through it on network interfaces.
    pub tags: Tags,
    /// Whether spot requests are tagged too.
    pub tag_spot_requests: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockDevice {
    pub device_name: Option<String>,
    pub volume: Option<Volume>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volume {
    pub delete_on_termination: Option<bool>,
    pub encrypted: Option<bool>,
    pub iops: Option<i64>,
    pub throughput: Option<i64>,
    pub kms_key_id: Option<String>,
    pub snapshot_id: Option<String>,
    pub initialization_rate: Option<i32>,
    pub size_gib: Option<i64>,
    pub volume_type: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetadataOptions {
    pub http_endpoint: String,
    /// Some regions do not know the field.
    pub http_protocol_ipv6: Option<String>,
    pub http_put_response_hop_limit: i64,
    pub http_tokens: String,
    pub instance_metadata_tags: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interface {
    pub card_index: Option<i32>,
    pub device_index: i32,
    /// `efa` or `efa-only`; none is an ordinary one.
    pub kind: Option<String>,
    pub security_groups: Vec<String>,
    pub associate_public_ip: Option<bool>,
    pub ipv4_prefix_count: Option<i32>,
    pub ipv6_prefix_count: Option<i32>,
    pub ipv6_address_count: Option<i32>,
    pub primary_ipv6: Option<bool>,
    pub connection_tracking: Option<ConnectionTracking>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionTracking {
    pub tcp_established: Option<i32>,
    pub udp_stream: Option<i32>,
    pub udp: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CapacityReservationTarget {
    /// `capacity-reservations-only`, this one.
    Only(String),
    /// `none`: not even an open one.
    Never,
}
