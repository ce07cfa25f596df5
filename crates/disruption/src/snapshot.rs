//! What decisions are made from, beyond the world that placements are made from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::{InstanceType, MicroUsd, World};

/// A cluster at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot<'w> {
    pub world: &'w World,
    /// By position in `World::nodes`.
    pub nodes: Vec<NodeFacts>,
    /// Every managed NodePool, also static ones and those that cannot launch now.
    pub pools: BTreeMap<Arc<str>, PoolFacts>,
}

/// What disruption wants to know of a node and its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// A command that is under way has it.
    pub in_queue: bool,
    /// Chosen for a pod that is still to come.
    pub nominated: bool,
    /// `karpenter.sh/do-not-disrupt` is exactly `true`: on the Node once registered, on the NodeClaim before.
    pub do_not_disrupt: bool,
    /// The Node's `Ready` condition is `True`.
    pub ready: bool,
    /// The claim's `InstanceTerminating` condition is `True`.
    pub instance_terminating: bool,
    /// When its claim was deleted, if it was.
    pub deleting_since: Option<Timestamp>,
    /// The claim's `Consolidatable` condition is `True`.
    pub consolidatable: bool,
    /// The end of its pool's `consolidateAfter`, counted from its last pod event, or from its initialization. Nothing
    /// where consolidation is switched off or does not wait.
    pub quiet_from: Option<Timestamp>,
    /// The claim's `Drifted` condition is `True`.
    pub drifted: Option<Drifted>,
    /// The claim has a `terminationGracePeriod`: whatever holds the drain, it ends.
    pub bounded_drain: bool,
    /// Room is kept on it for virtual buffer pods.
    pub holds_buffer: bool,
    /// An object that cannot be read: the Node, its claim or pool, or a pod on it whose needs are not known.
    pub unreadable: Option<Arc<str>>,
}

impl NodeFacts {
    /// It had pods come or go lately.
    pub fn is_restless(&self, now: Timestamp) -> bool {
        self.quiet_from.is_some_and(|end| now < end)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drifted {
    pub reason: Arc<str>,
    pub since: Timestamp,
}

impl Default for NodeFacts {
    /// A node that is as it should be, and has been for long enough.
    fn default() -> Self {
        Self {
            in_queue: false,
            nominated: false,
            do_not_disrupt: false,
            ready: true,
            instance_terminating: false,
            deleting_since: None,
            consolidatable: true,
            quiet_from: None,
            drifted: None,
            bounded_drain: false,
            holds_buffer: false,
            unreadable: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFacts {
    /// Has `replicas`.
    pub is_static: bool,
    /// How many nodes more than it has a static pool may have just now, to replace others.
    pub spare: u32,
    pub policy: ConsolidationPolicy,
    /// Nothing for `Never`.
    pub consolidate_after: Option<Duration>,
    pub budgets: Vec<Budget>,
    /// `karpenter.sh/pause-disruption`.
    pub paused: bool,
    /// What its node class can launch; empty while that is not known.
    pub instance_types: Arc<[Arc<InstanceType>]>,
    /// What all its claims cost, where that is kept.
    pub cost: Option<MicroUsd>,
}

impl Default for PoolFacts {
    /// Of a pool that says nothing about disruption.
    fn default() -> Self {
        Self {
            is_static: false,
            spare: 0,
            policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
            consolidate_after: Some(Duration::ZERO),
            budgets: vec![Budget::always("10%")],
            paused: false,
            instance_types: Arc::default(),
            cost: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsolidationPolicy {
    WhenEmpty,
    WhenEmptyOrUnderutilized,
    Balanced,
}

/// One entry of `spec.disruption.budgets`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Nothing: for every reason. An empty list: for none.
    pub reasons: Option<Vec<String>>,
    /// A count, or a percentage.
    pub nodes: String,
    pub schedule: Option<String>,
    pub duration: Option<Duration>,
}

impl Budget {
    /// For every reason, at any time.
    pub fn always(nodes: &str) -> Self {
        Self { reasons: None, nodes: nodes.to_owned(), schedule: None, duration: None }
    }
}

/// A command that validation refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// Its candidates, by name.
    pub nodes: BTreeSet<Arc<str>>,
    pub replacements: usize,
}

/// The last command that was begun though it pays only once its later nodes are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    pub at: Timestamp,
    /// What all nodes cost together at that time.
    pub price: MicroUsd,
    /// What its replacements cost, which come before its nodes go.
    pub bought: MicroUsd,
    /// What it was to save in all.
    pub promised: MicroUsd,
}

/// What operators set, and what the caller knows beside the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Feature gate SpotToSpotConsolidation.
    pub spot_to_spot: bool,
    /// `--consolidation-threshold`: what one unit of disruption (an ordinary pod moved) must save per hour.
    pub threshold: Option<MicroUsd>,
    /// Voluntary disruption is stopped for all pools.
    pub paused: bool,
    /// How many threads may look at candidates. The answer does not depend on it.
    pub threads: usize,
    /// Of more than 400 candidates a pass with a memory looks at so many again that something may have changed for, and
    /// leaves the others to the next one.
    pub patience: usize,
    /// A pass is what kube-scheduler, which knows nothing of it, would find room for as well, and what is worth a risk.
    pub as_scheduled: bool,
    /// Nothing: budgets are what is left of them now. Otherwise emptiness and consolidation decide in one pass about so many
    /// times what budgets allow, whether nodes are going now or not, though no command has more than budgets allow at once.
    /// Units that will not be free soon ([`Allowance::held`](crate::budgets::Allowance)) are left out. The caller validates
    /// each command when its turn has come, and budgets then.
    pub ahead: Option<u32>,
    /// Commands that validation refused while everything they depend on was as it is now: others are looked for.
    pub refused: BTreeSet<Refused>,
    /// Another is begun only where this one came true, so that nothing is bought in advance again and again.
    pub begun: Option<Begun>,
}

impl Default for Policy {
    /// Upstream's defaults.
    fn default() -> Self {
        Self {
            spot_to_spot: false,
            threshold: None,
            paused: false,
            threads: 1,
            patience: 128,
            as_scheduled: false,
            ahead: None,
            refused: BTreeSet::new(),
            begun: None,
        }
    }
}
