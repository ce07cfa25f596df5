//! Consistency: whether a node turned out as large as it was bought. Nothing follows from it but words.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{CONSISTENT_STATE_FOUND, INITIALIZED, REGISTERED, Status};
use karpenter_core::Quantity;
use karpenter_index::{Change, Key};

use crate::clock::{later, until};
use crate::context::Context;
use crate::error::{Result, unless_gone};
use crate::lifecycle::nodes_of;
use crate::ownership::{Matches, claim_provider_id, node_provider_id};
use crate::patch::Lock;
use crate::reconciler::{Action, Reconciler};
use crate::recorder::{Event, ObjectRef};

/// Below this share of what was expected a resource is an issue.
const ENOUGH: f64 = 0.90;
/// A claim is looked at no more often than this.
const SCAN_PERIOD: Duration = Duration::from_mins(10);

/// One text per resource that is short.
pub fn issues(claim: &NodeClaim, node: &Node) -> Vec<String> {
    if claim.metadata.deletion_timestamp.is_some() || claim.condition_status(INITIALIZED) != Status::True {
        return Vec::new();
    }
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let expected = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    let found = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let mut issues = Vec::new();
    for (name, request) in requests.into_iter().flatten() {
        let expected = read(expected.and_then(|all| all.get(name)));
        if read(Some(request)).is_zero() || expected.is_zero() {
            continue;
        }
        let found = read(found.and_then(|all| all.get(name)));
        let share = found.nanos() as f64 / expected.nanos() as f64;
        if share < ENOUGH {
            let percent = share * 100.0;
            issues
                .push(format!("expected {expected} of resource {name}, but found {found} ({percent:.1}% of expected)"));
        }
    }
    issues
}

/// What is absent or unreadable counts as zero: of a request and an expectation, that there is nothing to check.
fn read(quantity: Option<&karpenter_api::Quantity>) -> Quantity {
    quantity.and_then(|quantity| quantity.0.parse().ok()).unwrap_or(Quantity::ZERO)
}

/// The controller `nodeclaim.consistency`.
#[derive(Debug, Default)]
pub struct Consistency {
    /// When each claim was looked at, by UID.
    scanned: Mutex<BTreeMap<String, Timestamp>>,
}

impl Consistency {
    fn scanned<T>(&self, f: impl FnOnce(&mut BTreeMap<String, Timestamp>) -> T) -> T {
        f(&mut self.scanned.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn scan(&self, claim: &NodeClaim, node: &Node, context: &Context) -> Result<()> {
        let issues = issues(claim, node);
        for issue in &issues {
            tracing::info!(claim = claim.metadata.name, issue, "failed consistency check");
            let uid = claim.metadata.uid.clone().unwrap_or_default();
            let event = Event::warning(ObjectRef::node_claim(claim), "FailedConsistencyCheck", issue.as_str());
            context.recorder.publish(event.same([uid, issue.clone()]));
        }
        let mut changed = claim.clone();
        let mut conditions = changed.conditions_at(context.clock.now());
        match issues.is_empty() {
            // Said once: the generation of a claim that is well need not be followed.
            true if conditions.status(CONSISTENT_STATE_FOUND) == Status::True => false,
            true => conditions.set_true(CONSISTENT_STATE_FOUND),
            false => {
                let message = "Consistency Check Failed";
                conditions.set_false(CONSISTENT_STATE_FOUND, "ConsistencyCheckFailed", message)
            }
        };
        unless_gone(context.write_status(claim, &changed, Lock::Version).await).map(|_| ())
    }
}

#[async_trait]
impl Reconciler for Consistency {
    fn name(&self) -> &'static str {
        "nodeclaim.consistency"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        if let Some(claims) = change.node_claim() {
            if let (None, Some(gone)) = (&claims.new, &claims.old) {
                self.scanned(|scanned| scanned.remove(gone.metadata.uid.as_deref().unwrap_or_default()));
            }
            return vec![change.key.clone()];
        }
        let ids = change.node().into_iter().flat_map(|nodes| &nodes.new).filter_map(|node| node_provider_id(node));
        ids.flat_map(|id| context.index.claims_of(id)).map(|claim| Key::of(&claim.metadata)).collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(claim) = context.index.node_claim(&key.name).filter(|claim| context.index.is_managed(claim)) else {
            return Ok(Action::Done);
        };
        let (uid, now) = (claim.metadata.uid.clone().unwrap_or_default(), context.clock.now());
        // Until its Node is registered there is nothing to tell.
        if claim_provider_id(&claim).is_none() || claim.condition_status(REGISTERED) != Status::True {
            return Ok(Action::Done);
        }
        let next = self.scanned(|scanned| scanned.get(&uid).map(|last| later(*last, SCAN_PERIOD)));
        if let Some(next) = next.filter(|next| now < *next) {
            return Ok(Action::After(until(now, next)));
        }
        let found: Matches<Arc<Node>> = nodes_of(&claim, context).into_iter().collect();
        let Some(node) = found.one() else {
            return Ok(Action::Done);
        };
        self.scan(&claim, &node, context).await?;
        self.scanned(|scanned| scanned.insert(uid, now));
        Ok(Action::After(SCAN_PERIOD))
    }
}

#[cfg(test)]
mod tests;
