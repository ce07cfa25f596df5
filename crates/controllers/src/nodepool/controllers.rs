//! The five controllers around a pool. Each reads the pool, judges it, and writes what differs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::labels::NODEPOOL;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_index::{Change, Key};
use serde_json::json;

use super::{SharedRegistrations, counter, hash, health, readiness, validation};
use crate::context::Context;
use crate::error::{Error, Result, unless_gone};
use crate::patch::Lock;
use crate::reconciler::{Action, Reconciler};

/// How often usage is written, and looked at while not everything is known.
const COUNTED: Duration = Duration::from_secs(5);
const UNSYNCED: Duration = Duration::from_secs(1);

/// A pool of ours.
fn managed(key: &Key, context: &Context) -> Option<Arc<NodePool>> {
    context.index.node_pool(&key.name).filter(|pool| context.index.is_managed_pool(pool))
}

/// The pool itself.
fn pool_changed(change: &Change) -> Vec<Key> {
    change.node_pool().map(|_| change.key.clone()).into_iter().collect()
}

/// The pool itself, and the pools of a class.
fn pool_or_class_changed(change: &Change, context: &Context) -> Vec<Key> {
    if change.node_class().is_none() {
        return pool_changed(change);
    }
    let pools = context.index.node_pools();
    let of_class = |pool: &&Arc<NodePool>| {
        let reference = &pool.spec.template.spec.node_class_ref;
        context.index.is_managed_pool(pool) && *reference.name == *change.key.name
    };
    pools.iter().filter(of_class).map(|pool| Key::of(&pool.metadata)).collect()
}

/// Writes the conditions a judgement changed.
async fn judged(pool: &NodePool, judge: impl FnOnce(&mut NodePool), context: &Context) -> Result<Action> {
    let mut changed = pool.clone();
    judge(&mut changed);
    unless_gone(context.write_status(pool, &changed, Lock::Version).await)?;
    Ok(Action::Done)
}

/// The controller `nodepool.hash`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hash;

impl Hash {
    /// Claims written under another version of the hash, before their pool: in between, versions differ and nothing
    /// drifts.
    async fn migrate(pool: &NodePool, context: &Context) -> Result<()> {
        let mut errors = Vec::new();
        for claim in context.index.node_claims() {
            let label = claim.metadata.labels.as_ref().and_then(|labels| labels.get(NODEPOOL));
            if label != pool.metadata.name.as_ref() || !context.index.is_managed(&claim) {
                continue;
            }
            let changes = hash::claim_changes(pool, &claim);
            if changes.is_empty() {
                continue;
            }
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            let body = json!({"metadata": {"annotations": changes}});
            errors.extend(unless_gone(context.merge::<NodeClaim>(name, &body).await).err());
        }
        Error::all(errors)
    }
}

#[async_trait]
impl Reconciler for Hash {
    fn name(&self) -> &'static str {
        "nodepool.hash"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        pool_changed(change)
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(pool) = managed(key, context) else {
            return Ok(Action::Done);
        };
        if hash::is_migrating(&pool) {
            Self::migrate(&pool, context).await?;
        }
        let changes = hash::pool_changes(&pool);
        if !changes.is_empty() {
            let body = json!({"metadata": {"annotations": changes}});
            unless_gone(context.merge::<NodePool>(&key.name, &body).await)?;
        }
        Ok(Action::Done)
    }
}

/// The controller `nodepool.readiness`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Readiness;

#[async_trait]
impl Reconciler for Readiness {
    fn name(&self) -> &'static str {
        "nodepool.readiness"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        pool_or_class_changed(change, context)
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(pool) = managed(key, context) else {
            return Ok(Action::Done);
        };
        let class = context.index.node_class(&pool.spec.template.spec.node_class_ref.name);
        let now = context.clock.now();
        judged(&pool, |pool| readiness::judge(pool, class.as_deref(), now), context).await
    }
}

/// The controller `nodepool.validation`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validation;

#[async_trait]
impl Reconciler for Validation {
    fn name(&self) -> &'static str {
        "nodepool.validation"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        pool_changed(change)
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(pool) = managed(key, context) else {
            return Ok(Action::Done);
        };
        let now = context.clock.now();
        validation::tell_ignored_values(&pool);
        judged(&pool, |pool| validation::judge(pool, now), context).await
    }
}

/// The controller `nodepool.registrationhealth`.
#[derive(Clone, Debug)]
pub struct RegistrationHealth {
    registrations: SharedRegistrations,
}

impl RegistrationHealth {
    pub fn new(registrations: SharedRegistrations) -> Self {
        Self { registrations }
    }
}

#[async_trait]
impl Reconciler for RegistrationHealth {
    fn name(&self) -> &'static str {
        "nodepool.registrationhealth"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        let gone = change.node_pool().filter(|pools| pools.new.is_none()).and_then(|pools| pools.old.as_ref());
        if let Some(uid) = gone.and_then(|pool| pool.metadata.uid.as_deref()) {
            self.registrations.with(|outcomes| outcomes.forget(uid));
        }
        pool_or_class_changed(change, context)
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(pool) = managed(key, context) else {
            return Ok(Action::Done);
        };
        // A class that is missing says nothing about what its nodes were like.
        let Some(class) = context.index.node_class(&pool.spec.template.spec.node_class_ref.name) else {
            return Ok(Action::Done);
        };
        let (generation, now) = (class.metadata.generation.unwrap_or_default(), context.clock.now());
        let follow = |pool: &mut NodePool| {
            self.registrations.with(|outcomes| health::follow(pool, generation, outcomes, now));
        };
        judged(&pool, follow, context).await
    }
}

/// The controller `nodepool.counter`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter;

#[async_trait]
impl Reconciler for Counter {
    fn name(&self) -> &'static str {
        "nodepool.counter"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        let made = change.node_pool().filter(|pools| pools.old.is_none() && pools.new.is_some());
        made.map(|_| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(pool) = managed(key, context) else {
            return Ok(Action::Done);
        };
        // What is not in the picture yet would be missing from the count.
        if !context.index.is_synced() {
            return Ok(Action::After(UNSYNCED));
        }
        let mut counted = (*pool).clone();
        counter::count(&mut counted, &context.index.pool_usage(&key.name));
        unless_gone(context.write_status(&*pool, &counted, Lock::None).await)?;
        Ok(Action::After(COUNTED))
    }
}
