//! What became of each node, as data: events, logs and `plan` make their words from it.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::MicroUsd;

use crate::candidate::Blocked;

#[derive(Clone, Debug, PartialEq)]
pub struct NodeDecision {
    /// In `World::nodes`.
    pub node: usize,
    pub name: Arc<str>,
    pub price: MicroUsd,
    pub decision: Decision,
    /// Everything that keeps it, most telling first; empty for a node that goes.
    pub reasons: Vec<Reason>,
    pub nearest_miss: Option<Miss>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// By a command, in [`crate::Proposal::commands`].
    Disrupt {
        command: usize,
    },
    Keep,
}

/// Why a node stays.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It is no candidate for anything.
    Blocked(Blocked),
    /// Voluntary disruption is paused, for its pool or for all.
    Paused {
        pool: Option<Arc<str>>,
    },
    StaticPool {
        pool: Arc<str>,
    },
    UnknownInstanceType {
        name: String,
    },
    MissingLabel {
        label: &'static str,
    },
    /// `consolidateAfter: Never`.
    ConsolidationDisabled {
        pool: Arc<str>,
    },
    /// `consolidationPolicy: WhenEmpty`, and it is not.
    OnlyWhenEmpty {
        pool: Arc<str>,
        pods: usize,
    },
    /// `consolidateAfter` has not passed since the last pod came or went.
    NotYetQuiet {
        until: Option<Timestamp>,
    },
    HoldsBuffer,
    /// The pool's budget for the reason is used up.
    Budget {
        pool: Arc<str>,
        reason: &'static str,
        allowed: u32,
        consumed: u32,
    },
    /// Its static pool has as many nodes as it may, or more than it should.
    NoSpareNode {
        pool: Arc<str>,
    },
    /// Without it this pod has no place.
    PodHasNoPlace {
        pod: String,
        why: Option<karpenter_core::plan::Reason>,
    },
    /// Its pods would have to go to a node that is not ready for them.
    TargetNotReady {
        pod: String,
        node: Arc<str>,
    },
    /// Its pods need a new node, and none is cheaper. `cheapest` is the worst price of the cheapest that would do.
    NotCheaper {
        price: MicroUsd,
        cheapest: Option<MicroUsd>,
    },
    /// Only nodes of the type and capacity type it already has would do.
    SameType {
        instance_type: String,
    },
    /// What is cheaper is too little for the pool's minValues.
    MinValues {
        keys: Vec<Arc<str>>,
    },
    /// A spot node is replaced by spot only with the feature gate.
    SpotToSpotDisabled,
    /// And only with this many cheaper types to choose from.
    SpotToSpotFlexibility {
        found: usize,
        wanted: usize,
    },
    /// The pool's Balanced policy weighs savings against disruption.
    Score {
        pool: Arc<str>,
        score: f64,
        threshold: f64,
    },
    /// What it saves is less than its disruption is priced at.
    NotWorthIt {
        savings: MicroUsd,
        priced_at: MicroUsd,
    },
    /// It could go alone, but not together with the commands of this pass.
    NotWithOthers {
        savings: MicroUsd,
    },
    /// Its pods would fit where they were put, but not where kube-scheduler is likely to put them.
    NotAsScheduled {
        savings: MicroUsd,
    },
    /// A command of this pass moves pods onto it.
    ReceivesPods {
        command: usize,
    },
}

/// The one thing that would have to be different, where there is such a thing.
#[derive(Clone, Debug, PartialEq)]
pub enum Miss {
    /// It goes when this time has come.
    At(Timestamp),
    /// It goes when its pool's budget has another unit.
    Budget { pool: Arc<str>, reason: &'static str, from: u32, to: u32 },
    /// It goes when this PodDisruptionBudget allows one eviction.
    PodDisruptionBudget { name: String },
    /// It goes without the annotation on this object.
    Annotation { object: String },
    /// It goes when a node that holds its pods costs less than this.
    Price { below: MicroUsd, cheapest: MicroUsd },
    /// It goes when a unit of disruption may cost no more than this.
    Threshold { from: MicroUsd, to: MicroUsd },
    /// It goes when the feature gate is on.
    SpotToSpot,
    /// It goes when this pod is gone or can go elsewhere.
    Pod { pod: String },
}
