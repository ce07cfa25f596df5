//! Letting surplus nodes go.

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use karpenter_api::NodeClaim;
use karpenter_index::{Change, Key, Kind, Pair};

use super::counts::Stage;
use super::surplus::{self, Member};
use super::{RECHECK, is_resized, is_static, observe};
use crate::context::Context;
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::ownership::{claim_provider_id, pool_of};
use crate::reconciler::{Action, Reconciler};

/// What tells how many nodes there are, how many there should be, and which are worth least.
const READS: [Kind; 4] = [Kind::NodeClaim, Kind::Node, Kind::NodePool, Kind::Pod];

/// The controller `static.deprovisioning`, keyed by NodePool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deprovisioning;

#[async_trait]
impl Reconciler for Deprovisioning {
    fn name(&self) -> &'static str {
        "static.deprovisioning"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        if let Some(pools) = change.node_pool() {
            return is_resized(pools).then(|| change.key.clone()).into_iter().collect();
        }
        let created = change.node_claim().filter(|claims| claims.old.is_none());
        let pools = created.and_then(Pair::latest).and_then(|claim| pool_of(claim));
        pools.filter(|pool| is_static(pool, context)).map(Key::cluster).into_iter().collect()
    }

    /// No budget and no readiness is asked for, and a cluster that is not wholly known can only seem too small.
    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some((_, replicas)) = observe(key, context) else { return Ok(Action::Done) };
        // By now it may want another number.
        if context.index.unreadable(Kind::NodePool, key).is_some() {
            return Ok(Action::After(RECHECK));
        }
        let counts = context.static_nodes.counts(&key.name, context);
        let surplus = counts.surplus(replicas);
        if surplus == 0 {
            return Ok(Action::After(RECHECK));
        }
        context.heard_lately(&READS)?;
        tracing::info!(
            pool = &*key.name,
            current = counts.active,
            desired = replicas,
            "deprovision-count" = surplus,
            "deprovisioning nodeclaims to satisfy replica count"
        );
        let surplus = usize::try_from(surplus).unwrap_or(usize::MAX);
        let going = surplus::first(members(&key.name, context), surplus);
        let mut deletions: Vec<BoxFuture<'_, Result<String>>> = Vec::with_capacity(going.len());
        for Member { name, uid, .. } in going {
            deletions.push(Box::pin(async move {
                // What the server answers is in the index at once, where it counts as deleting.
                context.delete::<NodeClaim>(&name, &uid, &READS).await?;
                tracing::debug!(claim = name, "deleting nodeclaim");
                Ok(name)
            }));
        }
        let (mut removed, mut errors) = (Vec::new(), Vec::new());
        for result in join_all(deletions).await {
            match result {
                Ok(name) => removed.push(name),
                Err(error) => errors.push(error),
            }
        }
        if !removed.is_empty() {
            let pool = key.name.clone();
            context.recorder.decided(Decision::Resized { pool, replicas, added: Vec::new(), removed });
        }
        Error::all(errors).map(|()| Action::After(RECHECK))
    }

    fn concurrency(&self) -> usize {
        10
    }
}

/// The pool's claims that count as active and may go, with what runs on them.
fn members(pool: &str, context: &Context) -> Vec<Member> {
    let claims = context.index.node_claims();
    let mine = claims.iter().filter(|claim| pool_of(claim) == Some(pool) && context.index.is_managed(claim));
    let active = mine.filter(|claim| context.static_nodes.stage(claim, context) == Stage::Active);
    active.filter(|claim| is_readable(claim, context)).map(|claim| Member::of(claim, context)).collect()
}

/// Nothing is done to what cannot be read, and nothing to a machine whose Node cannot be.
fn is_readable(claim: &NodeClaim, context: &Context) -> bool {
    let node = claim_provider_id(claim).and_then(|id| context.index.unreadable_node_of(id));
    node.is_none() && context.index.unreadable(Kind::NodeClaim, &Key::of(&claim.metadata)).is_none()
}
