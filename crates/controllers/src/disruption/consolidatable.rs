//! When a node is quiet: no pod has come or gone for a while.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::conditions;
use karpenter_api::{NodeClaim, NodePool};

use crate::clock::later;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Set,
    Remove,
    /// The quiet time is not over; then it will be.
    RemoveUntil(Timestamp),
}

pub(super) fn verdict(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Verdict {
    let Some(after) = pool.spec.disruption.consolidate_after.duration().filter(|_| pool.spec.replicas.is_none()) else {
        return Verdict::Remove;
    };
    let initialized = claim.condition(conditions::INITIALIZED).filter(|condition| condition.status == "True");
    let Some(initialized) = initialized else { return Verdict::Remove };
    let event = claim.status.as_ref().and_then(|status| status.last_pod_event_time.as_ref());
    let quiet_since = event.unwrap_or(&initialized.last_transition_time).0;
    let quiet: Duration = after.to_std();
    let end = later(quiet_since, quiet);
    if now < end { Verdict::RemoveUntil(end) } else { Verdict::Set }
}

#[cfg(test)]
mod tests;
