//! NodeOverlays: judged together, against the types of all pools, before any of them holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_api::conditions::{READY, Status, VALIDATION_SUCCEEDED};
use karpenter_api::{NodeOverlay, NodePool, ObjectMeta};
use karpenter_index::{Change, Key, NodeClass, Pair, What};
use karpenter_provider::overlay::{Accepted, Standing, Store, evaluate};
use karpenter_provider::{CloudProvider, InstanceTypes, TypesError};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::patch::Lock;
use crate::provisioning::pools::waits_for_class;
use crate::reconciler::{Action, Reconciler, singleton};

/// Types come and go without anybody's changing an object.
const REFRESH: Duration = Duration::from_hours(6);

/// The controller `nodeoverlay.controller`.
pub struct NodeOverlays {
    /// Overlays are judged by what the cloud itself says.
    provider: Arc<dyn CloudProvider>,
    store: Arc<Store>,
    /// That we may not write their status has been said.
    told: AtomicBool,
}

impl std::fmt::Debug for NodeOverlays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeOverlays").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The overlay as its standing makes it.
pub fn judged(overlay: &NodeOverlay, standing: &Standing, now: Timestamp) -> NodeOverlay {
    let mut judged = overlay.clone();
    let mut conditions = judged.conditions_at(now);
    match standing {
        Standing::Valid => conditions.set_true(VALIDATION_SUCCEEDED),
        Standing::Invalid(why) => conditions.set_false(VALIDATION_SUCCEEDED, "RuntimeValidation", why),
        Standing::Conflict => conditions.set_false(VALIDATION_SUCCEEDED, "Conflict", "conflict with another overlay"),
    };
    judged
}

/// What came of writing down how overlays stand.
enum Written {
    All,
    /// One of them is not what we judged any more.
    Outdated,
    Forbidden(Error),
}

impl NodeOverlays {
    /// `provider` is the one without overlays.
    pub fn new(provider: Arc<dyn CloudProvider>, store: Arc<Store>) -> Self {
        Self { provider, store, told: AtomicBool::new(false) }
    }

    async fn write(
        &self,
        overlays: &[Arc<NodeOverlay>],
        standings: &[(String, Standing)],
        context: &Context,
    ) -> Result<Written> {
        let now = context.clock.now();
        let mut errors = Vec::new();
        for (name, standing) in standings {
            let Some(overlay) = overlays.iter().find(|one| one.metadata.name.as_ref() == Some(name)) else { continue };
            match context.write_status(&**overlay, &judged(overlay, standing, now), Lock::Version).await {
                Ok(_) => {}
                Err(error) if error.is_conflict() || error.is_not_found() => return Ok(Written::Outdated),
                Err(error) if error.is_forbidden() => return Ok(Written::Forbidden(error)),
                Err(error) => errors.push(error),
            }
        }
        Error::all(errors).map(|()| Written::All)
    }

    fn put(&self, accepted: Accepted, pools: &[(Arc<NodePool>, InstanceTypes)], context: &Context) {
        self.store.put(accepted, pools.iter().map(|(pool, _)| &**pool));
        context.index.unsettle();
    }
}

#[async_trait]
impl Reconciler for NodeOverlays {
    fn name(&self) -> &'static str {
        "nodeoverlay.controller"
    }

    fn start(&self) -> Vec<Key> {
        vec![singleton()]
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        if concerns(&change.what) { vec![singleton()] } else { Vec::new() }
    }

    async fn reconcile(&self, _key: &Key, context: &Context) -> Result<Action> {
        let overlays = context.index.node_overlays();
        let (mut pools, mut errors) = (Vec::new(), Vec::new());
        for pool in context.index.node_pools().into_iter().filter(|pool| context.index.is_managed_pool(pool)) {
            match self.provider.instance_types(&pool).await {
                Ok(types) => pools.push((pool, types)),
                // When the class is resolved, that is a change of the class.
                Err(TypesError::NotResolved { message }) if waits_for_class(&pool, context) => {
                    let name = pool.metadata.name.as_deref().unwrap_or_default();
                    tracing::debug!(pool = name, why = message, "node overlays of a pool wait for its node class");
                }
                Err(error) => {
                    let (name, why) = (pool.metadata.name.as_deref(), karpenter_provider::chain(&error));
                    let name = name.unwrap_or_default();
                    errors.push(Error::other(format!("listing instance types for nodepool {name:?}, {why}")));
                }
            }
        }
        let (standings, accepted) = evaluate(&overlays, &pools, &context.index.vocabulary());
        match self.write(&overlays, &standings, context).await? {
            Written::All => self.put(accepted, &pools, context),
            Written::Outdated => return Ok(Action::Again),
            Written::Forbidden(error) => {
                // What nobody is told of does not hold.
                self.put(Accepted::default(), &pools, context);
                if !self.told.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, "the status of NodeOverlays cannot be written, they are not applied");
                }
            }
        }
        Error::all(errors).map(|()| Action::After(REFRESH))
    }

    fn concurrency(&self) -> usize {
        1
    }
}

/// Whether a change may make another judgement.
fn concerns(what: &What) -> bool {
    match what {
        What::NodeOverlay(pair) => differs(pair, |overlay| &overlay.metadata),
        What::NodePool(pair) => differs(pair, |pool| &pool.metadata),
        // What a pool's types wait for, the class says in its conditions.
        What::NodeClass(pair) => differs(pair, |class| &class.metadata) || ready(&pair.old) != ready(&pair.new),
        What::Pod(_) | What::Node(_) | What::NodeClaim(_) | What::Other => false,
    }
}

fn ready(class: &Option<Arc<NodeClass>>) -> Option<Status> {
    class.as_deref().map(|class| Status::of(class.condition(READY)))
}

/// Created, deleted, or changed in what it says.
fn differs<T>(pair: &Pair<T>, metadata: impl Fn(&T) -> &ObjectMeta) -> bool {
    match (&pair.old, &pair.new) {
        (Some(old), Some(new)) => metadata(old).generation != metadata(new).generation,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_says_how_it_stands() {
        // covers: SCH-OVERLAY-19, API-NO-11, API-CD-30
        let told = |standing: Standing| {
            let judged = judged(&NodeOverlay::default(), &standing, Timestamp::UNIX_EPOCH);
            let condition = judged.condition(VALIDATION_SUCCEEDED).unwrap().clone();
            (condition.status, condition.reason, condition.message, judged.condition_status(READY))
        };
        let said = |status: &str, reason: &str, message: &str, ready| {
            (status.to_owned(), reason.to_owned(), message.to_owned(), ready)
        };
        assert_eq!(told(Standing::Valid), said("True", VALIDATION_SUCCEEDED, "", Status::True));
        let invalid = Standing::Invalid("spec.price: no".to_owned());
        assert_eq!(told(invalid), said("False", "RuntimeValidation", "spec.price: no", Status::False));
        let conflict = said("False", "Conflict", "conflict with another overlay", Status::False);
        assert_eq!(told(Standing::Conflict), conflict);
    }

    #[test]
    fn what_an_object_says_counts_and_not_what_is_said_of_it() {
        // covers: SCH-OVERLAY-05
        let pool = |generation: i64| {
            let mut pool = NodePool::default();
            pool.metadata.generation = Some(generation);
            Some(Arc::new(pool))
        };
        for (old, new, want) in
            [(None, pool(1), true), (pool(1), None, true), (pool(1), pool(2), true), (pool(1), pool(1), false)]
        {
            assert_eq!(differs(&Pair { old, new }, |pool| &pool.metadata), want);
        }
    }

    #[test]
    fn pools_that_wait_for_their_class_are_judged_when_it_is_resolved() {
        let class = |ready: &str| {
            let conditions = serde_json::json!([{"type": "Ready", "status": ready, "reason": "", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
            let class = serde_json::json!({"metadata": {"generation": 1}, "status": {"conditions": conditions}});
            Some(Arc::new(serde_json::from_value::<NodeClass>(class).unwrap()))
        };
        for (old, new, want) in [
            (class("False"), class("True"), true),
            (class("Unknown"), class("True"), true),
            (class("True"), class("False"), true),
            (class("False"), class("False"), false),
            (class("True"), class("True"), false),
        ] {
            assert_eq!(concerns(&What::NodeClass(Pair { old, new })), want);
        }
    }
}
