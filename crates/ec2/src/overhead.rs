//! What a node keeps for itself: kubelet, system daemons, and the memory and disk below which pods are evicted.

use std::collections::BTreeMap;

use karpenter_core::quantity::Format;
use karpenter_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};
use karpenter_core::{Overhead, Quantity};

use crate::nodeclass::{KubeletFacts, Threshold};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// Millicores up to which a band reaches, and the share of it that the kubelet keeps.
const CPU_BANDS: [(i64, f64); 4] = [(1000, 0.06), (2000, 0.01), (4000, 0.005), (1 << 31, 0.0025)];
/// The kubelet's share of memory grows with the pods it looks after.
const MEMORY_PER_POD_MIB: i64 = 11;
const MEMORY_BASE_MIB: i64 = 255;
const DISK_RESERVED: i64 = GIB;
const EVICTION_MEMORY: i64 = 100 * MIB;
const EVICTION_DISK_PERCENT: f64 = 10.0;

/// What the node has, as far as overhead depends on it. Memory is the estimate also where the real figure is known.
pub(crate) struct Node {
    pub(crate) vcpus: u32,
    pub(crate) memory: Quantity,
    pub(crate) ephemeral_storage: Quantity,
    /// The pods for which memory is reserved, which need not be the pods it may run.
    pub(crate) pods: i64,
}

/// The amounts of `kubeReserved` and `systemReserved`, expressions evaluated.
pub(crate) struct ReservedAmounts {
    pub(crate) kube: BTreeMap<String, Quantity>,
    pub(crate) system: BTreeMap<String, Quantity>,
}

pub(crate) fn overhead(node: &Node, kubelet: &KubeletFacts, reserved: &ReservedAmounts) -> Overhead {
    Overhead {
        kube_reserved: kube_reserved(node, &reserved.kube),
        system_reserved: reserved.system.iter().map(|(name, quantity)| (name.as_str(), *quantity)).collect(),
        eviction_threshold: eviction_threshold(node, kubelet),
    }
}

fn kube_reserved(node: &Node, given: &BTreeMap<String, Quantity>) -> Resources {
    let memory = node.pods.saturating_mul(MEMORY_PER_POD_MIB).saturating_add(MEMORY_BASE_MIB).saturating_mul(MIB);
    let mut list: Resources = [
        (CPU, Quantity::from_milli(kube_reserved_millicores(node.vcpus))),
        (MEMORY, Quantity::from_bytes(memory)),
        (EPHEMERAL_STORAGE, Quantity::from_bytes(DISK_RESERVED)),
    ]
    .into_iter()
    .collect();
    for (name, quantity) in given {
        list.set(name, *quantity);
    }
    list
}

fn kube_reserved_millicores(vcpus: u32) -> i64 {
    let millicores = i64::from(vcpus) * 1000;
    let mut start = 0;
    let mut kept = 0;
    for (end, share) in CPU_BANDS {
        let in_band = (millicores.min(end) - start).max(0);
        kept += (in_band as f64 * share) as i64;
        start = end;
    }
    kept
}

fn eviction_threshold(node: &Node, kubelet: &KubeletFacts) -> Resources {
    let disk = percent_of(node.ephemeral_storage.units() as f64, EVICTION_DISK_PERCENT);
    let memory = kubelet.eviction_memory.map(|threshold| amount(threshold, node.memory));
    let nodefs = kubelet.eviction_nodefs.map(|threshold| amount(threshold, node.ephemeral_storage));
    [(MEMORY, memory.unwrap_or(Quantity::from_bytes(EVICTION_MEMORY))), (EPHEMERAL_STORAGE, nodefs.unwrap_or(disk))]
        .into_iter()
        .collect()
}

fn amount(threshold: Threshold, capacity: Quantity) -> Quantity {
    match threshold {
        Threshold::Amount(quantity) => quantity,
        // The kubelet takes 100% to mean "never".
        Threshold::Percent(100.0) => Quantity::from_bytes(0),
        Threshold::Percent(percent) => percent_of(approximate(capacity), percent),
    }
}

/// Whole bytes exactly: counted in nanos, as quantities are, terabytes outgrow a float's digits.
fn approximate(quantity: Quantity) -> f64 {
    const NANO: i128 = 1_000_000_000;
    let (whole, rest) = (quantity.nanos() / NANO, quantity.nanos() % NANO);
    whole as f64 + rest as f64 / 1e9
}

/// Rounded up to a whole byte, in floating point and in this order because the last byte depends on it.
fn percent_of(bytes: f64, percent: f64) -> Quantity {
    let bytes = (bytes / 100.0 * percent).ceil();
    Quantity::from_nanos(bytes as i128 * 1_000_000_000, Format::BinarySi)
}

#[cfg(test)]
mod tests;
