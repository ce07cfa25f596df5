//! Launch: one machine per claim.

use jiff::Timestamp;
use karpenter_api::conditions::{LAUNCHED, Status};
use karpenter_api::{NodeClaim, Quantity, ResourceList};
use karpenter_core::Resources;
use karpenter_provider::{LaunchError, Machine, chain};

/// Beyond this many bytes an error's text is cut in a condition or event.
const MESSAGE_BYTES: usize = 300;

#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Launched or failed for good: only the generation is followed.
    Settled,
    /// Launched by this process before, but the claim does not say so (a stale read, or a write that failed).
    Adopt(&'a Machine),
    Create,
}

pub fn next<'a>(claim: &NodeClaim, remembered: Option<&'a Machine>) -> Step<'a> {
    match (claim.condition_status(LAUNCHED), remembered) {
        (Status::True | Status::False, _) => Step::Settled,
        (Status::Unknown, Some(machine)) => Step::Adopt(machine),
        (Status::Unknown, None) => Step::Create,
    }
}

/// Writes what is known of the machine into the claim. Labels of the claim were chosen by its maker and stay.
pub fn populate(claim: &mut NodeClaim, machine: &Machine, now: Timestamp) {
    let labels = claim.metadata.labels.get_or_insert_default();
    for (key, value) in &machine.labels {
        labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if !machine.annotations.is_empty() {
        claim.metadata.annotations.get_or_insert_default().extend(machine.annotations.clone());
    }
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id = Some(machine.image_id.clone()).filter(|id| !id.is_empty());
    status.capacity = Some(resource_list(&machine.capacity));
    status.allocatable = Some(resource_list(&machine.allocatable));
    claim.conditions_at(now).set_true(LAUNCHED);
}

fn resource_list(resources: &Resources) -> ResourceList {
    resources.iter().map(|(name, amount)| (name.to_string(), Quantity(amount.to_string()))).collect()
}

/// What follows from a launch that gave no machine.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The claim cannot become a node: it is deleted, and its pods are planned afresh.
    GiveUp {
        /// For the counter of disrupted claims.
        reason: &'static str,
        /// What the event says, where there is one.
        event: Option<String>,
    },
    /// The claim says why, and it is tried again.
    Retry,
}

pub fn fail(claim: &mut NodeClaim, error: &LaunchError, now: Timestamp) -> Failure {
    let (reason, message) = match error {
        LaunchError::InsufficientCapacity { .. } => {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            let event = Some(format!("NodeClaim {name} event: {}", cut(&chain(error))));
            return Failure::GiveUp { reason: "insufficient_capacity", event };
        }
        LaunchError::NodeClassNotReady { .. } => {
            return Failure::GiveUp { reason: "nodeclass_not_ready", event: None };
        }
        LaunchError::Create { condition_reason, condition_message, .. } => {
            (condition_reason.as_str(), condition_message.clone())
        }
        LaunchError::Throttled { .. } | LaunchError::Other { .. } => ("LaunchFailed", cut(&chain(error))),
    };
    claim.conditions_at(now).set_unknown(LAUNCHED, reason, &message);
    Failure::Retry
}

/// Long texts end in an ellipsis; a character is never cut in two.
fn cut(text: &str) -> String {
    if text.len() < MESSAGE_BYTES {
        return text.to_owned();
    }
    let end = (0..=MESSAGE_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests;
