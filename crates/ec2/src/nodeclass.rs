//! What of an EC2NodeClass decides how instance types look.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::Quantity;

use crate::family::AmiFamily;

pub mod json;

/// The part of a node class that instance types depend on, with its status already looked up. Plain data: the
/// controller fills it from the object it watches, `plan` from a manifest ([`json::facts`]).
#[derive(Clone, Debug, PartialEq)]
pub struct NodeClassFacts {
    pub ami_family: AmiFamily,
    pub kubelet: KubeletFacts,
    /// `spec.blockDeviceMappings`, in order.
    pub block_devices: Vec<BlockDevice>,
    /// `spec.instanceStorePolicy: RAID0`: the instance store holds pods' files.
    pub instance_store_raid0: bool,
    /// `spec.networkInterfaces`. `None` and an empty list differ: a list, even an empty one, replaces what the type
    /// would attach by itself.
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// `spec.connectionTracking` is there.
    pub connection_tracking: bool,
    /// `spec.cpuOptions.nestedVirtualization: enabled`.
    pub nested_virtualization: bool,
    /// The group that `spec.placementGroupSelector` was resolved to.
    pub placement_group: Option<PlacementGroup>,
    /// `status.subnets`. `None`: the status is not known, and there is a subnet in every zone of the region.
    pub subnets: Option<Vec<Subnet>>,
    /// `status.capacityReservations`, in order.
    pub capacity_reservations: Vec<CapacityReservation>,
}

impl Default for NodeClassFacts {
    /// A node class that says nothing: AL2023 with its defaults, subnets everywhere.
    fn default() -> Self {
        Self {
            ami_family: AmiFamily::Al2023,
            kubelet: KubeletFacts::default(),
            block_devices: Vec::new(),
            instance_store_raid0: false,
            network_interfaces: None,
            connection_tracking: false,
            nested_virtualization: false,
            placement_group: None,
            subnets: None,
            capacity_reservations: Vec::new(),
        }
    }
}

/// The kubelet settings that change what pods can get. `evictionSoft` is not among them: it only warns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeletFacts {
    pub max_pods: Option<MaxPods>,
    pub pods_per_core: Option<i32>,
    pub kube_reserved: BTreeMap<String, Reserved>,
    pub system_reserved: BTreeMap<String, Reserved>,
    /// `evictionHard["memory.available"]`.
    pub eviction_memory: Option<Threshold>,
    /// `evictionHard["nodefs.available"]`.
    pub eviction_nodefs: Option<Threshold>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaxPods {
    Count(i32),
    /// Evaluated for each type, if the gate is on.
    Expression(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    Amount(Quantity),
    /// Evaluated for each type, if the gate is on.
    Expression(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    Amount(Quantity),
    /// Of the capacity; 100 switches the threshold off, as in the kubelet.
    Percent(f64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    pub device_name: Option<String>,
    pub root_volume: bool,
    pub ebs: Option<EbsVolume>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EbsVolume {
    pub size: Option<Quantity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    pub card: u32,
    pub device: u32,
    pub kind: InterfaceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    Interface,
    EfaOnly,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementGroup {
    pub id: Arc<str>,
    pub strategy: PlacementStrategy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementStrategy {
    Cluster,
    Partition {
        /// How many partitions the group has; each becomes a topology domain.
        count: u32,
    },
    Spread,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    pub id: Arc<str>,
    pub zone: Arc<str>,
    /// Missing in a status written before zone ids were recorded.
    pub zone_id: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityReservation {
    pub id: Arc<str>,
    pub instance_type: Arc<str>,
    pub zone: Arc<str>,
    pub kind: ReservationKind,
    pub interruptible: bool,
    /// An expiring reservation is no longer launched into.
    pub expiring: bool,
    /// Instances it still has room for. The status does not say; EC2 does.
    pub remaining: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationKind {
    Default,
    CapacityBlock,
}

impl PlacementStrategy {
    /// As EC2 lists what a type supports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Partition { .. } => "partition",
            Self::Spread => "spread",
        }
    }
}

impl ReservationKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::CapacityBlock => "capacity-block",
        }
    }
}
