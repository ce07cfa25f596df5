//! Expiration: nodes do not grow older than their claims say.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_api::NodeClaim;
use karpenter_index::{Change, Key, Kind};

use crate::context::Context;
use crate::error::Result;
use crate::pods::reschedulable_on;
use crate::reconciler::{Action, Reconciler};
use crate::unreadable::LOOK_AGAIN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Never, or it is on its way out already.
    Stays,
    In(Duration),
    Expired,
}

/// Nothing protects from expiry: not budgets, not pods. The drain that follows respects them.
pub fn judge(claim: &NodeClaim, now: Timestamp) -> Verdict {
    let (Some(created), None) = (&claim.metadata.creation_timestamp, &claim.metadata.deletion_timestamp) else {
        return Verdict::Stays;
    };
    let Some(age) = claim.spec.expire_after.duration() else {
        return Verdict::Stays;
    };
    let end = created.0.checked_add(age.to_std()).unwrap_or(Timestamp::MAX);
    match Duration::try_from(end.duration_since(now)) {
        Ok(left) if !left.is_zero() => Verdict::In(left),
        _ => Verdict::Expired,
    }
}

/// The controller `nodeclaim.expiration`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expiration;

#[async_trait]
impl Reconciler for Expiration {
    fn name(&self) -> &'static str {
        "nodeclaim.expiration"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        // Age and term are fixed at creation.
        let made = change.node_claim().filter(|claims| claims.old.is_none() && claims.new.is_some());
        made.map(|_| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(claim) = context.index.node_claim(&key.name).filter(|claim| context.index.is_managed(claim)) else {
            return Ok(Action::Done);
        };
        if context.index.unreadable(Kind::NodeClaim, key).is_some() {
            // By now it may say something else.
            return Ok(Action::After(LOOK_AGAIN));
        }
        match judge(&claim, context.clock.now()) {
            Verdict::Stays => Ok(Action::Done),
            Verdict::In(left) => Ok(Action::After(left)),
            Verdict::Expired => {
                let pods = reschedulable_on(&claim, context);
                let uid = claim.metadata.uid.as_deref().unwrap_or_default();
                context.delete::<NodeClaim>(&key.name, uid, &[Kind::NodeClaim]).await?;
                tracing::debug!(claim = %key, "deleting expired nodeclaim");
                context.metrics.life.disrupted(&claim, "expired", "");
                context.metrics.life.pods_disrupted(&claim, "expired", "", pods);
                Ok(Action::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests;
