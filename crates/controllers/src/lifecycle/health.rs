//! What a claim's fate says about its pool.

use karpenter_api::labels::NODEPOOL;
use karpenter_api::{NodeClaim, NodePool};

use crate::context::Context;
use crate::error::{Result, unless_gone};
use crate::nodepool::SharedRegistrations;
use crate::nodepool::health::{self, Registrations};
use crate::patch::Lock;

pub(super) async fn succeeded(claim: &NodeClaim, context: &Context, registrations: &SharedRegistrations) -> Result<()> {
    let now = context.clock.now();
    record(claim, context, registrations, true, |pool, outcomes| health::succeed(pool, outcomes, now)).await
}

pub(super) async fn failed(claim: &NodeClaim, context: &Context, registrations: &SharedRegistrations) -> Result<()> {
    let now = context.clock.now();
    record(claim, context, registrations, false, |pool, outcomes| health::fail(pool, claim, outcomes, now)).await
}

/// Writes the condition, then remembers the outcome. A pool that is gone, or was made anew, is none of the claim's.
async fn record(
    claim: &NodeClaim,
    context: &Context,
    registrations: &SharedRegistrations,
    registered: bool,
    change: impl Fn(&mut NodePool, &Registrations),
) -> Result<()> {
    let name = claim.metadata.labels.as_ref().and_then(|labels| labels.get(NODEPOOL));
    let Some(mut pool) = name.and_then(|name| context.index.node_pool(name)).map(|pool| (*pool).clone()) else {
        return Ok(());
    };
    loop {
        if !health::concerns(&pool, claim) {
            return Ok(());
        }
        let mut changed = pool.clone();
        registrations.with(|outcomes| change(&mut changed, outcomes));
        match unless_gone(context.write_status(&pool, &changed, Lock::Version).await) {
            // Whoever wrote in between: this outcome comes once, so the pool is read again rather than the claim.
            Err(error) if error.is_conflict() => {
                let pool_name = pool.metadata.name.clone().unwrap_or_default();
                match context.read::<NodePool>(&pool_name).await? {
                    Some(fresh) if fresh.metadata.resource_version != pool.metadata.resource_version => pool = fresh,
                    Some(_) => return Err(error),
                    None => return Ok(()),
                }
            }
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    let uid = pool.metadata.uid.clone().unwrap_or_default();
    registrations.with(|outcomes| outcomes.record(&uid, registered));
    Ok(())
}
