//! Making up for missing nodes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use jiff::Timestamp;
use karpenter_api::conditions::{READY, Status};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_index::{Change, Key, Pair};

use super::{RECHECK, create, is_resized, is_static, observe};
use crate::clock::{later, until};
use crate::context::Context;
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::ownership::pool_of;
use crate::reconciler::{Action, Reconciler};

const UNSYNCED: Duration = Duration::from_secs(1);
/// The pool's limit on nodes leaves no room.
const FULL: Duration = Duration::from_secs(30);
/// Between claims that were given up and the next ones; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// A claim that has lived for so long was not given up.
const LIVED: Duration = Duration::from_mins(5);

/// The controller `static.provisioning`, keyed by NodePool.
#[derive(Debug, Default)]
pub struct Provisioning {
    /// The cluster was wholly known once: from then on the index has every claim of ours as soon as it exists.
    synced: AtomicBool,
    /// By pool. A claim whose launch is refused is deleted at once: without a pause the next would follow at once too.
    last: Mutex<BTreeMap<Arc<str>, Creation>>,
}

/// The claims that were last made for a pool.
#[derive(Debug)]
struct Creation {
    at: Timestamp,
    claims: Vec<String>,
    /// How long they were waited with.
    waited: Duration,
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
        let (now, wait) = (context.clock.now(), self.wait(key, context));
        if !wait.left.is_zero() {
            return Ok(Action::After(wait.left));
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
            let creation = Creation { at: now, claims: made.clone(), waited: wait.whole };
            self.last().insert(key.name.clone(), creation);
            let pool = key.name.clone();
            context.recorder.decided(Decision::Resized { pool, replicas, added: made, removed: Vec::new() });
        }
        Error::all(errors).map(|()| Action::After(RECHECK))
    }

    fn concurrency(&self) -> usize {
        10
    }
}

/// How long to wait with the next claims of a pool.
struct Wait {
    whole: Duration,
    left: Duration,
}

impl Provisioning {
    /// Twice as long as the last time, if one of the claims that were made then was given up.
    fn wait(&self, key: &Key, context: &Context) -> Wait {
        let now = context.clock.now();
        let mut all = self.last();
        all.retain(|pool, _| is_static(pool, context));
        let stays = |name: &String| {
            let claim = context.index.node_claim(name);
            claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none())
        };
        match all.get(&key.name) {
            Some(last) if now < later(last.at, LIVED.max(last.waited * 2)) && !last.claims.iter().all(stays) => {
                let whole = (last.waited * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
                Wait { whole, left: until(now, later(last.at, whole)) }
            }
            Some(_) | None => Wait { whole: Duration::ZERO, left: Duration::ZERO },
        }
    }

    fn last(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Creation>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
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
