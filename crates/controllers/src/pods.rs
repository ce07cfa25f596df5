//! Pods as a node's end sees them: which may be evicted, which hold a drain open, which nobody waits for.
//!
//! [`PodFacts`] is what of a tracked pod matters here, so that each rule below is a line over plain fields.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::NodeClaim;
use karpenter_api::labels::DISRUPTED_TAINT;
use karpenter_core::Taint;
use karpenter_core::do_not_disrupt::DoNotDisrupt;
use karpenter_core::taints::Effect;
use karpenter_index::{Key, TrackedPod};

use crate::context::Context;
use crate::ownership::claim_provider_id;

/// How long past its deletion timestamp (which includes its grace period) a pod is still waited for. After that its
/// kubelet is not going to finish, and the instance goes without it.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// One pod and no other: a name may be taken again, a UID not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

impl PodKey {
    pub fn of(pod: &karpenter_core::Pod) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone() }
    }

    /// Without the UID.
    pub fn key(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    pub key: PodKey,
    /// Succeeded or Failed.
    pub terminal: bool,
    /// When it must have ended, once its deletion was asked for.
    pub deletion: Option<Timestamp>,
    /// The grace period it wishes for.
    pub grace: Option<Duration>,
    pub started: Option<Timestamp>,
    pub owner: Owners,
    /// Of one of the two system priority classes; the number does not matter.
    pub critical: bool,
    pub tolerates_disruption: bool,
    pub do_not_disrupt: Option<DoNotDisrupt>,
    /// The names of its PersistentVolumeClaims, those of ephemeral volumes included.
    pub volume_claims: Arc<[Arc<str>]>,
}

/// Who owns the pod, as far as it matters here; several may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    pub daemon_set: bool,
    pub stateful_set: bool,
    /// A static pod: its kubelet made it, and the API can neither evict nor delete it.
    pub node: bool,
}

/// What the annotation means now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protection {
    None,
    Always,
    /// A duration whose pod has not started.
    UntilStarted,
    Until(Timestamp),
    Elapsed,
    Invalid(String),
}

impl Protection {
    pub fn is_in_force(&self) -> bool {
        match self {
            Self::Always | Self::UntilStarted | Self::Until(_) => true,
            Self::None | Self::Elapsed | Self::Invalid(_) => false,
        }
    }
}

impl PodFacts {
    pub fn of(tracked: &TrackedPod) -> Self {
        let pod = &tracked.pod;
        let taint = Taint { key: DISRUPTED_TAINT.to_owned(), value: String::new(), effect: Effect::NoSchedule };
        Self {
            key: PodKey::of(pod),
            terminal: pod.is_terminal(),
            deletion: tracked.deletion,
            grace: tracked.grace_seconds.map(|seconds| Duration::from_secs(seconds.max(0).unsigned_abs())),
            started: pod.started,
            owner: Owners {
                daemon_set: pod.is_daemon(),
                stateful_set: pod.owned_by("apps/v1", "StatefulSet"),
                node: pod.is_node_owned(),
            },
            critical: matches!(
                tracked.priority_class.as_deref(),
                Some("system-cluster-critical" | "system-node-critical")
            ),
            tolerates_disruption: pod.shape.tolerations.iter().any(|toleration| toleration.tolerates(&taint)),
            do_not_disrupt: pod.shape.do_not_disrupt.as_deref().map(DoNotDisrupt::parse),
            volume_claims: pod.claims.clone(),
        }
    }

    pub fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }

    pub fn is_active(&self) -> bool {
        !self.terminal && !self.is_terminating()
    }

    /// Whether the pod needs another place when its node goes. A StatefulSet makes its next pod only once the old one is
    /// gone, so a terminating one stands for its successor.
    pub fn is_reschedulable(&self) -> bool {
        (self.is_active() || (self.owner.stateful_set && self.is_terminating()))
            && !self.owner.daemon_set
            && !self.owner.node
    }

    pub fn is_evictable(&self, now: Timestamp) -> bool {
        self.is_active() && !self.tolerates_disruption && !self.owner.node && !self.protection(now).is_in_force()
    }

    /// Whether the pod is meant to leave. Protected pods are: they hold the drain open.
    pub fn is_drainable(&self, now: Timestamp) -> bool {
        !self.tolerates_disruption && !self.is_stuck(now) && !self.owner.node
    }

    pub fn is_waiting_for_eviction(&self, now: Timestamp) -> bool {
        !self.terminal && self.is_drainable(now)
    }

    /// Whether voluntary disruption may take the pod's node.
    pub fn is_disruptable(&self, now: Timestamp) -> bool {
        !self.is_active() || !self.protection(now).is_in_force()
    }

    fn is_stuck(&self, now: Timestamp) -> bool {
        self.deletion.is_some_and(|deletion| now.duration_since(deletion) > STUCK_AFTER)
    }

    pub fn protection(&self, now: Timestamp) -> Protection {
        match (&self.do_not_disrupt, self.started) {
            (None, _) => Protection::None,
            (Some(DoNotDisrupt::Always), _) => Protection::Always,
            (Some(DoNotDisrupt::Invalid(why)), _) => Protection::Invalid(why.clone()),
            (Some(DoNotDisrupt::For(_)), None) => Protection::UntilStarted,
            (Some(DoNotDisrupt::For(length)), Some(started)) => match started.checked_add(*length) {
                Ok(end) if end <= now => Protection::Elapsed,
                Ok(end) => Protection::Until(end),
                Err(_) => Protection::Always,
            },
        }
    }

    /// Whether the pod cannot have its whole grace period before `deadline` unless it is deleted now, whatever protects
    /// it; or would, already terminating, outlive the deadline.
    pub fn is_past_force_threshold(&self, deadline: Option<Timestamp>, now: Timestamp) -> bool {
        let Some(deadline) = deadline else {
            return false;
        };
        match (self.deletion, self.grace) {
            (Some(deletion), _) => deletion > deadline,
            (None, Some(grace)) => deadline.checked_sub(grace).is_ok_and(|latest| now > latest),
            (None, None) => false,
        }
    }
}

/// How many pods on the claim's Nodes will need another place.
pub(crate) fn reschedulable_on(claim: &NodeClaim, context: &Context) -> usize {
    let nodes = claim_provider_id(claim).map(|id| context.index.nodes_of(id)).unwrap_or_default();
    let names = nodes.iter().filter_map(|node| node.metadata.name.as_deref());
    let pods = names.flat_map(|name| context.index.pods_on(name));
    pods.filter(|pod| PodFacts::of(pod).is_reschedulable()).count()
}

#[cfg(test)]
pub(crate) mod tests;
