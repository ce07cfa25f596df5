//! Commands under way: nodes set apart, waiting for what takes their place, then deleted.
//!
//! ```text
//!   start ─▶ waiting ── all replacements initialized ─▶ deleting ─▶ done
//!               └── one is gone, too late, paused ──▶ rolled back: untainted, unmarked; replacements stay
//! ```
//!
//! The queue is memory only. What a restart leaves behind (taints, `DisruptionReason`) the next pass of the loop takes
//! back, and decides anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use jiff::Timestamp;
use karpenter_api::conditions::{self, Status};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::MicroUsd;
use karpenter_core::plan::Launch;
use karpenter_index::{Change, Key, Kind, MachineId, facts};

use super::mark;
use super::patience::{Patience, Wall};
use super::pause::PauseSwitch;
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
/// The more is under way, the longer a command may take.
const TIME_EACH: Duration = Duration::from_millis(80);
const LEAST_TIME: Duration = Duration::from_mins(10);
const MOST_TIME: Duration = Duration::from_hours(1);

/// What the loop starts and the queue carries out.
#[derive(Debug, Default)]
pub struct Commands {
    state: Mutex<State>,
    pub(super) pause: PauseSwitch,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    running: BTreeMap<u64, Arc<Command>>,
    holders: BTreeMap<MachineId, u64>,
    /// What failed lately is left alone for a while.
    patience: Patience,
}

/// Nodes that go together, and what takes their place.
#[derive(Clone, Debug)]
pub struct Command {
    pub id: u64,
    pub method: MethodName,
    pub created: Timestamp,
    pub targets: Vec<Held>,
    pub replacements: Vec<Replacement>,
}

/// One node of a command.
#[derive(Clone, Debug)]
pub struct Held {
    pub id: MachineId,
    pub node: ObjectRef,
    pub claim: ObjectRef,
    pub price: MicroUsd,
    pub pool: Arc<NodePool>,
    /// As it was chosen, for what is counted when it goes.
    pub object: Arc<NodeClaim>,
    /// How many pods will need another place.
    pub pods: usize,
}

/// A claim that was created for a command. Once it was seen initialized, what becomes of it later does not matter.
#[derive(Clone, Debug)]
pub struct Replacement {
    pub claim: String,
    pub initialized: bool,
    /// What it was expected to become, where that was planned.
    pub expected: Option<Launch>,
}

impl Command {
    /// As metrics name what is done.
    pub fn decision(&self) -> &'static str {
        if self.replacements.is_empty() { "delete" } else { "replace" }
    }

    fn ids(&self) -> Vec<MachineId> {
        self.targets.iter().map(|target| target.id.clone()).collect()
    }

    fn nodes(&self) -> Vec<String> {
        self.targets.iter().map(|target| target.node.name.clone()).collect()
    }
}

impl Commands {
    pub fn has(&self, id: &MachineId) -> bool {
        self.state().holders.contains_key(id)
    }

    /// A node can be taken once.
    pub(super) fn are_free(&self, targets: &[Held]) -> Result<()> {
        match targets.iter().find(|target| self.has(&target.id)) {
            None => Ok(()),
            Some(held) => Err(Error::other(format!("candidate {} is being disrupted already", held.node.name))),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.state().running.is_empty()
    }

    pub(super) fn enqueue(
        &self,
        method: MethodName,
        created: Timestamp,
        targets: Vec<Held>,
        replacements: Vec<Replacement>,
    ) -> u64 {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        for target in &targets {
            state.holders.insert(target.id.clone(), id);
        }
        state.running.insert(id, Arc::new(Command { id, method, created, targets, replacements }));
        id
    }

    fn get(&self, id: u64) -> Option<Arc<Command>> {
        self.state().running.get(&id).cloned()
    }

    /// The commands that wait for this claim.
    fn replaced_by(&self, claim: &str) -> Vec<Key> {
        let waits = |command: &&Arc<Command>| command.replacements.iter().any(|replacement| replacement.claim == claim);
        self.state().running.values().filter(waits).map(|command| key(command.id)).collect()
    }

    fn update(&self, command: Command) {
        self.state().running.insert(command.id, Arc::new(command));
    }

    fn forget(&self, id: u64) {
        let mut state = self.state();
        state.running.remove(&id);
        state.holders.retain(|_, holder| *holder != id);
    }

    /// How long a command may take while so much is under way.
    fn time(&self) -> Duration {
        let candidates = u32::try_from(self.state().holders.len()).unwrap_or(u32::MAX);
        TIME_EACH.saturating_mul(candidates).clamp(LEAST_TIME, MOST_TIME)
    }

    /// Whether drift should leave the pool alone for now.
    pub(super) fn is_waiting(&self, pool: &str, now: Timestamp) -> bool {
        self.state().patience.is_waiting(&Wall::drift(pool), now)
    }

    /// Whether drift of some pool is to be tried again later, whatever changes until then.
    pub(super) fn is_drift_waiting(&self, now: Timestamp) -> bool {
        self.state().patience.is_drift_waiting(now)
    }

    pub(super) fn failed(&self, walls: impl IntoIterator<Item = Wall>, now: Timestamp) {
        let mut state = self.state();
        walls.into_iter().for_each(|wall| state.patience.failed(wall, now));
    }

    /// Whether nothing of this would be bought into a known stock-out. What failed before and has waited is tried by one
    /// command at a time: `probed` remembers which.
    pub(super) fn may_buy<'a>(
        &self,
        launches: impl Iterator<Item = &'a Launch>,
        probed: &mut BTreeSet<Wall>,
        now: Timestamp,
    ) -> bool {
        let state = self.state();
        let mut walls: BTreeSet<Wall> = launches.map(Wall::offering).collect();
        if walls.iter().any(|wall| state.patience.is_waiting(wall, now) || probed.contains(wall)) {
            return false;
        }
        walls.retain(|wall| state.patience.is_known(wall));
        probed.extend(walls);
        true
    }

    pub(super) fn is_paused(&self) -> bool {
        self.pause.is_on()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn key(id: u64) -> Key {
    Key::cluster(&id.to_string())
}

/// What a look at a command came to.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Done,
    Wait(String),
    /// It cannot succeed any more.
    Failed(String),
}

/// Carries commands out; keyed by command, so that it goes on whatever becomes of one of its nodes.
#[derive(Debug)]
pub struct Queue {
    pub commands: Arc<Commands>,
}

#[async_trait]
impl Reconciler for Queue {
    fn name(&self) -> &'static str {
        QUEUE
    }

    /// A replacement that is gone fails its command at once. As long as the command's nodes are marked, their pods wait for
    /// another place, and the provisioner would buy one.
    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        let gone = change.node_claim().is_some_and(|claims| claims.new.is_none());
        if gone { self.commands.replaced_by(&change.key.name) } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let command = key.name.parse().ok().and_then(|id| self.commands.get(id));
        let Some(command) = command else { return Ok(Action::Done) };
        let look = self.look(context, &command).await;
        let late = context.clock.now() > later(command.created, self.commands.time());
        match look {
            Look::Done => self.succeed(&self.commands.get(command.id).unwrap_or(command)),
            Look::Wait(why) if !late => {
                tracing::debug!(command = command.id, why, "waiting to disrupt");
                return Ok(Action::After(LOOK));
            }
            Look::Wait(why) => self.give_up(context, &command, &format!("command reached timeout, {why}")).await,
            Look::Failed(why) => self.give_up(context, &command, &why).await,
        }
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
    async fn look(&self, context: &Context, command: &Command) -> Look {
        if command.targets.iter().all(|target| is_going(context, target)) {
            return Look::Done;
        }
        if self.is_paused(context, command) {
            return Look::Failed("voluntary disruption is paused".to_owned());
        }
        let mut seen = command.clone();
        let waiting = wait_for_replacements(context, &mut seen).await;
        self.commands.update(seen);
        match waiting {
            Look::Done => match delete_all(context, command).await {
                Ok(()) => Look::Done,
                Err(error) => Look::Wait(error.to_string()),
            },
            other => other,
        }
    }

    fn is_paused(&self, context: &Context, command: &Command) -> bool {
        let paused = |target: &Held| {
            let name = target.pool.metadata.name.as_deref().unwrap_or_default();
            context.index.node_pool(name).is_some_and(|pool| facts::is_paused(pool.metadata.annotations.as_ref()))
        };
        self.commands.is_paused() || command.targets.iter().any(paused)
    }

    /// The nodes stay marked: termination does the rest.
    fn succeed(&self, command: &Command) {
        self.commands.forget(command.id);
        tracing::debug!(command = command.id, reason = command.method.reason, "command succeeded");
        let mut state = self.commands.state();
        for target in command.targets.iter().filter(|_| command.method.reason == "Drifted") {
            state.patience.succeeded(&Wall::drift(target.pool.metadata.name.as_deref().unwrap_or_default()));
        }
        for replacement in command.replacements.iter().filter(|replacement| replacement.initialized) {
            replacement.expected.iter().for_each(|expected| state.patience.succeeded(&Wall::offering(expected)));
        }
    }

    /// The nodes that are still there stay, as if nothing had been. What was bought for them is ordinary capacity.
    async fn give_up(&self, context: &Context, command: &Command, why: &str) {
        let command = self.commands.get(command.id).map_or_else(|| command.clone(), |now| Command::clone(&now));
        let reason = command.method.reason;
        tracing::error!(
            error = why,
            reason,
            nodes = command.nodes().join(", "),
            "failed terminating nodes while executing a disruption command"
        );
        let failed = command.replacements.iter().filter(|replacement| !replacement.initialized).count();
        context.metrics.choices.queue_failed(command.method, command.decision(), failed);
        let mut restorations: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(command.targets.len());
        for target in &command.targets {
            restorations.push(Box::pin(mark::restore(context, &target.node.name, &target.claim.name)));
        }
        for error in join_all(restorations).await.into_iter().filter_map(Result::err) {
            tracing::error!(%error, "a node cannot be restored now; the next pass will");
        }
        context.index.unmark(&command.ids());
        self.commands.forget(command.id);
        if failed > 0 {
            let now = context.clock.now();
            let drifting = command.targets.iter().filter(|_| reason == "Drifted");
            let pools = drifting.filter_map(|target| target.pool.metadata.name.as_deref().map(Wall::drift));
            self.commands.failed(pools, now);
            let lost = command.replacements.iter().filter(|replacement| !replacement.initialized);
            let expected = lost.filter_map(|replacement| replacement.expected.as_ref());
            self.commands.failed(expected.map(Wall::offering), now);
        }
        context.recorder.decided(Decision::RolledBack { reason, nodes: command.nodes(), why: why.to_owned() });
    }
}

/// Gone already, or on its way whoever sent it.
fn is_going(context: &Context, target: &Held) -> bool {
    let there = context.index.node_claim(&target.claim.name);
    there.is_none_or(|claim| {
        claim.metadata.deletion_timestamp.is_some() || claim.metadata.uid.as_deref() != Some(&*target.claim.uid)
    })
}

/// `Done` when every replacement has been initialized once.
async fn wait_for_replacements(context: &Context, command: &mut Command) -> Look {
    let reason = command.method.reason;
    let mut waiting = Vec::new();
    for replacement in command.replacements.iter_mut().filter(|replacement| !replacement.initialized) {
        let known = match context.index.node_claim(&replacement.claim) {
            Some(claim) => Some(claim),
            // Only the server knows for sure.
            None => match context.read::<NodeClaim>(&replacement.claim).await {
                Ok(found) => found.map(Arc::new),
                Err(error) => {
                    waiting.push(format!("getting node claim, {error}"));
                    continue;
                }
            },
        };
        let Some(claim) = known else {
            return Look::Failed(format!("replacement {} was deleted", replacement.claim));
        };
        let object = ObjectRef::node_claim(&claim);
        let launching = Event::normal(object.clone(), "DisruptionLaunching", format!("Launching NodeClaim: {reason}"));
        context.recorder.publish(launching.same([object.uid.clone(), reason.to_owned()]));
        if claim.condition_status(conditions::INITIALIZED) == Status::True {
            replacement.initialized = true;
        } else {
            let message = "Waiting on readiness to continue disruption";
            context.recorder.publish(Event::normal(object, "DisruptionWaitingReadiness", message));
            waiting.push(format!("nodeclaim {} not initialized", replacement.claim));
        }
    }
    if waiting.is_empty() { Look::Done } else { Look::Wait(waiting.join("; ")) }
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

async fn delete(context: &Context, target: &Held, method: MethodName) -> Result<()> {
    if is_going(context, target) {
        return Ok(());
    }
    context.delete::<NodeClaim>(&target.claim.name, &target.claim.uid, &Kind::ALL).await?;
    tell_terminating(context, target, method.reason);
    let policy = if method.is_consolidation() { &*target.pool.spec.disruption.consolidation_policy } else { "" };
    context.metrics.life.disrupted(&target.object, method.label, policy);
    context.metrics.life.pods_disrupted(&target.object, method.label, policy, target.pods);
    Ok(())
}

fn tell_terminating(context: &Context, target: &Held, reason: &'static str) {
    for object in [&target.node, &target.claim] {
        let message = format!("Disrupting {}: {reason}", object.kind);
        let event = Event::normal(object.clone(), "DisruptionTerminating", message);
        context.recorder.publish(event.same([object.uid.clone(), reason.to_owned()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::EMPTINESS;

    fn held(number: u32) -> Held {
        Held {
            id: MachineId::Provider(number.to_string().into()),
            node: ObjectRef::node(&Default::default()),
            claim: ObjectRef::node_claim(&NodeClaim::default()),
            price: MicroUsd(1),
            pool: Arc::default(),
            object: Arc::default(),
            pods: 0,
        }
    }

    #[test]
    fn the_more_is_under_way_the_longer_a_command_may_take() {
        // covers: DIS-QUEUE-02, DIS-QUEUE-14
        let commands = Commands::default();
        assert_eq!(commands.time(), LEAST_TIME);
        let held = |count: u32, from: u32| -> Vec<Held> { (from..from + count).map(held).collect() };
        let first = commands.enqueue(EMPTINESS, Timestamp::UNIX_EPOCH, held(10_000, 0), Vec::new());
        assert_eq!(commands.time(), Duration::from_secs(800));
        commands.enqueue(EMPTINESS, Timestamp::UNIX_EPOCH, held(90_000, 10_000), Vec::new());
        assert_eq!(commands.time(), MOST_TIME);
        assert!(commands.are_free(&held(1, 10_000)).is_err(), "a node can be taken once");
        assert!(commands.are_free(&held(1, 100_000)).is_ok());
        commands.forget(first);
        assert!(commands.are_free(&held(1, 0)).is_ok());
        assert!(!commands.has(&MachineId::Provider("0".into())));
        assert!(commands.has(&MachineId::Provider("10000".into())));
    }
}
