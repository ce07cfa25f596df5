//! The `Consolidatable` condition: a node on which no pod has come or gone for a while.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_api::conditions::{self, Status};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::labels::NODEPOOL;
use karpenter_index::{Change, Key, What};
use serde_json::json;

use crate::clock::{later, until};
use crate::context::Context;
use crate::error::{Result, unless_gone};
use crate::reconciler::{Action, Reconciler};
use crate::write::locked;

/// Keyed by NodeClaim.
#[derive(Debug, Default)]
pub struct Consolidatable;

#[async_trait]
impl Reconciler for Consolidatable {
    fn name(&self) -> &'static str {
        "nodeclaim.disruption"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        let of_pool = |name: &str| -> Vec<Key> {
            let claims = context.index.node_claims().into_iter();
            claims.filter(|claim| pool_of(claim) == Some(name)).map(|claim| Key::of(&claim.metadata)).collect()
        };
        match &change.what {
            What::NodeClaim(pair) if pair.new.is_some() => vec![change.key.clone()],
            What::NodePool(pair) if pair.new.is_some() => of_pool(&change.key.name),
            What::Pod(pair) => {
                let node = pair.latest().and_then(|pod| pod.pod.node.clone());
                let claims = node.and_then(|name| context.index.node(&name));
                let claims = claims.map(|node| context.index.claims_of_node(&node)).unwrap_or_default();
                claims.iter().map(|claim| Key::of(&claim.metadata)).collect()
            }
            What::NodeClass(pair) if pair.new.is_some() => {
                let claims = context.index.node_claims().into_iter();
                let of_class = claims.filter(|claim| claim.spec.node_class_ref.name == *change.key.name);
                of_class.map(|claim| Key::of(&claim.metadata)).collect()
            }
            What::NodeClaim(_) | What::NodePool(_) | What::NodeClass(_) | What::Node(_) | What::Other => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(claim) = context.index.node_claim(&key.name) else { return Ok(Action::Done) };
        if claim.metadata.deletion_timestamp.is_some() || !context.index.is_managed(&claim) {
            return Ok(Action::Done);
        }
        let Some(pool) = pool_of(&claim).and_then(|name| context.index.node_pool(name)) else {
            return Ok(Action::Done);
        };
        let now = context.clock.now();
        let verdict = verdict(&claim, &pool, now);
        let mut changed = NodeClaim::clone(&claim);
        let mut conditions = changed.conditions_at(now);
        let differs = match verdict {
            Verdict::Set => {
                conditions.status(conditions::CONSOLIDATABLE) != Status::True
                    && conditions.set_true(conditions::CONSOLIDATABLE)
            }
            Verdict::Remove | Verdict::RemoveUntil(_) => conditions.clear(conditions::CONSOLIDATABLE),
        };
        if differs {
            let conditions = changed.status.as_ref().and_then(|status| status.conditions.as_ref());
            let patch = locked(json!({"status": {"conditions": conditions}}), version(&claim));
            unless_gone(context.merge_status::<NodeClaim>(&key.name, &patch).await)?;
        }
        Ok(match verdict {
            Verdict::RemoveUntil(at) => Action::After(until(now, at)),
            Verdict::Set | Verdict::Remove => Action::Done,
        })
    }
}

pub(super) fn version(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.resource_version.as_deref()
}

pub(super) fn pool_of(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.labels.as_ref()?.get(NODEPOOL).map(String::as_str)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Set,
    Remove,
    /// The quiet time is not over; then it will be.
    RemoveUntil(Timestamp),
}

fn verdict(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Verdict {
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
