//! Commands that were decided and have to hold for a while before they are carried out.
//!
//! Each waits its own time. Meanwhile the loop goes on: what a change has made void is dropped as soon as that is known, and
//! nodes that have become empty begin to wait beside the others. Commands that move pods wait for those of the same pool that
//! do: where the pods of those will be is not known before they are there.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_disruption::validation::{Refusal, Validated, Validation};
use karpenter_disruption::{Command, Method, Policy, Target};

use super::picture::Picture;

/// Commands of one pass, and the cluster in which they were found.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) due: Timestamp,
    /// When to look whether budgets have room by now.
    pub(super) again: Option<Timestamp>,
    /// The state of the cluster when that was last looked at.
    pub(super) seen: Option<u64>,
    /// Some commands of the pass are carried out already.
    pub(super) begun: bool,
    pub(super) picture: Arc<Picture>,
    /// Empty nodes first: what they leave behind, the others take as given.
    pub(super) commands: Vec<Command>,
}

impl Batch {
    pub(super) fn new(due: Timestamp, picture: Arc<Picture>, commands: Vec<Command>) -> Self {
        Self { due, again: None, seen: None, begun: false, picture, commands }
    }

    fn next(&self) -> Timestamp {
        self.again.unwrap_or(self.due)
    }
}

/// The batches, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Pending {
    batches: Vec<Batch>,
}

/// A command that does not hold any more.
pub(super) struct Void {
    pub(super) picture: Arc<Picture>,
    pub(super) command: Command,
    /// How many candidates count as failed.
    pub(super) failed: usize,
    pub(super) why: Refusal,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = &Command> {
        self.batches.iter().flat_map(|batch| &batch.commands)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.batches.iter().map(Batch::next).min()
    }

    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<Batch> {
        let (due, waiting) = std::mem::take(&mut self.batches).into_iter().partition(|batch| batch.next() <= now);
        self.batches = waiting;
        due
    }

    pub(super) fn add(&mut self, batch: Batch) {
        if !batch.commands.is_empty() {
            self.batches.push(batch);
        }
    }

    /// Looks at everything in the cluster as it is now. Answers what is void; of what was found anew, `fresh` keeps what
    /// may wait beside the others.
    pub(super) fn look_again(&mut self, policy: &Policy, picture: &Picture, fresh: &mut Vec<Command>) -> Vec<Void> {
        if self.is_empty() {
            return Vec::new();
        }
        self.leave_out_touched(picture, fresh);
        let snapshot = picture.snapshot();
        let mut validation = Validation::new(&snapshot, policy, self.commands().chain(&*fresh));
        let mut void = Vec::new();
        for batch in &mut self.batches {
            for command in std::mem::take(&mut batch.commands) {
                match validation.validate(&command) {
                    // A nominated pod may have come in time, a budget may have room by then; and what was begun changes
                    // for a moment where pods are.
                    Validated { refused: None | Some(Refusal::Budget), .. } => batch.commands.push(command),
                    Validated { refused: Some(_), .. } if batch.begun => batch.commands.push(command),
                    Validated { failed, refused: Some(why), .. } => {
                        void.push(Void { picture: batch.picture.clone(), command, failed, why });
                    }
                }
            }
        }
        self.batches.retain(|batch| !batch.commands.is_empty());
        let moving = self.commands().filter(|command| command.method != Method::Empty);
        let moving: BTreeSet<Arc<str>> =
            moving.flat_map(Command::all_candidates).map(|candidate| candidate.pool.clone()).collect();
        fresh.retain_mut(|command| {
            let validated = validation.validate(command);
            if command.method == Method::Empty {
                // Those that budgets have no room for may wait until they have.
                command.keep_only(&validated.held.union(&validated.over_budget).cloned().collect());
            }
            let waits = command.all_candidates().any(|candidate| moving.contains(&candidate.pool));
            matches!(validated.refused, None | Some(Refusal::Budget)) && (command.method == Method::Empty || !waits)
        });
        void
    }

    /// A node that waits to go, or for pods, is no part of another command.
    pub(super) fn leave_out_touched(&self, picture: &Picture, fresh: &mut Vec<Command>) {
        let names = |picture: &Picture, command: &Command| -> BTreeSet<Arc<str>> {
            let of = |at: usize| picture.world.nodes[at].name.clone();
            let targets = command.moves.iter().filter_map(|to| match to.to {
                Target::Node(at) => Some(of(at)),
                Target::Replacement(_) => None,
            });
            targets.collect()
        };
        let mut leaving: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut receiving: BTreeSet<Arc<str>> = BTreeSet::new();
        for batch in &self.batches {
            for command in &batch.commands {
                leaving.extend(command.candidates.iter().map(|candidate| candidate.name.clone()));
                receiving.extend(names(&batch.picture, command));
            }
        }
        fresh.retain_mut(|command| {
            if command.method == Method::Empty {
                let others = command.candidates.iter().map(|candidate| candidate.name.clone());
                let free = others.filter(|name| !leaving.contains(name) && !receiving.contains(name)).collect();
                command.keep_only(&free);
                return !command.candidates.is_empty();
            }
            let touched = |name: &Arc<str>| leaving.contains(name) || receiving.contains(name);
            !command.candidates.iter().any(|candidate| touched(&candidate.name))
                && !names(picture, command).iter().any(|name| leaving.contains(name))
        });
    }
}
