//! The end of a claim: its Nodes first, then its machine, then its finalizer.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{REGISTERED, Status, whole_seconds};
use karpenter_api::labels::{self, TERMINATION_FINALIZER, TERMINATION_TIMESTAMP};

use super::registration::has_label;
use crate::ownership::claim_provider_id;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Not ours (any more).
    Nothing,
    /// This process launched a machine that the claim does not know of: tell it, so that nobody has to remember.
    Adopt,
    /// The drain has a deadline: write it down before anything is asked to leave.
    Annotate {
        deadline: String,
    },
    DeleteNodes(Vec<String>),
    /// The Nodes are draining; they wake us when they are gone.
    AwaitNodes,
    /// A Node is there that cannot be read; nobody drains it.
    AwaitReading,
    /// Ask the provider, until it knows of no such machine.
    Terminate {
        provider_id: String,
    },
    /// Nothing was ever launched.
    Release,
}

/// `nodes` are those with the claim's provider id. `remembered` is what this process launched for the claim but could
/// not store.
pub fn next(claim: &NodeClaim, nodes: &[Node], remembered: Option<&str>) -> Step {
    let finalizers = claim.metadata.finalizers.as_deref().unwrap_or_default();
    let Some(deletion) = claim.metadata.deletion_timestamp.as_ref() else {
        return Step::Nothing;
    };
    if !finalizers.iter().any(|finalizer| finalizer == TERMINATION_FINALIZER) {
        return Step::Nothing;
    }
    let stored = claim_provider_id(claim);
    if let (None, Some(_)) = (stored, remembered) {
        return Step::Adopt;
    }
    let annotated = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(TERMINATION_TIMESTAMP));
    if let (false, Some(period)) = (annotated, &claim.spec.termination_grace_period) {
        let deadline = deletion.0.checked_add(period.to_std()).unwrap_or(Timestamp::MAX);
        return Step::Annotate { deadline: whole_seconds(deadline).to_string() };
    }
    // A crash may have left the Node registered and the claim not saying so; pods may run there.
    let registered = claim.condition_status(REGISTERED) == Status::True;
    let drained_first = || nodes.iter().filter(|node| registered || has_label(node, labels::REGISTERED));
    let remaining: Vec<String> = drained_first()
        .filter(|node| node.metadata.deletion_timestamp.is_none())
        .filter_map(|node| node.metadata.name.clone())
        .collect();
    if !remaining.is_empty() {
        return Step::DeleteNodes(remaining);
    }
    if drained_first().next().is_some() {
        return Step::AwaitNodes;
    }
    match stored {
        Some(provider_id) => Step::Terminate { provider_id: provider_id.to_owned() },
        None => Step::Release,
    }
}

#[cfg(test)]
mod tests;
