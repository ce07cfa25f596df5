//! Which pools a pass may buy from, and what each offers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_api::conditions::{self, Status};
use karpenter_core::Pool;
use karpenter_index::{NodeClass, reduce};
use karpenter_provider::TypesError;

use crate::clock::later;
use crate::context::Context;

/// A pool with what it can launch, and the object it was read from when the pass began.
#[derive(Clone, Debug)]
pub struct Offer {
    pub object: Arc<NodePool>,
    pub pool: Pool,
}

/// Why a pool of ours gives no nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// It has `replicas`: pods do not make it grow.
    Static,
    NotReady,
    Deleting,
}

/// Whether pods may get nodes from the pool.
pub fn unused(pool: &NodePool) -> Option<Unused> {
    if pool.spec.replicas.is_some() {
        Some(Unused::Static)
    } else if pool.condition_status(conditions::READY) != Status::True {
        Some(Unused::NotReady)
    } else if pool.metadata.deletion_timestamp.is_some() {
        Some(Unused::Deleting)
    } else {
        None
    }
}

/// For so long after a pool or its class changed it is nobody's fault that the pool is not ready.
const SETTLING: Duration = Duration::from_secs(30);
/// A pod that has waited for longer is told, whatever else is about to become ready: a class may come and go for ever.
const PATIENCE: Duration = Duration::from_mins(2);

/// A pool that pods could get nodes from if it were ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    pub pool: String,
    /// What its conditions say.
    pub why: String,
    /// It or its class changed a moment ago: it may become ready by itself.
    pub settling: bool,
}

/// Pools of ours that are not ready, by name.
pub fn unready(context: &Context) -> Vec<Unready> {
    let now = context.clock.now();
    let pools = context.index.node_pools();
    let managed = pools.iter().filter(|pool| context.index.is_managed_pool(pool));
    let not_ready = managed.filter(|pool| unused(pool) == Some(Unused::NotReady));
    let stays = not_ready.filter(|pool| pool.metadata.deletion_timestamp.is_none());
    stays.map(|pool| of(pool, context.index.node_class(class_of(pool)).as_deref(), now)).collect()
}

fn of(pool: &NodePool, class: Option<&NodeClass>, now: Timestamp) -> Unready {
    Unready {
        pool: pool.metadata.name.clone().unwrap_or_default(),
        why: why(pool),
        settling: is_edited(pool, class) || changed(pool, class).is_some_and(|changed| now < later(changed, SETTLING)),
    }
}

/// Whether a pod without a place is still to wait before anybody is told: a pool may become ready by itself, or there is
/// none yet, as when both are created together.
pub(super) fn is_early(created: Timestamp, now: Timestamp, no_pools: bool, unready: &[Unready]) -> bool {
    let settling = unready.iter().any(|pool| pool.settling) && now < later(created, PATIENCE);
    settling || no_pools && unready.is_empty() && now < later(created, SETTLING)
}

/// Whether the types of a pool cannot be known yet, since its class is still looked at or there is none: the class says
/// so in its conditions, and when it is resolved, that is a change of the class.
pub(crate) fn waits_for_class(pool: &NodePool, context: &Context) -> bool {
    let class = context.index.node_class(class_of(pool));
    class.is_none_or(|class| Status::of(class.condition(conditions::READY)) != Status::True)
}

/// Nobody has looked at the pool or its class since its spec was last edited.
fn is_edited(pool: &NodePool, class: Option<&NodeClass>) -> bool {
    let differs = |seen: Option<i64>, is: Option<i64>| seen.unwrap_or_default() != is.unwrap_or_default();
    let of_pool = pool.condition(conditions::READY);
    of_pool.is_some_and(|condition| differs(condition.observed_generation, pool.metadata.generation))
        || class.is_some_and(is_class_edited)
}

/// Nobody has looked at the class since its spec was last edited: until then nothing is launched from it.
pub(crate) fn is_class_edited(class: &NodeClass) -> bool {
    let seen = class.condition(conditions::READY).map(|condition| condition.observed_generation.unwrap_or_default());
    seen.is_some_and(|seen| seen != class.metadata.generation.unwrap_or_default())
}

/// The class that a pool's nodes are launched from.
pub(crate) fn class_of_pool(pool: &NodePool, context: &Context) -> Option<Arc<NodeClass>> {
    context.index.node_class(class_of(pool))
}

fn class_of(pool: &NodePool) -> &str {
    &pool.spec.template.spec.node_class_ref.name
}

/// When the pool or its class last became something else: they came to be, or a condition turned.
fn changed(pool: &NodePool, class: Option<&NodeClass>) -> Option<Timestamp> {
    let created = [Some(&pool.metadata), class.map(|class| &class.metadata)].into_iter().flatten();
    let created = created.filter_map(|metadata| metadata.creation_timestamp.as_ref()).map(|time| time.0);
    let of_pool = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let of_class = class.into_iter().flat_map(|class| &class.status.conditions);
    created.chain(of_pool.chain(of_class).map(|condition| condition.last_transition_time.0)).max()
}

/// The first condition that keeps it from being ready, in its own words.
fn why(pool: &NodePool) -> String {
    let lacking = [conditions::NODE_CLASS_READY, conditions::VALIDATION_SUCCEEDED, conditions::READY];
    let lacking = lacking.into_iter().filter_map(|kind| Some((kind, pool.condition(kind)?)));
    let mut lacking = lacking.filter(|(_, condition)| condition.status != "True");
    match lacking.next() {
        Some((kind, condition)) if condition.message.is_empty() => format!("{kind} is {}", condition.status),
        Some((kind, condition)) => format!("{kind} is {}, {}", condition.status, condition.message),
        None => "nobody has looked at it yet".to_owned(),
    }
}

/// The pools of this pass. One that cannot be read or has nothing to offer is left out, and said so; the others are not
/// affected.
pub async fn offers(context: &Context) -> Vec<Offer> {
    let mut offers = Vec::new();
    for object in context.index.node_pools() {
        if !context.index.is_managed_pool(&object) {
            continue;
        }
        let name = object.metadata.name.as_deref().unwrap_or_default();
        match unused(&object) {
            None => {}
            Some(Unused::NotReady) => {
                let class = context.index.node_class(class_of(&object));
                let Unready { why, settling, .. } = of(&object, class.as_deref(), context.clock.now());
                if settling {
                    tracing::debug!(pool = name, why, "ignoring nodepool, not ready yet");
                } else {
                    tracing::error!(pool = name, why, "ignoring nodepool, not ready");
                }
                continue;
            }
            Some(Unused::Static | Unused::Deleting) => continue,
        }
        let types = match context.provider.instance_types(&object).await {
            Ok(types) if types.is_empty() => {
                tracing::info!(pool = name, "skipping, no resolved instance types found");
                continue;
            }
            Ok(types) => types,
            Err(TypesError::Unevaluated { .. }) => {
                tracing::debug!(pool = name, "skipping, awaiting nodeoverlay evaluation");
                continue;
            }
            Err(TypesError::NotResolved { message }) if waits_for_class(&object, context) => {
                tracing::debug!(pool = name, why = message, "skipping, awaiting its node class");
                continue;
            }
            Err(error) => {
                let error = karpenter_provider::chain(&error);
                tracing::error!(pool = name, error, "skipping, unable to resolve instance types");
                continue;
            }
        };
        match reduce::pool(&object, types) {
            Ok(pool) => offers.push(Offer { object, pool }),
            Err(refused) => tracing::error!(%refused, "skipping, the nodepool cannot be used"),
        }
    }
    if offers.is_empty() {
        tracing::info!("no dynamic nodepools found");
    }
    offers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dynamic_ready_pools_that_stay_are_bought_from() {
        // covers: LC-GEN-15
        let pool = |replicas: Option<i64>, ready: &str, deleting: bool| -> NodePool {
            let class = serde_json::json!({"group": "g", "kind": "K", "name": "n"});
            let mut pool: NodePool = serde_json::from_value(serde_json::json!({
                "metadata": {"name": "p"},
                "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
                "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }))
            .unwrap();
            pool.spec.replicas = replicas;
            pool.metadata.deletion_timestamp = deleting.then(|| crate::clock::wire(jiff::Timestamp::UNIX_EPOCH));
            pool
        };
        for (replicas, ready, deleting, want) in [
            (None, "True", false, None),
            (Some(0), "True", false, Some(Unused::Static)),
            (None, "False", false, Some(Unused::NotReady)),
            (None, "Unknown", false, Some(Unused::NotReady)),
            (None, "True", true, Some(Unused::Deleting)),
        ] {
            assert_eq!(unused(&pool(replicas, ready, deleting)), want);
        }
        assert_eq!(unused(&NodePool::default()), Some(Unused::NotReady), "nobody has looked at it yet");
    }

    #[test]
    fn nobody_is_told_of_a_pod_before_its_pool_had_time() {
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).unwrap();
        let pool = |settling: bool| Unready { pool: "p".to_owned(), why: String::new(), settling };
        for (no_pools, unready, early) in [
            (true, vec![], 30),
            (false, vec![], 0),
            (true, vec![pool(false)], 0),
            (true, vec![pool(true)], 120),
            (false, vec![pool(false), pool(true)], 120),
        ] {
            assert!(early == 0 || is_early(at(0), at(early - 1), no_pools, &unready), "{unready:?}");
            assert!(!is_early(at(0), at(early), no_pools, &unready), "{unready:?}");
        }
    }

    #[test]
    fn what_was_edited_and_not_looked_at_since_may_become_ready_by_itself() {
        let ready = |seen: i64| {
            serde_json::json!({"type": "Ready", "status": "False", "reason": "R", "message": "",
                "lastTransitionTime": "2020-01-01T00:00:00Z", "observedGeneration": seen})
        };
        for (pool_seen, class_seen, settling) in [(3, 3, false), (2, 3, true), (3, 2, true)] {
            let mut pool = NodePool::default();
            pool.metadata.generation = Some(3);
            pool.status = Some(serde_json::from_value(serde_json::json!({"conditions": [ready(pool_seen)]})).unwrap());
            let mut class = NodeClass { metadata: pool.metadata.clone(), ..NodeClass::default() };
            class.status = serde_json::from_value(serde_json::json!({"conditions": [ready(class_seen)]})).unwrap();
            let now = "2026-01-01T00:00:00Z".parse().unwrap();
            assert_eq!(of(&pool, Some(&class), now).settling, settling, "{pool_seen} {class_seen}");
        }
    }

    #[test]
    fn a_pool_that_changed_a_moment_ago_may_become_ready_by_itself() {
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).unwrap();
        let condition = |kind: &str, status: &str, message: &str, since: i64| {
            serde_json::json!({"type": kind, "status": status, "reason": "R", "message": message,
                "lastTransitionTime": at(since).to_string()})
        };
        let pool = |conditions: serde_json::Value| -> NodePool {
            let mut pool = NodePool::default();
            pool.metadata.creation_timestamp = Some(crate::clock::wire(at(0)));
            pool.status = Some(serde_json::from_value(serde_json::json!({"conditions": conditions})).unwrap());
            pool
        };
        let class = |since: i64| NodeClass {
            metadata: Default::default(),
            status: serde_json::from_value(
                serde_json::json!({"conditions": [condition("SubnetsReady", "False", "none", since)]}),
            )
            .unwrap(),
        };
        let bare = pool(serde_json::json!([]));
        let waiting = pool(serde_json::json!([
            condition("NodeClassReady", "False", "SubnetSelector did not match any Subnets", 10),
            condition("Ready", "False", "", 10),
        ]));
        for (pool, class, now, settling, why) in [
            (&bare, None, 29, true, "nobody has looked at it yet"),
            (&bare, None, 30, false, "nobody has looked at it yet"),
            (&waiting, None, 39, true, "NodeClassReady is False, SubnetSelector did not match any Subnets"),
            (&waiting, None, 40, false, "NodeClassReady is False, SubnetSelector did not match any Subnets"),
            (&waiting, Some(class(20)), 49, true, "NodeClassReady is False, SubnetSelector did not match any Subnets"),
            (&waiting, Some(class(20)), 50, false, "NodeClassReady is False, SubnetSelector did not match any Subnets"),
        ] {
            let found = of(pool, class.as_ref(), at(now));
            assert_eq!((found.settling, found.why.as_str()), (settling, why), "{pool:?} {class:?} at {now}");
        }
    }
}
