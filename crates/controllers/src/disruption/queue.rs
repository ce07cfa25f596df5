//! Commands under way: nodes set apart, waiting to be deleted.
//!
//! The queue is memory only. What a restart leaves behind (taints, `DisruptionReason`) the next pass of the loop takes
//! back, and decides anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use jiff::Timestamp;
use karpenter_api::NodeClaim;
use karpenter_core::MicroUsd;
use karpenter_index::{Change, Key, MachineId};

use super::candidate::Candidate;
use super::mark;
use crate::clock::later;
use crate::context::Context;
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::metrics::MethodName;
use crate::reconciler::{Action, Backoff, Reconciler};
use crate::recorder::{Event, ObjectRef};

pub const QUEUE: &str = "disruption.queue";
/// A command is looked at so often until it is done.
const LOOK: Duration = Duration::from_secs(1);
/// The more is under way, the more patience.
const PATIENCE_EACH: Duration = Duration::from_millis(80);
const LEAST_PATIENCE: Duration = Duration::from_mins(10);
const MOST_PATIENCE: Duration = Duration::from_hours(1);

/// What the loop starts and the queue carries out.
#[derive(Debug, Default)]
pub struct Commands {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    running: BTreeMap<u64, Arc<Command>>,
    holders: BTreeMap<MachineId, u64>,
}

/// Nodes that go together.
#[derive(Clone, Debug)]
pub struct Command {
    pub id: u64,
    pub method: MethodName,
    pub created: Timestamp,
    pub targets: Vec<Target>,
}

/// One node of a command.
#[derive(Clone, Debug)]
pub struct Target {
    pub id: MachineId,
    pub node: ObjectRef,
    pub claim: ObjectRef,
    pub price: MicroUsd,
    /// As it was chosen, for what is counted when it goes.
    object: Arc<NodeClaim>,
    policy: String,
    pods: usize,
}

impl Target {
    fn of(candidate: &Candidate) -> Self {
        Self {
            id: candidate.id.clone(),
            node: ObjectRef::node(&candidate.node),
            claim: ObjectRef::node_claim(&candidate.claim),
            price: candidate.price,
            object: candidate.claim.clone(),
            policy: candidate.pool.spec.disruption.consolidation_policy.clone(),
            pods: candidate.pods,
        }
    }
}

impl Commands {
    pub fn has(&self, id: &MachineId) -> bool {
        self.state().holders.contains_key(id)
    }

    pub fn is_empty(&self) -> bool {
        self.state().running.is_empty()
    }

    /// Sets the nodes apart and enqueues them. Those that cannot be set apart stay; if that is all of them, the command
    /// fails.
    pub async fn start(&self, context: &Context, method: MethodName, candidates: &[Candidate]) -> Result<()> {
        if candidates.iter().any(|candidate| self.has(&candidate.id)) {
            return Err(Error::other("a candidate is being disrupted already"));
        }
        let reason = method.reason;
        let targets: Vec<Target> = candidates.iter().map(Target::of).collect();
        let names: Vec<String> = targets.iter().map(|target| target.node.name.clone()).collect();
        tracing::info!(reason, nodes = names.join(", "), "disrupting node(s)");
        let mut markings: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(targets.len());
        for target in &targets {
            markings.push(Box::pin(mark::set_apart(context, &target.node.name, &target.claim.name, reason)));
        }
        let results = join_all(markings).await;
        let (mut held, mut errors) = (Vec::new(), Vec::new());
        for (target, result) in targets.into_iter().zip(results) {
            match result {
                Ok(()) => held.push(target),
                Err(error) => errors.push(error),
            }
        }
        if held.is_empty() {
            return Error::all(errors);
        }
        errors.iter().for_each(|error| tracing::error!(%error, "a node cannot be set apart and stays"));
        let ids: Vec<MachineId> = held.iter().map(|target| target.id.clone()).collect();
        context.index.mark(&ids);
        context.recorder.decided(Decision::Disrupt {
            reason,
            nodes: held.iter().map(|target| target.node.name.clone()).collect(),
            savings: held.iter().map(|target| target.price).sum(),
        });
        let mut pools: Vec<String> = candidates.iter().map(|candidate| candidate.pool_name().to_owned()).collect();
        pools.sort();
        pools.dedup();
        context.metrics.choices.deleting(method, pools);
        let id = self.enqueue(method, context.clock.now(), held);
        context.wake(QUEUE, key(id));
        Ok(())
    }

    fn enqueue(&self, method: MethodName, created: Timestamp, targets: Vec<Target>) -> u64 {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        for target in &targets {
            state.holders.insert(target.id.clone(), id);
        }
        state.running.insert(id, Arc::new(Command { id, method, created, targets }));
        id
    }

    fn get(&self, id: u64) -> Option<Arc<Command>> {
        self.state().running.get(&id).cloned()
    }

    fn forget(&self, id: u64) {
        let mut state = self.state();
        state.running.remove(&id);
        state.holders.retain(|_, holder| *holder != id);
    }

    /// How long a command may take while so much is under way.
    fn patience(&self) -> Duration {
        let candidates = u32::try_from(self.state().holders.len()).unwrap_or(u32::MAX);
        PATIENCE_EACH.saturating_mul(candidates).clamp(LEAST_PATIENCE, MOST_PATIENCE)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(id: u64) -> Key {
    Key::cluster(&id.to_string())
}

/// Carries commands out; keyed by command.
#[derive(Debug)]
pub struct Queue {
    pub commands: Arc<Commands>,
}

#[async_trait]
impl Reconciler for Queue {
    fn name(&self) -> &'static str {
        QUEUE
    }

    fn wake(&self, _change: &Change, _context: &Context) -> Vec<Key> {
        Vec::new()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let command = key.name.parse().ok().and_then(|id| self.commands.get(id));
        let Some(command) = command else { return Ok(Action::Done) };
        let Err(error) = delete_all(context, &command).await else {
            self.commands.forget(command.id);
            return Ok(Action::Done);
        };
        if context.clock.now() <= later(command.created, self.commands.patience()) {
            tracing::debug!(%error, "deleting node claims, trying again");
            return Ok(Action::After(LOOK));
        }
        self.give_up(context, &command, &error).await;
        Ok(Action::Done)
    }

    fn concurrency(&self) -> usize {
        100
    }

    fn backoff(&self) -> Backoff {
        Backoff { first: LOOK, last: Duration::from_secs(10), per_second: 100, burst: 1000 }
    }
}

impl Queue {
    /// The nodes that are still there stay, as if nothing had been.
    async fn give_up(&self, context: &Context, command: &Command, why: &Error) {
        let nodes = command.targets.iter().map(|target| target.node.name.clone()).collect();
        tracing::error!(error = %why, reason = command.method.reason, "failed terminating nodes while executing a disruption command");
        let mut restorations: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(command.targets.len());
        for target in &command.targets {
            restorations.push(Box::pin(mark::restore(context, &target.node.name, &target.claim.name)));
        }
        for error in join_all(restorations).await.into_iter().filter_map(Result::err) {
            tracing::error!(%error, "a node cannot be restored now; the next pass will");
        }
        let ids: Vec<MachineId> = command.targets.iter().map(|target| target.id.clone()).collect();
        context.index.unmark(&ids);
        self.commands.forget(command.id);
        context.recorder.decided(Decision::RolledBack { reason: command.method.reason, nodes, why: why.to_string() });
    }
}

/// Deletes every claim of the command; those that are gone or going count as done.
async fn delete_all(context: &Context, command: &Command) -> Result<()> {
    let mut deletions: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(command.targets.len());
    for target in &command.targets {
        deletions.push(Box::pin(delete(context, target, command.method)));
    }
    let results: Vec<Result<()>> = join_all(deletions).await;
    Error::all(results.into_iter().filter_map(Result::err).collect())
}

async fn delete(context: &Context, target: &Target, method: MethodName) -> Result<()> {
    let there = context.index.node_claim(&target.claim.name);
    if there.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()) {
        return Ok(());
    }
    context.delete::<NodeClaim>(&target.claim.name, &target.claim.uid).await?;
    tell_terminating(context, target, method.reason);
    context.metrics.life.disrupted(&target.object, method.label, &target.policy);
    context.metrics.life.pods_disrupted(&target.object, method.label, &target.policy, target.pods);
    Ok(())
}

fn tell_terminating(context: &Context, target: &Target, reason: &'static str) {
    for object in [&target.node, &target.claim] {
        let message = format!("Disrupting {}: {reason}", object.kind);
        let event = Event::normal(object.clone(), "DisruptionTerminating", message);
        context.recorder.publish(event.same([object.uid.clone(), reason.to_owned()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::candidate::tests::named;
    use crate::metrics::EMPTINESS;

    #[test]
    fn patience_grows_with_what_is_under_way() {
        // covers: DIS-QUEUE-14
        let commands = Commands::default();
        assert_eq!(commands.patience(), LEAST_PATIENCE);
        let targets = |count: u32, from: u32| -> Vec<Target> {
            let target =
                |number: u32| Target { id: MachineId::Provider(number.to_string().into()), ..Target::of(&named("a")) };
            (from..from + count).map(target).collect()
        };
        let first = commands.enqueue(EMPTINESS, Timestamp::UNIX_EPOCH, targets(10_000, 0));
        assert_eq!(commands.patience(), Duration::from_secs(800));
        commands.enqueue(EMPTINESS, Timestamp::UNIX_EPOCH, targets(90_000, 10_000));
        assert_eq!(commands.patience(), MOST_PATIENCE);
        commands.forget(first);
        assert!(!commands.has(&MachineId::Provider("0".into())));
        assert!(commands.has(&MachineId::Provider("10000".into())));
    }
}
