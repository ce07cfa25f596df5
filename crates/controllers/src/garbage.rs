//! Garbage collection, both ways: claims whose machine is gone, and machines that no claim holds.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{REGISTERED, Status};
use karpenter_provider::Machine;

use crate::lifecycle::initialization::is_ready;
use crate::ownership::{Matches, claim_provider_id};

/// How long a machine may be without a claim: its launch may just not have been written down yet.
const LEAK_AGE: SignedDuration = SignedDuration::from_secs(30);
/// How many sweeps for machines come soon after the start, when a crash may have left some behind.
const EAGER_SWEEPS: u32 = 20;

/// Claims that may have lost their machine. Only registered ones: the others are liveness' business. The provider's list
/// may be partial without saying so, hence the lookup of each that follows.
pub fn suspects<'a>(claims: &'a [NodeClaim], machines: &[Machine]) -> Vec<&'a NodeClaim> {
    let alive: BTreeSet<&str> =
        machines.iter().filter(|machine| !machine.deleting).map(|machine| machine.provider_id.as_str()).collect();
    claims
        .iter()
        .filter(|claim| claim.condition_status(REGISTERED) == Status::True)
        .filter(|claim| claim.metadata.deletion_timestamp.is_none())
        .filter(|claim| claim_provider_id(claim).is_some_and(|id| !alive.contains(id)))
        .collect()
}

/// A kubelet that still reports proves the provider wrong.
pub fn is_spared(node: Matches<&Node>) -> bool {
    node.one().is_some_and(is_ready)
}

/// Machines of this cluster that no claim holds.
pub fn leaks<'a>(machines: &'a [Machine], claims: &[NodeClaim], now: Timestamp) -> Vec<&'a Machine> {
    let held: BTreeSet<&str> = claims.iter().filter_map(claim_provider_id).collect();
    machines
        .iter()
        .filter(|machine| !machine.deleting && !held.contains(machine.provider_id.as_str()))
        .filter(|machine| now.duration_since(machine.launched_at) > LEAK_AGE)
        .collect()
}

/// The pause after the so-many-th sweep for machines.
pub fn leak_sweep_pause(sweeps: u32) -> Duration {
    if sweeps <= EAGER_SWEEPS { Duration::from_secs(10) } else { Duration::from_mins(2) }
}

#[cfg(test)]
mod tests;
