//! Which nodes should go, what takes their place, and why the others stay.
//!
//! ```text
//!   Snapshot ─ candidate ─▶ candidates ─ emptiness, drift, consolidation ─▶ Proposal: commands, and a decision per node
//!                               │                    │
//!                            budgets       scheduling::what_if: "these nodes gone, where do their pods go?"
//! ```
//!
//! Pure: the same snapshot and policy give the same proposal, whatever the machine and the thread count. Nothing
//! here writes, waits or reads a clock. Who carries commands out, and checks them again before, is somebody else.

pub mod balanced;
pub mod budgets;
pub mod calm;
pub mod candidate;
pub mod command;
pub mod cost;
pub mod cron;
pub mod decision;
pub mod drift;
pub mod emptiness;
mod memory;
mod miss;
mod pass;
pub mod pods;
mod rules;
mod search;
pub mod snapshot;
mod standing;
mod trial;
pub mod validation;
mod verdicts;
mod words;

pub use candidate::{Blocked, Candidate};
pub use command::{Assumptions, Command, Later, Method, Move, Replacement, Target};
pub use decision::{Decision, Miss, NodeDecision, Reason};
pub use memory::Memory;
pub use snapshot::{Begun, Budget, ConsolidationPolicy, Drifted, NodeFacts, Policy, PoolFacts, Refused, Snapshot};

/// What a pass came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposal {
    /// Independent of each other: each may be carried out, or not, whatever becomes of the rest.
    pub commands: Vec<Command>,
    /// One for every managed node, by name.
    pub nodes: Vec<NodeDecision>,
    /// Some candidate would have been taken but for a budget: time alone may change the answer.
    pub held_back: bool,
    /// So many nodes stay for a reason from before something that may concern them: there is more to be found out, without
    /// anything else having to happen. Only a pass with a memory leaves any.
    pub due: usize,
}

/// One pass over the cluster.
pub fn propose(snapshot: &Snapshot<'_>, policy: &Policy) -> Proposal {
    pass::propose(snapshot, policy)
}

/// The empty nodes that may go, whatever else could be done.
pub fn propose_empty(snapshot: &Snapshot<'_>, policy: &Policy) -> Vec<Command> {
    pass::propose_empty(snapshot, policy)
}

/// As [`propose`], by way of what earlier passes found out. Where more is due than [`Policy::patience`] allows for, the
/// answer is what is known so far; asked until nothing is due, it is the same.
pub fn propose_again(memory: &mut Memory, snapshot: &Snapshot<'_>, policy: &Policy) -> Proposal {
    pass::propose_again(memory, snapshot, policy)
}

#[cfg(test)]
mod tests;
