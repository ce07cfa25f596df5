//! What a node of a type has: the resources its kubelet and device plugins will report.

use karpenter_core::resources::{self, Resources};
use karpenter_core::{InstanceType, Quantity};

use crate::catalogue::TypeFacts;
use crate::family::default_volume_size;
use crate::nodeclass::{BlockDevice, InterfaceKind, NetworkInterface, NodeClassFacts};

pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
pub const AMD_GPU: &str = "amd.com/gpu";
pub const HABANA_GAUDI: &str = "habana.ai/gaudi";
pub const NEURON: &str = "aws.amazon.com/neuron";
pub const NEURON_CORE: &str = "aws.amazon.com/neuroncore";
pub const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
pub const PRIVATE_IPV4: &str = "vpc.amazonaws.com/PrivateIPv4Address";
pub const EFA: &str = "vpc.amazonaws.com/efa";

/// Resources the provider knows beyond those of Kubernetes; a NodeOverlay may not redefine them.
pub const WELL_KNOWN_RESOURCES: [&str; 5] = [POD_ENI, NEURON, NEURON_CORE, HABANA_GAUDI, EFA];

/// Types with any of these are launched only when nothing else will do.
const EXOTIC: [&str; 5] = [NVIDIA_GPU, AMD_GPU, NEURON, NEURON_CORE, HABANA_GAUDI];

/// Whether a type carries devices that make it a poor choice for pods which do not ask for them.
pub fn has_exotic_devices(instance_type: &InstanceType) -> bool {
    EXOTIC.iter().any(|name| !instance_type.capacity.get(name).is_zero())
}

const MIB: i64 = 1 << 20;
/// Graviton firmware keeps this much for contiguous allocations.
const ARM_RESERVED_MIB: u64 = 64;
/// Where addresses do not bound the number of pods, the usual kubelet limit does.
const PODS_WITHOUT_INTERFACE_LIMIT: i64 = 110;

pub(crate) fn capacity(facts: &TypeFacts, class: &NodeClassFacts, memory: Quantity, pods: i64) -> Resources {
    let count = |n: u64| Quantity::from_units(i64::try_from(n).unwrap_or(i64::MAX));
    let gpus = |maker: &str| {
        let counts = facts.gpus.iter().filter(|gpu| &*gpu.manufacturer == maker);
        count(counts.map(|gpu| u64::from(gpu.count)).sum())
    };
    let neuron = facts.neuron_devices().map(|device| u64::from(device.count)).sum();
    let neuron_cores =
        facts.neuron_devices().next().map_or(0, |device| u64::from(device.count) * u64::from(device.cores_per_device));
    let branches = facts.branch_limits.filter(|limits| limits.trunking);
    let mut list: Resources = [
        (resources::CPU, count(u64::from(facts.vcpus))),
        (resources::MEMORY, memory),
        (resources::EPHEMERAL_STORAGE, ephemeral_storage(facts, class)),
        (resources::PODS, Quantity::from_units(pods)),
        (POD_ENI, count(branches.map_or(0, |limits| u64::from(limits.branch_enis)))),
        (NVIDIA_GPU, gpus("NVIDIA")),
        (AMD_GPU, gpus("AMD")),
        (HABANA_GAUDI, gpus("Habana")),
        (NEURON, count(neuron)),
        (NEURON_CORE, count(neuron_cores)),
        (EFA, count(u64::from(efas(facts, class)))),
    ]
    .into_iter()
    .collect();
    if class.ami_family.is_windows() && facts.kubernetes_arch() == Some("amd64") {
        // The VPC resource controller hands these out, and only for types it lists.
        let listed = facts.branch_limits.is_some();
        let addresses = if listed { u64::from(facts.ipv4_per_eni).saturating_sub(1) } else { 0 };
        list.set(PRIVATE_IPV4, count(addresses));
    }
    list
}

/// Memory as the operating system is expected to see it: an estimate, until a node of the type has registered.
pub(crate) fn estimated_memory(facts: &TypeFacts, overhead_percent: f64) -> Quantity {
    let graviton = facts.arch.first().is_some_and(|arch| &**arch == "arm64");
    let mib = facts.memory_mib.saturating_sub(if graviton { ARM_RESERVED_MIB } else { 0 });
    let bytes = i64::try_from(mib).unwrap_or(i64::MAX / MIB) * MIB;
    // In floating point and in this order, because the last MiB depends on it.
    let kept = (bytes as f64 * overhead_percent / 1024.0 / 1024.0).ceil() as i64;
    Quantity::from_bytes(bytes - kept * MIB)
}

/// How many pods the addresses of the network interfaces allow. The CNI uses the default network card only; an
/// EFA-only interface on it takes a slot and carries no addresses. Two pods use the host's address.
pub(crate) fn pods_by_interfaces(
    facts: &TypeFacts,
    reserved_enis: u32,
    interfaces: Option<&[NetworkInterface]>,
) -> i64 {
    let of_card = facts.network_cards.get(facts.default_network_card);
    let enis = of_card.map_or(0, |card| i64::from(card.max_enis));
    let efa_only = efa_only(interfaces.unwrap_or_default().iter().filter(|interface| interface.card == 0));
    let usable = enis - i64::from(reserved_enis) - i64::from(efa_only);
    if usable <= 0 {
        return 0;
    }
    usable * (i64::from(facts.ipv4_per_eni) - 1) + 2
}

/// The pod limit before any `maxPods`.
pub(crate) fn default_pods(facts: &TypeFacts, class: &NodeClassFacts, reserved_enis: u32) -> i64 {
    if class.ami_family.limits_pods_by_interfaces() {
        pods_by_interfaces(facts, reserved_enis, class.network_interfaces.as_deref())
    } else {
        PODS_WITHOUT_INTERFACE_LIMIT
    }
}

pub(crate) fn pods(facts: &TypeFacts, class: &NodeClassFacts, reserved_enis: u32, max_pods: Option<i32>) -> i64 {
    let limit = max_pods.map_or_else(|| default_pods(facts, class, reserved_enis), i64::from);
    match class.kubelet.pods_per_core {
        Some(per_core) if per_core > 0 && class.ami_family.honours_pods_per_core() => {
            limit.min(i64::from(per_core) * i64::from(facts.vcpus))
        }
        _ => limit,
    }
}

/// The size of what holds pods' files: the first of the instance store as RAID0, the marked root volume, the
/// family's device among the mappings, its default.
pub(crate) fn ephemeral_storage(facts: &TypeFacts, class: &NodeClassFacts) -> Quantity {
    if class.instance_store_raid0 && facts.local_disk_gb > 0 {
        let bytes = i128::from(facts.local_disk_gb) * 1_000_000_000;
        return Quantity::from_units(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    let volumes = || class.block_devices.iter().filter_map(|device| Some((device, device.ebs.as_ref()?)));
    let first_size = |wanted: &dyn Fn(&BlockDevice) -> bool| {
        let (_, volume) = volumes().find(|(device, _)| wanted(device))?;
        volume.size
    };
    if let Some(size) = first_size(&|device| device.root_volume) {
        return size;
    }
    match class.ami_family.ephemeral_device() {
        // A custom image may call its devices anything; the last mapping is the best guess there is.
        None => volumes().next_back().and_then(|(_, volume)| volume.size).unwrap_or_else(default_volume_size),
        Some((name, default)) => first_size(&|device| device.device_name.as_deref() == Some(name)).unwrap_or(default),
    }
}

fn efas(facts: &TypeFacts, class: &NodeClassFacts) -> u32 {
    match &class.network_interfaces {
        Some(interfaces) => efa_only(interfaces),
        None => facts.efa_max,
    }
}

pub(crate) fn efa_only<'a>(interfaces: impl IntoIterator<Item = &'a NetworkInterface>) -> u32 {
    let count = interfaces.into_iter().filter(|interface| interface.kind == InterfaceKind::EfaOnly).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
