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
use karpenter_disruption::{Blocked, Command, Memory, Method, Policy, Proposal, Reason};
use karpenter_index::{Change, Key};
use tokio::time::Instant;

use crate::clock::later;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::metrics::{DRIFT, EMPTINESS, MULTI, SINGLE};
use crate::reconciler::{Action, Reconciler, singleton};
use crate::recorder::ObjectRef;
use patience::Wall;
use picture::Picture;
use start::named;
use validation::{Second, Verdict};

pub use claim_conditions::ClaimConditions;
pub use podevents::PodEvents;
pub use queue::{Commands, Queue};

const IDLE: Duration = Duration::from_secs(10);
const UNSYNCED: Duration = Duration::from_secs(1);
/// A decision to save money must hold for so long before it is carried out.
const VALIDATION: Duration = Duration::from_secs(15);
/// What was found to be at rest is looked at again after this, whatever changed.
const REST: Duration = Duration::from_mins(5);
/// Longer between two passes than this is worth a line.
const ABNORMAL: Duration = Duration::from_mins(15);

/// The loop. Two passes never overlap: it is a single key.
#[derive(Debug)]
pub struct Disruption {
    commands: Arc<Commands>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    memory: Memory,
    /// When nothing was left to do, and for which state of the cluster.
    rest: Option<(u64, Timestamp)>,
    last_pass: Option<Timestamp>,
}

/// The controllers of disruption, sharing their commands.
pub fn reconcilers() -> Vec<Arc<dyn Reconciler>> {
    let commands = Arc::new(Commands::default());
    vec![
        Arc::new(Disruption { commands: commands.clone(), state: Mutex::default() }),
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
        self.tell_abnormal(context.clock.now());
        tell::unreadable_budgets(context);
        if !context.is_synced() {
            return Ok(Action::After(UNSYNCED));
        }
        self.take_back_leftovers(context).await?;
        self.commands.set_paused(pause::is_asked(context).await);
        Ok(match self.pass(context).await? {
            Pass::Acted => Action::After(Duration::ZERO),
            Pass::Idle => Action::After(IDLE),
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
    Idle,
    /// The cluster changed under it.
    Unsynced,
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

    async fn pass(&self, context: &Context) -> Result<Pass> {
        if self.is_at_rest(context.index.unsettled(), context.clock.now()) {
            return Ok(Pass::Idle);
        }
        let Some(picture) = Picture::take(context, &self.commands).await else { return Ok(Pass::Unsynced) };
        let proposal = self.propose(context, &picture);
        tell::proposal(context, &picture, &proposal);
        if proposal.commands.is_empty() {
            if !depends_on_time(&proposal) {
                self.state().rest = Some((picture.state, context.clock.now()));
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
        let mut acted = self.start_all(context, &picture, &at_once).await?;
        if !later.is_empty() {
            tell::candidates(context, &picture, &later);
            tokio::time::sleep(VALIDATION).await;
            let valid = self.validated(context, &picture, later).await;
            acted |= self.start_all(context, &picture, &valid).await?;
        }
        Ok(if acted { Pass::Acted } else { Pass::Idle })
    }

    fn propose(&self, context: &Context, picture: &Picture) -> Proposal {
        let policy = Policy { paused: self.commands.is_paused(), ..context.settings.disruption.clone() };
        let mut memory = std::mem::take(&mut self.state().memory);
        let began = Instant::now();
        let proposal = karpenter_disruption::propose(&picture.snapshot(), &policy, &mut memory);
        // All methods share one search.
        for method in [EMPTINESS, DRIFT, MULTI, SINGLE] {
            context.metrics.choices.evaluated(method, began.elapsed());
        }
        self.state().memory = memory;
        proposal
    }

    /// The commands that still hold, each as it was decided; of empty nodes those that still are.
    async fn validated(&self, context: &Context, picture: &Picture, commands: Vec<Command>) -> Vec<Command> {
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
        for (command, _) in commands.iter().zip(&results).filter(|(_, result)| result.is_err()) {
            if command.method == Method::Drift {
                self.commands.failed(command.candidates.iter().map(|one| Wall::drift(&one.pool)), now);
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

    fn is_at_rest(&self, state: u64, now: Timestamp) -> bool {
        let rest = self.state().rest;
        rest.is_some_and(|(then, at)| then == state && now < later(at, REST))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether waiting alone may change the answer, before anything else says that it changed.
fn depends_on_time(proposal: &Proposal) -> bool {
    let of_time = |reason: &Reason| matches!(reason, Reason::Blocked(Blocked::Nominated) | Reason::Paused { .. });
    proposal.held_back || proposal.nodes.iter().flat_map(|node| &node.reasons).any(of_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_ends_when_something_changes_and_after_five_minutes() {
        // covers: STATE-30, DIS-EMPTY-06, DIS-MULTI-10
        let at = |second| Timestamp::from_second(second).unwrap();
        let disruption = Disruption { commands: Arc::default(), state: Mutex::default() };
        assert!(!disruption.is_at_rest(7, at(0)));
        disruption.state().rest = Some((7, at(0)));
        assert!(disruption.is_at_rest(7, at(299)));
        assert!(!disruption.is_at_rest(8, at(1)));
        assert!(!disruption.is_at_rest(7, at(300)));
    }
}
