//! One claim of a static pool.

use std::sync::Arc;

use karpenter_api::{NodeClaim, NodePool};
use karpenter_index::reduce;

use super::counts::Reservation;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::provisioning::claim;

/// Creates a claim of the pool's template. The right to do so ends with the attempt, when the claim itself is counted.
pub(crate) async fn create(
    context: &Context,
    pool: &NodePool,
    reason: &'static str,
    _right: Reservation,
) -> Result<NodeClaim> {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let there = context.index.node_pool(name).filter(|pool| pool.metadata.deletion_timestamp.is_none());
    if there.is_none() {
        return Err(Error::other(format!("creating node claim, NodePool {name} is gone")));
    }
    // Which types there are makes no difference: the provider chooses.
    let reduced = reduce::pool(pool, Arc::from([])).map_err(|refused| Error::other(refused.to_string()))?;
    let made = context.create(&claim::static_claim(&reduced, pool, &context.index.vocabulary())).await?;
    context.metrics.choices.claim_created(reason, name, false);
    tracing::info!(pool = name, claim = made.metadata.name.as_deref(), "created nodeclaim");
    Ok(made)
}
