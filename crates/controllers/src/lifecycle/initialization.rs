//! Initialization: a registered Node becomes usable capacity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::api::resource::v1::ResourceSlice;
use karpenter_api::labels::{REQUESTED_DRA_DRIVERS, UNREGISTERED_TAINT};
use karpenter_api::{NodeClaim, Quantity};

use super::registration::{matches, taints};

/// What the Node still lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotYet {
    pub reason: &'static str,
    pub message: String,
}

/// The checks, in order; the first that fails is the answer. `slices` are those of the Node; none where devices are not
/// waited for.
pub fn check(claim: &NodeClaim, node: &Node, slices: Option<&[ResourceSlice]>) -> Result<(), NotYet> {
    let not_yet = |reason, message: String| Err(NotYet { reason, message });
    if !is_ready(node) {
        return not_yet("NodeNotReady", "Node status is NotReady".to_owned());
    }
    let startup = claim.spec.startup_taints.iter().flatten();
    if let Some(taint) = startup.flat_map(|ours| taints(node).iter().find(|taint| matches(taint, ours))).next() {
        return not_yet("StartupTaintsExist", format!("StartupTaint {:?} still exists", taint_text(taint)));
    }
    if let Some(taint) = taints(node).iter().find(|taint| is_ephemeral(taint)) {
        return not_yet(
            "KnownEphemeralTaintsExist",
            format!("KnownEphemeralTaint {:?} still exists", taint_text(taint)),
        );
    }
    if let Some(name) = missing_resource(claim, node) {
        return not_yet("ResourceNotRegistered", format!("Resource {name:?} was requested but not registered"));
    }
    if let Some(driver) = slices.and_then(|slices| missing_driver(claim, slices)) {
        let message = format!("DRA driver {driver:?} has not published a complete resource pool");
        return not_yet("DRADriverPoolsNotPublished", message);
    }
    Ok(())
}

pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Taints that go away by themselves while a node starts.
fn is_ephemeral(taint: &Taint) -> bool {
    const EPHEMERAL: [(&str, &str); 5] = [
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        (UNREGISTERED_TAINT, "NoExecute"),
    ];
    taint.key.starts_with("readiness.k8s.io/") || EPHEMERAL.contains(&(taint.key.as_str(), taint.effect.as_str()))
}

fn taint_text(taint: &Taint) -> String {
    match taint.value.as_deref() {
        None | Some("") => format!("{}:{}", taint.key, taint.effect),
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
    }
}

/// A kubelet zeroes extended resources when it starts; a device plugin that has not come up yet leaves them so.
fn missing_resource<'a>(claim: &'a NodeClaim, node: &Node) -> Option<&'a str> {
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    requests
        .into_iter()
        .flatten()
        .filter(|(_, amount)| !is_zero(amount))
        .find(|(name, _)| allocatable.and_then(|all| all.get(*name)).is_none_or(is_zero))
        .map(|(name, _)| name.as_str())
}

/// What cannot be read is not zero: somebody wanted it.
fn is_zero(quantity: &Quantity) -> bool {
    quantity.0.parse().is_ok_and(karpenter_core::Quantity::is_zero)
}

/// The drivers the claim waits for; none without the annotation.
pub fn requested_drivers(claim: &NodeClaim) -> impl Iterator<Item = &str> {
    let annotation = claim.metadata.annotations.as_ref().and_then(|all| all.get(REQUESTED_DRA_DRIVERS));
    annotation.map_or("", String::as_str).split(',').map(str::trim).filter(|driver| !driver.is_empty())
}

fn missing_driver<'a>(claim: &'a NodeClaim, slices: &[ResourceSlice]) -> Option<&'a str> {
    let published = published_drivers(slices);
    requested_drivers(claim).find(|driver| !published.contains(driver))
}

/// Drivers with at least one whole pool: all slices of its newest generation are there.
fn published_drivers(slices: &[ResourceSlice]) -> Vec<&str> {
    struct Pool {
        generation: i64,
        declared: i64,
        seen: i64,
    }
    let mut pools: BTreeMap<(&str, &str), Pool> = BTreeMap::new();
    for slice in slices {
        let (driver, given) = (slice.spec.driver.as_str(), &slice.spec.pool);
        let new = Pool { generation: given.generation, declared: given.resource_slice_count, seen: 0 };
        let pool = pools.entry((driver, given.name.as_str())).or_insert(new);
        if given.generation > pool.generation {
            *pool = Pool { generation: given.generation, declared: given.resource_slice_count, seen: 0 };
        }
        if given.generation == pool.generation {
            pool.seen += 1;
        }
    }
    let whole = pools.iter().filter(|(_, pool)| pool.declared > 0 && pool.seen == pool.declared);
    whole.map(|((driver, _), _)| *driver).collect()
}

/// Whether a slice is local to the Node. Slices for the whole cluster are nobody's.
pub fn belongs_to(slice: &ResourceSlice, node: &str) -> bool {
    let owners = slice.metadata.owner_references.iter().flatten();
    slice.spec.node_name.as_deref() == Some(node)
        || owners.into_iter().any(|owner| owner.kind == "Node" && owner.name == node)
}

#[cfg(test)]
mod tests;
