//! Taking nodes out of service that are no longer what was asked for, or no longer worth their price.
//!
//! ```text
//!   index ─▶ Picture ─▶ karpenter_disruption::propose ─┬─ drift ───────────────────────┬─▶ start ─▶ queue: wait, delete
//!                                                      └─ empty, consolidation: 15 s, ─┘
//!                                                         then everything looked at again
//! ```
//!
//! One loop, one pass at a time; commands wait and are carried out beside it. What each pass found out about every node is told
//! in events and kept as records.

mod claim_conditions;
mod consolidatable;
pub mod drifted;
mod mark;
mod patience;
mod pause;
mod pending;
mod picture;
mod podevents;
mod protection;
pub mod queue;
mod recheck;
mod refused;
pub mod regret;
mod scores;
mod start;
mod tell;
pub mod why;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use jiff::Timestamp;
use karpenter_api::conditions;
use karpenter_core::MicroUsd;
use karpenter_core::plan::Launch;
use karpenter_disruption::validation::{Refusal, Validated, Validation};
use karpenter_disruption::{Begun, Blocked, Command, Memory, Method, Policy, Proposal, Reason, Snapshot};
use karpenter_index::{Change, Key, TrackedPod};
use tokio::time::Instant;

use crate::clock::{later, until};
use crate::compute::compute;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::metrics::{DRIFT, EMPTINESS, MULTI, SINGLE};
use crate::provisioning::pools;
use crate::reconciler::{Action, Backoff, Reconciler, singleton};
use crate::recorder::{Event, ObjectRef};
use patience::Wall;
use pending::{Batch, Pending, Void};
use picture::Picture;
use refused::RefusedCommands;
use start::named;

pub use claim_conditions::ClaimConditions;
pub(crate) use claim_conditions::is_quiet;
pub use podevents::PodEvents;
pub use queue::{Commands, Queue};

const IDLE: Duration = Duration::from_secs(10);
/// So long nothing may have changed before an idle time is cut short.
const SETTLED: Duration = Duration::from_secs(2);
/// Between two looks at what a change has emptied so far.
const LOOK_FOR_EMPTY: Duration = Duration::from_secs(1);
const UNSYNCED: Duration = Duration::from_secs(1);
/// A decision to save money must hold for so long before it is carried out.
const VALIDATION: Duration = Duration::from_secs(15);
/// So many times what budgets allow is decided in one pass: under the default budget, all there is. What has held for long enough
/// then goes as soon as what goes before it is gone; without it, every node would wait for another pass and another validation.
const AHEAD: u32 = 10;
/// For so long a decision waits for its budget, or for what the commands before it move.
const BUDGET: Duration = Duration::from_secs(45);
/// Between two looks whether the budget has room.
const LOOK_FOR_BUDGET: Duration = Duration::from_secs(1);
/// Pools that are neither ready nor not, and classes that are not reconciled, are not waited for any longer than this.
const LOOKED_AT: Duration = Duration::from_secs(10);
/// What was found to be at rest is looked at again after this, whatever changed.
const REST: Duration = Duration::from_mins(5);
/// Longer between two passes than this is worth a line.
const ABNORMAL: Duration = Duration::from_mins(15);

/// The loop. Two passes never overlap: it is a single key.
#[derive(Debug)]
pub struct Disruption {
    commands: Arc<Commands>,
    state: Mutex<State>,
    /// What earlier passes found out: a look at a cluster that has not changed costs next to nothing.
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct State {
    /// What was decided and has to hold for a while.
    pending: Pending,
    rest: Option<Rest>,
    last_pass: Option<Timestamp>,
    idle: Option<Idle>,
    refused: RefusedCommands,
    /// The last command that was begun though it pays only once its later nodes are gone.
    begun: Option<Begun>,
    /// Some node has lost its last pod since anybody looked for empty ones.
    emptied: bool,
    looked_for_empty: Option<Timestamp>,
    /// Since when a node class is not reconciled that somebody edited.
    edited_since: Option<Timestamp>,
}

/// Nothing was left to do, in this state of the cluster.
#[derive(Clone, Debug)]
struct Rest {
    state: u64,
    since: Timestamp,
    /// What keeps the nodes is told again and again, as often as events are.
    told: Arc<[Event]>,
}

/// Nothing to do, until then at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Idle {
    until: Timestamp,
    /// The state of the cluster that was last seen.
    seen: u64,
    /// It has changed since the loop became idle.
    changed: bool,
}

/// The controllers of disruption, sharing their commands.
pub fn reconcilers() -> Vec<Arc<dyn Reconciler>> {
    let commands = Arc::new(Commands::default());
    vec![
        Arc::new(Disruption { commands: commands.clone(), state: Mutex::default(), memory: Arc::default() }),
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

    /// What may give something to do ends an idle time early.
    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        let idle = self.state().idle;
        if idle.is_some() && is_emptied(change, context) {
            self.state().emptied = true;
        }
        let news = idle.is_some_and(|idle| idle.seen != context.index.unsettled());
        if news { vec![singleton()] } else { Vec::new() }
    }

    async fn reconcile(&self, _key: &Key, context: &Context) -> Result<Action> {
        if self.carry_out(context).await? {
            // Pods are about to find other places, after which there is more to be found.
            self.idle(context.index.unsettled(), context);
            return Ok(self.after(SETTLED, context));
        }
        let wait = self.waits(context.index.unsettled(), context.clock.now());
        if let Some(wait) = wait.filter(|_| !self.may_see_empty(context.clock.now())) {
            return Ok(self.after(wait, context));
        }
        self.tell_abnormal(context.clock.now());
        tell::unreadable_budgets(context);
        // Which nodes pods were promised to is known only after they were planned once.
        let early = !context.batcher.has_run() && waits_for_plan(context);
        if !context.is_synced() || early || is_pool_looked_at(context) || self.is_class_looked_at(context) {
            return Ok(self.after(UNSYNCED, context));
        }
        if let Some(wait) = wait {
            self.look_for_empty(context).await;
            return Ok(self.after(wait, context));
        }
        let taken_back = self.take_back_leftovers(context).await;
        self.commands.pause.look(context).await;
        let state = context.index.unsettled();
        self.state().emptied = false;
        let passed = self.pass(context).await?;
        // A node that nobody lets us write to holds up no other.
        taken_back?;
        Ok(match passed {
            Pass::Acted => Action::After(Duration::ZERO),
            Pass::Idle => {
                self.idle(state, context);
                self.after(IDLE, context)
            }
            Pass::Unsynced => self.after(UNSYNCED, context),
        })
    }

    fn concurrency(&self) -> usize {
        1
    }

    /// There is one loop for all pools: what fails about one is no reason to look at the others ever later.
    fn backoff(&self) -> Backoff {
        Backoff { first: UNSYNCED, last: IDLE, ..Backoff::default() }
    }
}

/// What a pass came to.
enum Pass {
    Acted,
    /// There is nothing to do, or what is to be done waits until it has held for a while.
    Idle,
    /// The cluster changed under it.
    Unsynced,
}

impl Disruption {
    fn idle(&self, seen: u64, context: &Context) {
        let until = later(context.clock.now(), IDLE);
        self.state().idle = Some(Idle { until, seen, changed: false });
    }

    /// So much later, or when a command has waited long enough.
    fn after(&self, wait: Duration, context: &Context) -> Action {
        let now = context.clock.now();
        let due = self.state().pending.next_due().map(|due| until(now, due));
        Action::After(due.map_or(wait, |due| due.min(wait)))
    }

    /// Whether a node was emptied while the loop waits for a change to settle. Empty nodes need not wait for that: whatever
    /// becomes of the others, they are worth nothing. Many are not looked at too often.
    fn may_see_empty(&self, now: Timestamp) -> bool {
        let mut own = self.state();
        if !own.emptied || own.looked_for_empty.is_some_and(|at| now < later(at, LOOK_FOR_EMPTY)) {
            return false;
        }
        own.emptied = false;
        own.looked_for_empty = Some(now);
        true
    }

    async fn look_for_empty(&self, context: &Context) {
        let Some(picture) = Picture::take(context, &self.commands).await else { return };
        let (picture, policy) = (Arc::new(picture), self.policy(context));
        let seen = picture.clone();
        let search = move || karpenter_disruption::propose_empty(&seen.snapshot(), &policy);
        let mut commands = compute(context, search).await;
        self.decided(context, &picture, &commands);
        let mut own = self.state();
        own.pending.leave_out_touched(&picture, &mut commands);
        let due = later(context.clock.now(), VALIDATION);
        own.pending.add(Batch::new(due, picture, commands));
    }

    /// Starts what has held for long enough; answers whether anything was started.
    async fn carry_out(&self, context: &Context) -> Result<bool> {
        let due = self.state().pending.take_due(context.clock.now());
        let (mut moved, mut errors) = (false, Vec::new());
        for mut batch in due {
            let (state, now) = (context.index.unsettled(), context.clock.now());
            if batch.seen.replace(state) == Some(state) && now < later(batch.due, BUDGET) {
                batch.again = Some(later(now, LOOK_FOR_BUDGET));
                self.state().pending.add(batch);
                continue;
            }
            let picture = batch.picture.clone();
            let valid = self.validated(context, batch).await;
            let Some((now, valid)) = valid else { continue };
            match self.start_all(context, &picture, &now, &valid).await {
                Ok(started) => moved |= started,
                Err(error) => errors.push(error),
            }
        }
        Error::all(errors)?;
        Ok(moved)
    }

    /// For how long an idle loop still waits: for its time to be over, which begins anew with the first change, or until
    /// nothing has changed for a moment. In the middle of a change nothing worth doing is found, and finding it takes a
    /// while to be confirmed.
    fn waits(&self, state: u64, now: Timestamp) -> Option<Duration> {
        let mut own = self.state();
        let idle = own.idle.as_mut()?;
        if idle.seen != state && !std::mem::replace(&mut idle.changed, true) {
            idle.until = later(now, IDLE);
        }
        let left = until(now, idle.until);
        if !left.is_zero() && idle.seen != state {
            idle.seen = state;
            return Some(left.min(SETTLED));
        }
        let at_rest = own.rest.as_ref().is_some_and(|rest| rest.state == state);
        if !left.is_zero() && at_rest {
            return Some(left);
        }
        own.idle = None;
        None
    }

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

    /// Whether a class was edited a moment ago and is not reconciled yet: what is launched from it fails until it is, and
    /// drift of a pool is not tried again for a minute after that.
    fn is_class_looked_at(&self, context: &Context) -> bool {
        let pools = context.index.node_pools();
        let mut classes = pools.iter().filter_map(|pool| pools::class_of_pool(pool, context));
        let edited = classes.any(|class| pools::is_class_edited(&class));
        let (mut own, now) = (self.state(), context.clock.now());
        own.edited_since = own.edited_since.filter(|_| edited).or(edited.then_some(now));
        own.edited_since.is_some_and(|since| now < later(since, LOOKED_AT))
    }

    async fn pass(&self, context: &Context) -> Result<Pass> {
        if let Some(rest) = self.rest(context.index.unsettled(), context.clock.now()) {
            tell::again(context, &rest.told);
            return Ok(Pass::Idle);
        }
        let Some(picture) = Picture::take(context, &self.commands).await else { return Ok(Pass::Unsynced) };
        let picture = Arc::new(picture);
        protection::tell(context, &picture);
        let proposal = self.propose(context, &picture).await;
        let told = tell::proposal(context, &picture, &proposal);
        scores::rejected(context, &picture, &proposal);
        let now = context.clock.now();
        if proposal.commands.is_empty() && self.state().pending.is_empty() {
            if !depends_on_time(&proposal) && !self.commands.is_drift_waiting(now) {
                self.state().rest = Some(Rest { state: picture.state, since: now, told: told.into() });
            }
            return Ok(Pass::Idle);
        }
        let (at_once, found): (Vec<Command>, Vec<Command>) =
            proposal.commands.into_iter().partition(|command| command.method.reason() == Method::Drift.reason());
        self.wait_with(context, &picture, found).await;
        let drifted = self.still_drifted(context, &picture, at_once).await;
        let Some((now, at_once)) = drifted else { return Ok(Pass::Unsynced) };
        let acted = self.start_all(context, &picture, &now, &at_once).await?;
        Ok(if acted { Pass::Acted } else { Pass::Idle })
    }

    /// What was found waits beside what waits already.
    async fn wait_with(&self, context: &Context, picture: &Arc<Picture>, mut found: Vec<Command>) {
        let now = context.clock.now();
        found.sort_by_key(|command| command.method != Method::Empty);
        let (policy, seen) = (self.policy(context), picture.clone());
        // There is one loop, so nobody misses what is taken out for a moment.
        let mut pending = std::mem::take(&mut self.state().pending);
        let (pending, mut found, void) = compute(context, move || {
            let void = pending.look_again(&policy, &seen, &mut found);
            (pending, found, void)
        })
        .await;
        let mut own = self.state();
        own.pending = pending;
        for Void { picture: decided, command, failed, why } in void {
            own.refused.add(&decided, &command, picture);
            abandon(context, &decided, &command, failed, why);
        }
        let mut probed = BTreeSet::new();
        for command in own.pending.commands() {
            self.commands.may_buy(launches(command), &mut probed, now);
        }
        found.retain(|command| self.commands.may_buy(launches(command), &mut probed, now));
        tell::candidates(context, picture, &found);
        scores::approved(context, picture, &found);
        own.pending.add(Batch::new(later(now, VALIDATION), picture.clone(), found));
    }

    async fn propose(&self, context: &Context, picture: &Arc<Picture>) -> Proposal {
        let began = Instant::now();
        let refused = self.state().refused.still(picture);
        let policy = Policy { refused, ..self.policy(context) };
        let (memory, seen) = (self.memory.clone(), picture.clone());
        let proposal = compute(context, move || look(&memory, &seen.snapshot(), &policy)).await;
        self.decided(context, picture, &proposal.commands);
        context.metrics.choices.searched(self.name(), began.elapsed());
        // All methods share one search.
        for method in [EMPTINESS, DRIFT, MULTI, SINGLE] {
            context.metrics.choices.evaluated(method, began.elapsed());
        }
        proposal
    }

    fn policy(&self, context: &Context) -> Policy {
        let asked = &context.settings.disruption;
        let threshold = asked.threshold.max(context.regret.price(context.clock.now()));
        let (paused, begun) = (self.commands.is_paused(), self.state().begun);
        Policy { paused, threshold, begun, as_scheduled: true, ahead: Some(AHEAD), ..asked.clone() }
    }

    /// The commands that still hold, each as it was decided; of empty nodes those that still are. What budgets have no room
    /// for yet goes on waiting for a while: the nodes that take it up are about to be gone. Nothing while the cluster is not
    /// wholly known.
    async fn validated(&self, context: &Context, batch: Batch) -> Option<(Arc<Picture>, Vec<Command>)> {
        self.commands.pause.look(context).await;
        let now = context.clock.now();
        let Some(picture) = Picture::take(context, &self.commands).await else {
            self.state().pending.add(Batch { again: Some(later(now, UNSYNCED)), ..batch });
            return None;
        };
        let (picture, policy, commands) = (Arc::new(picture), self.policy(context), batch.commands.clone());
        let seen = picture.clone();
        let validated: Vec<Validated> = compute(context, move || {
            let snapshot = seen.snapshot();
            let mut validation = Validation::new(&snapshot, &policy, &commands);
            commands.iter().map(|command| validation.validate(command)).collect()
        })
        .await;
        let (mut valid, mut waiting) = (Vec::new(), Vec::new());
        for (mut command, found) in batch.commands.into_iter().zip(validated) {
            let Validated { held, over_budget, failed, refused } = found;
            // What goes before it changes where pods are, so a command of the same pass may not hold for a moment.
            let may_hold_again = refused == Some(Refusal::Budget) || refused.is_some() && batch.begun;
            if now < later(batch.due, BUDGET) && (may_hold_again || !over_budget.is_empty()) {
                let mut rest = command.clone();
                if refused.is_none() {
                    rest.keep_only(&over_budget);
                }
                waiting.push(rest);
            } else if let Some(why) = refused {
                let full = why == Refusal::Budget && !over_budget.is_empty();
                if full && command.ahead {
                    // That there would be room was only hoped.
                    continue;
                }
                if !full {
                    self.state().refused.add(&batch.picture, &command, &picture);
                }
                abandon(context, &batch.picture, &command, failed, why);
            } else {
                context.metrics.choices.failed_validations(named(command.method), failed);
            }
            if refused.is_none() {
                command.keep_only(&held);
                valid.push(command);
            }
        }
        let (begun, again) = (batch.begun || !valid.is_empty(), Some(later(now, LOOK_FOR_BUDGET)));
        // Each that starts gives the others as long again.
        let due = if valid.is_empty() { batch.due } else { now };
        self.state().pending.add(Batch { commands: waiting, due, again, begun, ..batch });
        Some((picture, valid))
    }

    fn decided(&self, context: &Context, picture: &Picture, commands: &[Command]) {
        if let Some(observe) = context.decision_observer.get().filter(|_| !commands.is_empty()) {
            observe(&picture.snapshot(), &self.policy(context), commands);
        }
    }

    /// Side by side. Those that were started stay started whatever becomes of the others. They were decided in one picture
    /// of the cluster, and last held in another.
    async fn start_all(
        &self,
        context: &Context,
        picture: &Picture,
        held_in: &Picture,
        commands: &[Command],
    ) -> Result<bool> {
        if let Some(observe) = context.start_observer.get().filter(|_| !commands.is_empty()) {
            observe(&held_in.snapshot(), &self.policy(context), commands);
        }
        let mut starts: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(commands.len());
        for command in commands {
            starts.push(Box::pin(self.commands.start(context, picture, command)));
        }
        let results = join_all(starts).await;
        let now = context.clock.now();
        for (command, result) in commands.iter().zip(&results) {
            match (command.method, result) {
                (Method::Multi | Method::Single, Ok(())) => {
                    if command.savings < 0 {
                        let (price, bought) = (picture.price(), command.price_after());
                        let promised = MicroUsd(command.savings_in_all().max(0).unsigned_abs());
                        self.state().begun = Some(Begun { at: now, price, bought, promised });
                    }
                    context.regret.moved(command.moves.iter().map(|moved| &picture.world.pods[moved.pod]), now);
                }
                // What only has to be looked at again is no failure of the pool's replacements.
                (Method::StaticDrift | Method::Drift, Err(error)) if !error.is_stale() => {
                    self.commands.failed(command.candidates.iter().map(|one| Wall::drift(&one.pool)), now);
                }
                _ => {}
            }
        }
        let started = results.iter().any(Result::is_ok);
        Error::all(results.into_iter().filter_map(Result::err).collect())?;
        Ok(started)
    }

    fn tell_abnormal(&self, now: Timestamp) {
        let last = self.state().last_pass.replace(now);
        if let Some(last) = last.filter(|last| now > later(*last, ABNORMAL)) {
            tracing::debug!(name = "disruption-loop", since = %last, "abnormal time between runs");
        }
    }

    fn rest(&self, state: u64, now: Timestamp) -> Option<Rest> {
        self.state().rest.clone().filter(|rest| rest.state == state && now < later(rest.since, REST))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn launches(command: &Command) -> impl Iterator<Item = &Launch> {
    command.replacements.iter().map(|replacement| &replacement.node.launch)
}

fn abandon(context: &Context, picture: &Picture, command: &Command, failed: usize, why: Refusal) {
    context.metrics.choices.failed_validations(named(command.method), failed);
    let method = command.method.label();
    tracing::debug!(method, why = why.label(), "abandoning a disruption attempt, the command is no longer valid");
    tell::rejected(context, picture, command, why);
}

/// Whether nobody who would need another place is left on the node of a pod that came to its end.
fn is_emptied(change: &Change, context: &Context) -> bool {
    let Some(pair) = change.pod() else { return false };
    let stays = |pod: &TrackedPod| karpenter_disruption::pods::is_reschedulable(&pod.pod);
    let ended = pair.new.as_deref().is_none_or(|pod| !stays(pod));
    let node = pair.old.as_deref().filter(|pod| ended && stays(pod)).and_then(|pod| pod.pod.node.clone());
    node.is_some_and(|node| !context.index.pods_on(&node).iter().any(|pod| stays(pod)))
}

/// What can be done is done first; nothing is at rest before every node had its turn.
fn look(memory: &Mutex<Memory>, snapshot: &Snapshot<'_>, policy: &Policy) -> Proposal {
    let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let proposal = karpenter_disruption::propose_again(&mut memory, snapshot, policy);
        if proposal.due == 0 || !proposal.commands.is_empty() {
            return proposal;
        }
    }
}

/// Whether a pool was edited a moment ago and nobody knows yet whether it is ready: replacements of its nodes would be
/// bought from another.
fn is_pool_looked_at(context: &Context) -> bool {
    let now = context.clock.now();
    context.index.node_pools().iter().filter(|pool| context.index.is_managed_pool(pool)).any(|pool| {
        let ready = pool.condition(conditions::READY).filter(|ready| ready.status == "Unknown");
        ready.is_some_and(|ready| now < later(ready.last_transition_time.0, LOOKED_AT))
    })
}

fn waits_for_plan(context: &Context) -> bool {
    context.index.pods().iter().any(|pod| context.index.is_provisionable(&pod.pod))
}

/// Whether waiting alone may change the answer, before anything else says that it changed.
fn depends_on_time(proposal: &Proposal) -> bool {
    let of_time = |reason: &Reason| matches!(reason, Reason::Blocked(Blocked::Nominated) | Reason::Paused { .. });
    proposal.held_back || proposal.nodes.iter().flat_map(|node| &node.reasons).any(of_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest_in(state: u64) -> Rest {
        Rest { state, since: Timestamp::UNIX_EPOCH, told: Arc::from([]) }
    }

    #[test]
    fn an_idle_loop_goes_on_when_a_change_has_settled_and_after_ten_seconds() {
        // covers: DIS-LOOP-05
        let at = |second| Timestamp::from_second(second).unwrap();
        let seconds = Duration::from_secs;
        let disruption = Disruption { commands: Arc::default(), state: Mutex::default(), memory: Arc::default() };
        assert_eq!(disruption.waits(7, at(0)), None, "it is not idle");
        let idle = || Some(Idle { until: at(10), seen: 7, changed: false });
        disruption.state().idle = idle();
        assert_eq!(disruption.waits(8, at(3)), Some(seconds(2)));
        assert_eq!(disruption.waits(9, at(4)), Some(seconds(2)), "still changing");
        assert_eq!(disruption.waits(10, at(12)), Some(seconds(1)));
        assert_eq!(disruption.waits(11, at(13)), None, "for ten seconds at most");
        disruption.state().idle = idle();
        assert_eq!(disruption.waits(8, at(3)), Some(seconds(2)));
        assert_eq!(disruption.waits(8, at(5)), None, "nothing has changed since");
        disruption.state().idle = idle();
        disruption.state().rest = Some(rest_in(7));
        assert_eq!(disruption.waits(7, at(1)), Some(seconds(9)), "woken for nothing");
    }

    /// Hears what one thread says.
    struct Ear(Arc<Mutex<Vec<String>>>);

    impl tracing::field::Visit for Ear {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
            if field.name() == "message" {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        }
    }

    impl tracing::Subscriber for Ear {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut Ear(self.0.clone()));
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn more_than_a_quarter_of_an_hour_between_passes_is_worth_a_line() {
        // covers: DIS-LOOP-10
        let at = |minute: i64| Timestamp::from_second(60 * minute).unwrap();
        let disruption = Disruption { commands: Arc::default(), state: Mutex::default(), memory: Arc::default() };
        let heard = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(Ear(heard.clone()), || {
            for (minute, lines) in [(0, 0), (15, 0), (31, 1), (32, 1), (60, 2)] {
                disruption.tell_abnormal(at(minute));
                assert_eq!(heard.lock().unwrap().len(), lines, "minute {minute}");
            }
        });
        assert!(heard.lock().unwrap().iter().all(|line| line == "abnormal time between runs"));
    }

    #[test]
    fn what_a_budget_or_a_promise_holds_back_is_no_rest() {
        // covers: DIS-CONSOL-02, DIS-SINGLE-06
        let kept = |reason: Reason| {
            let decision = karpenter_disruption::Decision::Keep;
            let (name, price, nearest_miss) = ("n".into(), Default::default(), None);
            karpenter_disruption::NodeDecision { node: 0, name, price, decision, reasons: vec![reason], nearest_miss }
        };
        let of = |held_back, reason| Proposal { nodes: vec![kept(reason)], held_back, ..Proposal::default() };
        let dear = || Reason::NotCheaper { price: Default::default(), cheapest: None };
        assert!(!depends_on_time(&of(false, dear())));
        assert!(depends_on_time(&of(true, dear())));
        assert!(depends_on_time(&of(false, Reason::Blocked(Blocked::Nominated))));
        assert!(depends_on_time(&of(false, Reason::Paused { pool: None })));
    }

    #[test]
    fn rest_ends_when_something_changes_and_after_five_minutes() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let disruption = Disruption { commands: Arc::default(), state: Mutex::default(), memory: Arc::default() };
        assert!(disruption.rest(7, at(0)).is_none());
        disruption.state().rest = Some(rest_in(7));
        assert!(disruption.rest(7, at(299)).is_some());
        assert!(disruption.rest(8, at(1)).is_none());
        assert!(disruption.rest(7, at(300)).is_none());
    }
}
