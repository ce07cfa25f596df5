//! What is to be done.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::MicroUsd;
use karpenter_core::plan::NewNode;

use crate::candidate::Candidate;

/// Nodes that go together, what is bought for them first, and where each pod is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub method: Method,
    /// Best savings ratio first.
    pub candidates: Vec<Candidate>,
    pub replacements: Vec<Replacement>,
    pub moves: Vec<Move>,
    /// Millionths of a dollar per hour: the candidates' prices less what the replacements are expected to cost. Only
    /// drift may pay more than before.
    pub savings: i64,
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
