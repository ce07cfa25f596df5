//! Making up for missing nodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use karpenter_api::conditions::{READY, Status};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_index::{Change, Key, Pair};

use super::{RECHECK, create, is_resized, is_static, observe};
use crate::context::Context;
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::ownership::pool_of;
use crate::reconciler::{Action, Reconciler};

const UNSYNCED: Duration = Duration::from_secs(1);
/// The pool's limit on nodes leaves no room.
const FULL: Duration = Duration::from_secs(30);

/// The controller `static.provisioning`, keyed by NodePool.
#[derive(Debug, Default)]
pub struct Provisioning {
    /// The cluster was wholly known once: from then on the index has every claim of ours as soon as it exists.
    synced: AtomicBool,
}

#[async_trait]
impl Reconciler for Provisioning {
    fn name(&self) -> &'static str {
        "static.provisioning"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        if let Some(pools) = change.node_pool() {
            let wanted = is_resized(pools) || is_ready_now(pools);
            return wanted.then(|| change.key.clone()).into_iter().collect();
        }
        let claims = change.node_claim().filter(|claims| is_leaving(claims));
        let pools = claims.and_then(Pair::latest).and_then(|claim| pool_of(claim));
        pools.filter(|pool| is_static(pool, context)).map(Key::cluster).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some((pool, replicas)) = observe(key, context) else { return Ok(Action::Done) };
        if pool.condition_status(READY) != Status::True {
            return Ok(Action::Done);
        }
        if !self.synced.load(Ordering::Relaxed) {
            if !context.is_synced() {
                return Ok(Action::After(UNSYNCED));
            }
            self.synced.store(true, Ordering::Relaxed);
        }
        let counts = context.static_nodes.counts(&key.name, context);
        let missing = counts.missing(replicas);
        if missing == 0 {
            return Ok(Action::After(RECHECK));
        }
        let rights = context.static_nodes.reserve(&pool, missing, context);
        if rights.is_empty() {
            tracing::info!(pool = &*key.name, "nodepool node limit reached");
            return Ok(Action::After(FULL));
        }
        tracing::info!(
            pool = &*key.name,
            current = counts.active,
            desired = replicas,
            "provision-count" = rights.len(),
            "provisioning nodeclaims to satisfy replica count"
        );
        let mut creations: Vec<BoxFuture<'_, Result<NodeClaim>>> = Vec::with_capacity(rights.len());
        for right in rights {
            creations.push(Box::pin(create(context, &pool, "provisioned", right)));
        }
        let (mut made, mut errors) = (Vec::new(), Vec::new());
        for result in join_all(creations).await {
            match result {
                Ok(claim) => made.extend(claim.metadata.name),
                Err(error) => errors.push(error),
            }
        }
        if !made.is_empty() {
            let pool = key.name.clone();
            context.recorder.decided(Decision::Resized { pool, replicas, added: made, removed: Vec::new() });
        }
        Error::all(errors).map(|()| Action::After(RECHECK))
    }

    fn concurrency(&self) -> usize {
        10
    }
}

fn is_ready_now(pools: &Pair<NodePool>) -> bool {
    let ready = |pool: &NodePool| pool.condition_status(READY) == Status::True;
    pools.new.as_deref().is_some_and(ready) && !pools.old.as_deref().is_some_and(ready)
}

/// It begins to go, or is gone.
fn is_leaving(claims: &Pair<NodeClaim>) -> bool {
    let stays = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none();
    match (claims.old.as_deref(), claims.new.as_deref()) {
        (_, None) => true,
        (old, Some(new)) => !stays(new) && old.is_none_or(stays),
    }
}
