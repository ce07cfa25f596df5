//! Taking nodes out of service that are no longer worth their price.
//!
//! ```text
//!   machines ──candidate──▶ candidates ──method, budgets──▶ command ──15 s, again──▶ queue: set apart, delete
//! ```
//!
//! One loop, one decision at a time; commands are carried out beside it.

pub mod budgets;
pub mod candidate;
mod claim_conditions;
mod consolidatable;
mod cost;
pub mod drifted;
pub mod emptiness;
mod mark;
pub mod pdb;
mod podevents;
pub mod queue;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use jiff::Timestamp;
use karpenter_api::{NodePool, conditions};
use karpenter_index::{Change, Key, Machine};
use tokio::time::Instant;

use crate::clock::later;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::metrics::EMPTINESS;
use crate::reconciler::{Action, Reconciler, singleton};
use crate::recorder::{Event, ObjectRef};
use budgets::Allowance;
use candidate::{Blocked, Candidate, Offering, Seen};
use emptiness::Interest;

pub use claim_conditions::ClaimConditions;
pub use cost::eviction_cost;
pub use podevents::PodEvents;
pub use queue::{Commands, Queue};

const IDLE: Duration = Duration::from_secs(10);
const UNSYNCED: Duration = Duration::from_secs(1);
/// A decision must hold for so long before it is carried out.
const VALIDATION: Duration = Duration::from_secs(15);
/// What was found to be at rest is looked at again after this, whatever changed.
const REST: Duration = Duration::from_mins(5);
const BUDGET_WINDOW: Duration = Duration::from_secs(60);
const UNCONSOLIDATABLE_WINDOW: Duration = Duration::from_secs(15 * 60);

/// The loop. Two passes never overlap: it is a single key.
#[derive(Debug)]
pub struct Disruption {
    commands: Arc<Commands>,
    /// When nothing was left to do, and for which state of the cluster.
    rest: Mutex<Option<(u64, Timestamp)>>,
}

/// The controllers of disruption, sharing their commands.
pub fn reconcilers() -> Vec<Arc<dyn Reconciler>> {
    let commands = Arc::new(Commands::default());
    vec![
        Arc::new(Disruption { commands: commands.clone(), rest: Mutex::default() }),
        Arc::new(Queue { commands }),
        Arc::new(ClaimConditions::default()),
        Arc::new(PodEvents),
    ]
}

#[async_trait]
impl Reconciler for Disruption {
    fn name(&self) -> &'static str {
        "disruption"
    }

    fn start(&self) -> Vec<Key> {
        vec![singleton()]
    }

    fn wake(&self, _change: &Change, _context: &Context) -> Vec<Key> {
        Vec::new()
    }

    async fn reconcile(&self, _key: &Key, context: &Context) -> Result<Action> {
        if !context.is_synced() {
            return Ok(Action::After(UNSYNCED));
        }
        log_unreadable_budgets(context);
        self.take_back_leftovers(context).await?;
        let began = Instant::now();
        let acted = self.remove_empty(context).await?;
        context.metrics.choices.evaluated(EMPTINESS, began.elapsed());
        Ok(Action::After(if acted { Duration::ZERO } else { IDLE }))
    }

    fn concurrency(&self) -> usize {
        1
    }
}

impl Disruption {
    /// What a crash or a failed command left on nodes that nobody is about to take.
    async fn take_back_leftovers(&self, context: &Context) -> Result<()> {
        let mut restorations: Vec<BoxFuture<'_, Result<()>>> = Vec::new();
        for machine in context.index.machines() {
            let (Some(node), Some(claim), Some(reduced)) = (&machine.node, &machine.claim, &machine.reduced) else {
                continue;
            };
            let reasoned = reduced.is_initialized() && claim.condition(conditions::DISRUPTION_REASON).is_some();
            if reduced.deleting || self.commands.has(&machine.id) || !(mark::is_tainted(node) || reasoned) {
                continue;
            }
            let (node, claim) = (ObjectRef::node(node).name, ObjectRef::node_claim(claim).name);
            restorations.push(Box::pin(async move { mark::restore(context, &node, &claim).await }));
        }
        let results = join_all(restorations).await;
        Error::all(results.into_iter().filter_map(Result::err).collect())
    }

    /// The Emptiness method; answers whether it started a command.
    async fn remove_empty(&self, context: &Context) -> Result<bool> {
        let state = context.index.unsettled();
        let candidates = self.empty_candidates(context).await;
        context.metrics.choices.eligible(EMPTINESS, candidates.len());
        if candidates.is_empty() || self.is_at_rest(state, context.clock.now()) {
            return Ok(false);
        }
        let choice = emptiness::choose(candidates, &allowances(context, EMPTINESS.reason));
        if choice.chosen.is_empty() {
            if !choice.held_back {
                self.rest(state, context.clock.now());
            }
            return Ok(false);
        }
        tokio::time::sleep(VALIDATION).await;
        let now = self.empty_candidates(context).await;
        let valid = emptiness::still_valid(&choice.chosen, now, &allowances(context, EMPTINESS.reason));
        context.metrics.choices.failed_validations(EMPTINESS, valid.failed);
        let valid = valid.chosen;
        if valid.is_empty() {
            tracing::debug!("abandoning empty node consolidation attempt, command is no longer valid");
            return Ok(false);
        }
        self.commands.start(context, EMPTINESS, &valid).await?;
        Ok(true)
    }

    async fn empty_candidates(&self, context: &Context) -> Vec<Candidate> {
        let mut found = self.candidates(context).await;
        found.retain(|candidate| match emptiness::interest(candidate) {
            Interest::Yes => true,
            Interest::No => false,
            Interest::Disabled => {
                tell_unconsolidatable(context, candidate);
                false
            }
        });
        found
    }

    /// All nodes that may be disrupted; why the others may not is told.
    async fn candidates(&self, context: &Context) -> Vec<Candidate> {
        let pools = offering_pools(context).await;
        let pool = |name: &str| pools.get(name).cloned();
        let budgets = context.index.budgets();
        let now = context.clock.now();
        let mut found = Vec::new();
        for machine in context.index.machines() {
            let name = machine.node.as_ref().and_then(|node| node.metadata.name.as_deref());
            let pods = name.map(|name| context.index.pods_on(name)).unwrap_or_default();
            let seen = Seen {
                now,
                in_queue: self.commands.has(&machine.id),
                nominated: context.index.is_nominated(&machine.id, now),
                pods: &pods,
                pool: &pool,
                budgets: &budgets,
            };
            match candidate::candidate(&machine, &seen) {
                Ok(candidate) => found.push(candidate),
                Err(why) => tell_blocked(context, &machine, &why),
            }
        }
        found
    }

    fn is_at_rest(&self, state: u64, now: Timestamp) -> bool {
        let rest = *self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        rest.is_some_and(|(then, at)| then == state && now < later(at, REST))
    }

    fn rest(&self, state: u64, now: Timestamp) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some((state, now));
    }
}

/// Pools of ours with anything to offer. One whose types are not known keeps its own nodes, and no others.
async fn offering_pools(context: &Context) -> BTreeMap<String, Offering> {
    let mut pools = BTreeMap::new();
    for pool in context.index.node_pools() {
        if !context.index.is_managed_pool(&pool) {
            continue;
        }
        let name = pool.metadata.name.clone().unwrap_or_default();
        match context.provider.instance_types(&pool).await {
            Ok(types) if !types.is_empty() => {
                pools.insert(name, (pool, types));
            }
            Ok(_) => {}
            Err(error) => {
                let error = karpenter_provider::chain(&error);
                tracing::error!(pool = name, error, "skipping, unable to resolve instance types");
            }
        }
    }
    pools
}

fn managed_pools(context: &Context) -> Vec<Arc<NodePool>> {
    let mut pools = context.index.node_pools();
    pools.retain(|pool| context.index.is_managed_pool(pool));
    pools
}

fn allowances(context: &Context, reason: &'static str) -> BTreeMap<String, Allowance> {
    let pools = managed_pools(context);
    let found = budgets::allowances(&pools, &context.index.machines(), reason, context.clock.now());
    for pool in &pools {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let Some(allowance) = found.get(name) else { continue };
        context.metrics.choices.allowance(name, reason, *allowance);
        if allowance.nodes > 0 && allowance.allowed == 0 {
            let object = ObjectRef::node_pool(pool);
            let same = [object.uid.clone(), reason.to_owned()];
            let message = format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
            context
                .recorder
                .publish(Event::normal(object, "DisruptionBlocked", message).same(same).within(BUDGET_WINDOW));
        }
    }
    found
}

fn log_unreadable_budgets(context: &Context) {
    for pool in managed_pools(context) {
        if let Err(error) = budgets::allowed(&pool, 100, EMPTINESS.reason, context.clock.now()) {
            let pool = pool.metadata.name.as_deref().unwrap_or_default();
            tracing::error!(pool, error, "detected disruption budget errors");
        }
    }
}

/// On the Node and the NodeClaim; nodes of others are their business.
fn tell_blocked(context: &Context, machine: &Machine, why: &Blocked) {
    if *why == Blocked::InQueue || machine.claim.is_none() {
        return;
    }
    let node = machine.node.as_deref().map(ObjectRef::node);
    let claim = machine.claim.as_deref().map(ObjectRef::node_claim);
    for object in node.into_iter().chain(claim) {
        context.recorder.publish(Event::normal(object, "DisruptionBlocked", why.to_string()));
    }
}

fn tell_unconsolidatable(context: &Context, candidate: &Candidate) {
    let message = format!("NodePool {:?} has consolidation disabled", candidate.pool_name());
    for object in [ObjectRef::node(&candidate.node), ObjectRef::node_claim(&candidate.claim)] {
        let event = Event::normal(object, "Unconsolidatable", message.clone());
        context.recorder.publish(event.within(UNCONSOLIDATABLE_WINDOW));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_ends_when_something_changes_and_after_five_minutes() {
        // covers: STATE-30, DIS-EMPTY-06
        let at = |second| Timestamp::from_second(second).unwrap();
        let disruption = Disruption { commands: Arc::default(), rest: Mutex::default() };
        assert!(!disruption.is_at_rest(7, at(0)));
        disruption.rest(7, at(0));
        assert!(disruption.is_at_rest(7, at(299)));
        assert!(!disruption.is_at_rest(8, at(1)));
        assert!(!disruption.is_at_rest(7, at(300)));
    }
}
