//! Which pods leave next, and whether a Node is empty enough.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{DRAINED, Status};

use crate::clock::{later, until};
use crate::pods::{PodFacts, PodKey};

/// A scheduler that has not seen the taint yet may bind one more pod; so long we look again, even at an empty node.
const MIN_DRAIN_TIME: Duration = Duration::from_secs(5);

/// What the eviction queue is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Pods that the deadline leaves no more time: now, whatever the queue's back-off says.
    pub forced: Vec<PodKey>,
    /// Pods of the tier whose turn it is.
    pub turn: Vec<PodKey>,
    /// Pods that still have to leave, of whatever tier.
    pub waiting: usize,
}

/// Tiers leave one after the other: each may need the ones after it until its last pod is gone, as workloads need the
/// network agent and the log shipper. Only what the deadline forces does not wait for its turn.
pub fn plan(pods: &[PodFacts], deadline: Option<Timestamp>, now: Timestamp) -> Drain {
    let waiting: Vec<&PodFacts> = pods.iter().filter(|pod| pod.is_waiting_for_eviction(now)).collect();
    let (forced, others): (Vec<&PodFacts>, Vec<&PodFacts>) =
        waiting.iter().partition(|pod| pod.is_past_force_threshold(deadline, now));
    let first = others.iter().map(|pod| tier(pod)).min();
    let turn = others.iter().filter(|pod| Some(tier(pod)) == first && pod.is_active());
    Drain {
        forced: forced.iter().map(|pod| pod.key.clone()).collect(),
        turn: turn.map(|pod| pod.key.clone()).collect(),
        waiting: waiting.len(),
    }
}

fn tier(pod: &PodFacts) -> (bool, bool) {
    (pod.critical, pod.owner.daemon_set)
}

/// For how long a Node without pods to wait for does not count as drained yet. Without a claim (or with several) there is
/// nothing to remember since when it has been draining.
pub fn time_left(claim: Option<&NodeClaim>, now: Timestamp) -> Duration {
    let Some(claim) = claim else {
        return Duration::ZERO;
    };
    match claim.condition(DRAINED) {
        None => MIN_DRAIN_TIME,
        Some(drained) if Status::of(Some(drained)) == Status::Unknown => {
            until(now, later(drained.last_transition_time.0, MIN_DRAIN_TIME))
        }
        Some(_) => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests;
