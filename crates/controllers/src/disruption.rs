//! Taking nodes out of service that are no longer what was asked for, or no longer worth their price.
//!
//! ```text
//!   index ─▶ Picture ─▶ karpenter_disruption::propose ─┬─ drift ───────────────────────┬─▶ start ─▶ queue: wait, delete
//!                                                      └─ empty, consolidation: 15 s, ─┘
//!                                                         then everything looked at again
//! ```
//!
//! One loop, one pass at a time; commands are carried out beside it. What each pass found out about every node is told
//! in events and kept as records.

mod claim_conditions;
mod consolidatable;
pub mod drifted;
mod mark;
mod patience;
mod pause;
mod picture;
mod podevents;
pub mod queue;
pub mod regret;
mod scores;
mod start;
mod tell;
mod validation;
pub mod why;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use jiff::Timestamp;
use karpenter_api::conditions;
use karpenter_core::MicroUsd;
use karpenter_disruption::{Blocked, Command, Memory, Method, Policy, Proposal, Reason, Snapshot};
use karpenter_index::{Change, Key};
use tokio::time::Instant;

use crate::clock::{later, until};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::metrics::{DRIFT, EMPTINESS, MULTI, SINGLE};
use crate::reconciler::{Action, Reconciler, singleton};
use crate::recorder::{Event, ObjectRef};
use patience::Wall;
use picture::Picture;
use start::named;
use validation::{Second, Verdict};

pub use claim_conditions::ClaimConditions;
pub(crate) use claim_conditions::is_quiet;
pub use podevents::PodEvents;
pub use queue::{Commands, Queue};

const IDLE: Duration = Duration::from_secs(10);
/// So long nothing may have changed before an idle time is cut short.
const SETTLED: Duration = Duration::from_secs(2);
const UNSYNCED: Duration = Duration::from_secs(1);
/// A decision to save money must hold for so long before it is carried out.
const VALIDATION: Duration = Duration::from_secs(15);
/// Pools that are neither ready nor not for longer than this are not waited for.
const LOOKED_AT: Duration = Duration::from_secs(10);
/// What was found to be at rest is looked at again after this, whatever changed.
const REST: Duration = Duration::from_mins(5);
/// With more nodes than this only what kube-scheduler finds room for is done: a second look would cost as much again.
const MOST_FOR_RISKS: usize = 400;
/// One in so many dollars of what pods cost must be saved by moving them where there may be no room.
const RISKED_PART: u64 = 2;
/// Longer between two passes than this is worth a line.
const ABNORMAL: Duration = Duration::from_mins(15);

/// The loop. Two passes never overlap: it is a single key.
#[derive(Debug)]
pub struct Disruption {
    commands: Arc<Commands>,
    state: Mutex<State>,
    /// What earlier passes found out: a look at a cluster that has not changed costs next to nothing.
    memory: Mutex<Memory>,
    /// The same, of looks at what is risky.
    risks: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct State {
    rest: Option<Rest>,
    last_pass: Option<Timestamp>,
    idle: Option<Idle>,
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
        Arc::new(Disruption {
            commands: commands.clone(),
            state: Mutex::default(),
            memory: Mutex::default(),
            risks: Mutex::default(),
        }),
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
    fn wake(&self, _change: &Change, context: &Context) -> Vec<Key> {
        let idle = self.state().idle;
        let news = idle.is_some_and(|idle| idle.seen != context.index.unsettled());
        if news { vec![singleton()] } else { Vec::new() }
    }

    async fn reconcile(&self, _key: &Key, context: &Context) -> Result<Action> {
        if let Some(wait) = self.waits(context.index.unsettled(), context.clock.now()) {
            return Ok(Action::After(wait));
        }
        self.tell_abnormal(context.clock.now());
        tell::unreadable_budgets(context);
        // Which nodes pods were promised to is known only after they were planned once.
        let early = !context.batcher.has_run() && waits_for_plan(context);
        if !context.is_synced() || early || is_pool_looked_at(context) {
            return Ok(Action::After(UNSYNCED));
        }
        self.take_back_leftovers(context).await?;
        self.commands.set_paused(pause::is_asked(context).await);
        let state = context.index.unsettled();
        let pass = self.pass(context).await?;
        let idle = Idle { until: later(context.clock.now(), IDLE), seen: state, changed: false };
        Ok(match pass {
            Pass::Acted => Action::After(Duration::ZERO),
            Pass::Moved => {
                self.state().idle = Some(idle);
                Action::After(SETTLED)
            }
            Pass::Idle => {
                self.state().idle = Some(idle);
                Action::After(IDLE)
            }
            Pass::Unsynced => Action::After(UNSYNCED),
        })
    }

    fn concurrency(&self) -> usize {
        1
    }
}

/// What a pass came to.
enum Pass {
    Acted,
    /// Pods are about to find other places, after which there is more to be found.
    Moved,
    Idle,
    /// The cluster changed under it.
    Unsynced,
}

impl Disruption {
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

    async fn pass(&self, context: &Context) -> Result<Pass> {
        if let Some(rest) = self.rest(context.index.unsettled(), context.clock.now()) {
            tell::again(context, &rest.told);
            return Ok(Pass::Idle);
        }
        let Some(picture) = Picture::take(context, &self.commands).await else { return Ok(Pass::Unsynced) };
        let proposal = self.propose(context, &picture);
        let told = tell::proposal(context, &picture, &proposal);
        scores::tell(context, &picture, &proposal);
        if proposal.commands.is_empty() {
            if !depends_on_time(&proposal) {
                self.state().rest = Some(Rest { state: picture.state, since: context.clock.now(), told: told.into() });
            }
            return Ok(Pass::Idle);
        }
        let mut probed = BTreeSet::new();
        let mut commands = proposal.commands;
        let now = context.clock.now();
        commands.retain(|command| {
            let launches = command.replacements.iter().map(|replacement| &replacement.node.launch);
            command.method == Method::Drift || self.commands.may_buy(launches, &mut probed, now)
        });
        let (at_once, later): (Vec<Command>, Vec<Command>) =
            commands.into_iter().partition(|command| command.method == Method::Drift);
        let acted = self.start_all(context, &picture, &at_once).await?;
        let mut moved = false;
        if !later.is_empty() {
            tell::candidates(context, &picture, &later);
            tokio::time::sleep(VALIDATION).await;
            let valid = self.validated(context, &picture, later).await;
            moved = self.start_all(context, &picture, &valid).await?;
        }
        Ok(match (acted, moved) {
            (true, _) => Pass::Acted,
            (false, true) => Pass::Moved,
            (false, false) => Pass::Idle,
        })
    }

    fn propose(&self, context: &Context, picture: &Picture) -> Proposal {
        let asked = &context.settings.disruption;
        let threshold = asked.threshold.max(context.regret.price(context.clock.now()));
        let paused = self.commands.is_paused();
        let began = Instant::now();
        let snapshot = picture.snapshot();
        let sure = Policy { paused, threshold, as_scheduled: true, ..asked.clone() };
        let mut proposal = look(&self.memory, &snapshot, &sure);
        if proposal.commands.is_empty() && picture.world.nodes.len() <= MOST_FOR_RISKS {
            let threshold = threshold.max(Some(risk_worth_taking(picture, &proposal)));
            let bold = Policy { as_scheduled: false, threshold, ..sure };
            proposal = look(&self.risks, &snapshot, &bold);
        }
        // All methods share one search.
        for method in [EMPTINESS, DRIFT, MULTI, SINGLE] {
            context.metrics.choices.evaluated(method, began.elapsed());
        }
        proposal
    }

    /// The commands that still hold, each as it was decided; of empty nodes those that still are.
    async fn validated(&self, context: &Context, picture: &Picture, mut commands: Vec<Command>) -> Vec<Command> {
        // As they were found: what empty nodes leave behind, the others take as given.
        commands.sort_by_key(|command| command.method != Method::Empty);
        self.commands.set_paused(pause::is_asked(context).await);
        let Some(now) = Picture::take(context, &self.commands).await else { return Vec::new() };
        let snapshot = now.snapshot();
        let mut second = Second::look(&snapshot, self.commands.is_paused(), &commands);
        let mut valid = Vec::new();
        for command in commands {
            let Verdict { held, failed, rejected } = second.judge(&command);
            context.metrics.choices.failed_validations(named(command.method), failed);
            if let Some(why) = rejected {
                let method = command.method.label();
                tracing::debug!(
                    method,
                    why = why.label(),
                    "abandoning a disruption attempt, the command is no longer valid"
                );
                tell::rejected(context, picture, &command, &why);
                continue;
            }
            let mut command = command;
            let savings = command.savings;
            let before = command.price_before();
            command.candidates.retain(|candidate| held.contains(&candidate.name));
            command.savings = savings - (before.0 as i64 - command.price_before().0 as i64);
            valid.push(command);
        }
        valid
    }

    /// Side by side. Those that were started stay started whatever becomes of the others.
    async fn start_all(&self, context: &Context, picture: &Picture, commands: &[Command]) -> Result<bool> {
        let mut starts: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(commands.len());
        for command in commands {
            starts.push(Box::pin(self.commands.start(context, picture, command)));
        }
        let results = join_all(starts).await;
        let now = context.clock.now();
        for (command, result) in commands.iter().zip(&results) {
            match (command.method, result) {
                (Method::Multi | Method::Single, Ok(())) => {
                    context.regret.moved(command.moves.iter().map(|moved| &picture.world.pods[moved.pod]), now);
                }
                (Method::Drift, Err(_)) => {
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

/// What kube-scheduler may find no room for is tried if it saves a good part of what the pods that move cost: what has to be
/// bought again then is less.
fn risk_worth_taking(picture: &Picture, proposal: &Proposal) -> MicroUsd {
    let fleet: MicroUsd = proposal.nodes.iter().map(|node| node.price).sum();
    let pods = picture.world.pods.iter().filter(|pod| pod.node.is_some() && !pod.is_daemon()).count();
    MicroUsd(fleet.0 / pods.max(1) as u64 / RISKED_PART)
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
        let disruption = Disruption {
            commands: Arc::default(),
            state: Mutex::default(),
            memory: Mutex::default(),
            risks: Mutex::default(),
        };
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
        let disruption = Disruption {
            commands: Arc::default(),
            state: Mutex::default(),
            memory: Mutex::default(),
            risks: Mutex::default(),
        };
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
        // covers: STATE-30, DIS-EMPTY-06, DIS-MULTI-10
        let at = |second| Timestamp::from_second(second).unwrap();
        let disruption = Disruption {
            commands: Arc::default(),
            state: Mutex::default(),
            memory: Mutex::default(),
            risks: Mutex::default(),
        };
        assert!(disruption.rest(7, at(0)).is_none());
        disruption.state().rest = Some(rest_in(7));
        assert!(disruption.rest(7, at(299)).is_some());
        assert!(disruption.rest(8, at(1)).is_none());
        assert!(disruption.rest(7, at(300)).is_none());
    }
}
