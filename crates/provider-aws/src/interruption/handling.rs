//! What is done about an instance that goes or is not well, whoever said so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use karpenter_api::{NodeClaim, labels};
use karpenter_ec2::catalogue::CapacityClass;
use karpenter_ec2::interruption::{Action, Kind};
use karpenter_ec2::labels as aws_labels;
use karpenter_provider::{BoxError, Notice, Severity};

use crate::instances::instance_id;
use crate::objects::{claim_subject, node_subject};
use crate::provider::Parts;
use crate::unavailable::Scope;

/// The claims of the instances that are spoken of, as they were when the round began.
pub(crate) struct Round<'a> {
    pub(crate) parts: &'a Parts,
    claims: BTreeMap<String, Arc<NodeClaim>>,
    /// Instances whose claim is being deleted in this round: two messages about one instance often come together, and
    /// it is counted once.
    ending: Mutex<BTreeSet<String>>,
}

impl<'a> Round<'a> {
    pub(crate) async fn over(parts: &'a Parts, instances: &BTreeSet<&str>) -> Result<Self, BoxError> {
        let all = if instances.is_empty() { Vec::new() } else { parts.objects.node_claims().await? };
        let ours = all.into_iter().filter_map(|claim| {
            let id = instance_id(claim.status.as_ref()?.provider_id.as_ref()?)?;
            instances.contains(id).then(|| (id.to_owned(), claim.clone()))
        });
        Ok(Self { parts, claims: ours.collect(), ending: Mutex::default() })
    }

    /// Whether a claim of this cluster has the instance.
    pub(crate) fn knows(&self, instance: &str) -> bool {
        self.claims.contains_key(instance)
    }

    /// Instances of others need nothing.
    pub(crate) async fn act(&self, kind: Kind, instance: &str, queue: Option<&str>) -> Result<(), BoxError> {
        let (parts, action) = (self.parts, kind.action());
        let Some(claim) = self.claims.get(instance) else { return Ok(()) };
        let Some((severity, reason, text)) = words(kind) else { return Ok(()) };
        let node_name = claim.status.as_ref().and_then(|status| status.node_name.clone()).unwrap_or_default();
        let node = if node_name.is_empty() { None } else { parts.objects.node(&node_name).await? };
        let tell = |severity: Severity, reason: &'static str, text: &str| {
            for subject in [Some(claim_subject(claim)), node.as_deref().map(node_subject)].into_iter().flatten() {
                let message = text.to_owned();
                parts.recorder.publish(Notice { subject, severity, reason, message, dedupe: Vec::new() });
            }
        };
        let effect = if action == Action::Tell { "none" } else { "terminate" };
        tracing::warn!(compat = true, node = %instance, action = effect, "interruption received");
        tell(severity, reason, text);
        learn(parts, kind, claim);
        let deadline = match action {
            Action::Delete => None,
            Action::Terminate => Some((parts.now)()).filter(|_| !has_deadline(claim)),
            Action::Tell | Action::Nothing => return Ok(()),
        };
        let first = self.ending.lock().unwrap_or_else(PoisonError::into_inner).insert(instance.to_owned());
        let going = claim.metadata.deletion_timestamp.is_some();
        // A drain that is under way ends now, if the machine has got that bad.
        let hurry = going && deadline.is_some();
        let ended = first && (!going || hurry) && parts.objects.end_claim(claim, deadline).await?;
        if !ended || hurry {
            return Ok(());
        }
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        tracing::info!(
            claim = %name, node = %node_name, queue = queue.unwrap_or_default(), message_kind = kind.as_str(),
            action = action.as_str(), "initiating delete from interruption message"
        );
        tell(Severity::Warning, "TerminatingOnInterruption", "Interruption triggered termination for the NodeClaim");
        parts.observer.interrupted(kind.as_str(), claim);
        Ok(())
    }
}

fn has_deadline(claim: &NodeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(labels::TERMINATION_TIMESTAMP))
}

/// What to tell about the claim and its node.
fn words(kind: Kind) -> Option<(Severity, &'static str, &'static str)> {
    let warning = |reason, text| Some((Severity::Warning, reason, text));
    match kind {
        Kind::SpotInterrupted => warning("SpotInterrupted", "Spot interruption warning was triggered"),
        Kind::CapacityReservationInterrupted => {
            warning("CapacityReservationInstanceInterrupted", "Capacity Reservation interruption warning was triggered")
        }
        Kind::InstanceStopped => warning("InstanceStopping", "Instance is stopping"),
        Kind::InstanceTerminated => warning("InstanceTerminating", "Instance is terminating"),
        Kind::ScheduledChange | Kind::InstanceStatus | Kind::SystemStatus | Kind::EventStatus => {
            warning("InstanceUnhealthy", "An unhealthy warning was triggered for the instance")
        }
        Kind::RebalanceRecommendation => {
            Some((Severity::Normal, "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered"))
        }
        Kind::NoOp => None,
    }
}

/// A pool that takes instances back has none to give.
fn learn(parts: &Parts, kind: Kind, claim: &NodeClaim) {
    let now = (parts.now)();
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    match kind {
        Kind::SpotInterrupted => {
            if let (Some(instance_type), Some(zone)) = (label(labels::INSTANCE_TYPE), label(labels::ZONE)) {
                parts.unavailable.mark_pool(CapacityClass::Spot, instance_type, zone, &Scope::default(), now);
            }
        }
        Kind::CapacityReservationInterrupted => {
            if let Some(id) = label(aws_labels::CAPACITY_RESERVATION_ID) {
                parts.reservations.exhausted(id);
            }
        }
        Kind::RebalanceRecommendation
        | Kind::InstanceStopped
        | Kind::InstanceTerminated
        | Kind::ScheduledChange
        | Kind::InstanceStatus
        | Kind::SystemStatus
        | Kind::EventStatus
        | Kind::NoOp => {}
    }
}
