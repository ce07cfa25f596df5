//! What the end of a Node changes on the Node itself.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use karpenter_api::NodeClaim;
use karpenter_api::labels::{
    DISRUPTED_TAINT, EXCLUDE_FROM_LOAD_BALANCERS, TERMINATION_FINALIZER, TERMINATION_TIMESTAMP,
};

/// Whether the Node is being deleted and still has our finalizer.
pub fn is_ending(node: &Node) -> bool {
    let finalizers = node.metadata.finalizers.as_deref().unwrap_or_default();
    node.metadata.deletion_timestamp.is_some() && finalizers.iter().any(|finalizer| finalizer == TERMINATION_FINALIZER)
}

/// Closes the Node to new pods and takes it out of load balancers. Says so once: the taint is the same when key and
/// effect are, and one of our key with another effect is replaced.
pub fn close(node: &mut Node) {
    let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
    if !taints.iter().any(|taint| taint.key == DISRUPTED_TAINT && taint.effect == "NoSchedule") {
        taints.retain(|taint| taint.key != DISRUPTED_TAINT);
        taints.push(Taint { key: DISRUPTED_TAINT.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() });
    }
    let labels = node.metadata.labels.get_or_insert_default();
    labels.insert(EXCLUDE_FROM_LOAD_BALANCERS.to_owned(), "karpenter".to_owned());
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("NodeClaim {claim}: annotation {TERMINATION_TIMESTAMP} is {value:?}, which is not a time as in RFC 3339")]
pub struct BadDeadline {
    pub claim: String,
    pub value: String,
}

/// The deadline's text, as people read it.
pub fn deadline_text(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(TERMINATION_TIMESTAMP).map(String::as_str)
}

/// When the Node must be gone. What cannot be read must not be taken for "no deadline", nor for one that has passed.
pub fn deadline(claim: &NodeClaim) -> Result<Option<Timestamp>, BadDeadline> {
    let Some(text) = deadline_text(claim) else {
        return Ok(None);
    };
    text.parse()
        .map(Some)
        .map_err(|_| BadDeadline { claim: claim.metadata.name.clone().unwrap_or_default(), value: text.to_owned() })
}

#[cfg(test)]
mod tests;
