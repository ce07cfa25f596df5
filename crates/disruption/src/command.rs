//! What is to be done.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::MicroUsd;
use karpenter_core::plan::NewNode;

use crate::candidate::Candidate;
use crate::snapshot::Refused;

/// Nodes that go together, what is bought for them first, and where each pod is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub method: Method,
    /// Best savings ratio first.
    pub candidates: Vec<Candidate>,
    pub replacements: Vec<Replacement>,
    pub moves: Vec<Move>,
    /// Millionths of a dollar per hour: the candidates' prices less what the replacements are expected to cost. Only
    /// drift may pay more than before, and what goes on in later passes until then.
    pub savings: i64,
    /// Nodes that go for the same replacements, as soon as budgets let them. Nothing happens to them now: with the
    /// replacements there, later passes find that they can simply go.
    pub later: Later,
    pub assumes: Assumptions,
    /// Budgets have no room for it yet: decided in advance ([`Policy::ahead`](crate::Policy)).
    pub ahead: bool,
}

/// What budgets leave of a command for later passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Later {
    pub candidates: Vec<Candidate>,
    pub moves: Vec<Move>,
}

impl Later {
    /// Once they are gone.
    pub fn savings(&self) -> i64 {
        self.candidates.iter().map(|candidate| candidate.price.0 as i64).sum()
    }
}

/// What a command was decided under beside the snapshot. Validation decides under the same, or it would place pods elsewhere
/// and refuse the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// Nodes, by name, that later passes are to remove: they take no pods, so that those are not moved again.
    pub closed: Arc<[Arc<str>]>,
    /// Nodes that are empty or drifted and go before it: they take no pods either, as long as they are that.
    pub going: Arc<[Arc<str>]>,
    /// Pending pods are placed together with the pods that move, rather than before them.
    pub with_pending: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// As a plan has it. Positions are those of the world the command was made from.
    pub node: NewNode,
    pub pool: Arc<str>,
    /// The names of `node.instance_types`: what a later look is compared with.
    pub instance_types: Arc<[Arc<str>]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Empty,
    /// Of a node of a static pool, which gets another like it whatever its pods need.
    StaticDrift,
    Drift,
    Multi,
    Single,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// In `World::pods`.
    pub pod: usize,
    pub to: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// In `World::nodes`.
    Node(usize),
    /// In [`Command::replacements`].
    Replacement(usize),
}

impl Method {
    /// The disruption reason, as budgets and conditions name it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::StaticDrift | Self::Drift => "Drifted",
            Self::Multi | Self::Single => "Underutilized",
        }
    }

    /// As metrics and `plan` name it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::StaticDrift | Self::Drift => "drift",
            Self::Multi => "multi",
            Self::Single => "single",
        }
    }
}

impl Refused {
    pub fn of(command: &Command) -> Self {
        let nodes = command.candidates.iter().map(|candidate| candidate.name.clone()).collect();
        Self { nodes, replacements: command.replacements.len() }
    }
}

impl Command {
    /// `replace` or `delete`.
    pub fn decision(&self) -> &'static str {
        if self.buys() { "replace" } else { "delete" }
    }

    /// Whether new nodes come first. What a static pool gets is not planned: it is what its template says.
    pub fn buys(&self) -> bool {
        self.method == Method::StaticDrift || !self.replacements.is_empty()
    }

    pub fn price_before(&self) -> MicroUsd {
        self.candidates.iter().map(|candidate| candidate.price).sum()
    }

    /// Once the nodes that follow are gone too.
    pub fn savings_in_all(&self) -> i64 {
        self.savings + self.later.savings()
    }

    /// Those that go now, and those that go later.
    pub fn all_candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().chain(&self.later.candidates)
    }

    /// The others stay. Only of empty nodes some may go without the rest.
    pub fn keep_only(&mut self, names: &BTreeSet<Arc<str>>) {
        let before = self.price_before();
        self.candidates.retain(|candidate| names.contains(&candidate.name));
        self.savings -= before.0 as i64 - self.price_before().0 as i64;
    }

    pub fn price_after(&self) -> MicroUsd {
        self.replacements.iter().map(|replacement| replacement.node.launch.price).sum()
    }
}
