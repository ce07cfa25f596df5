//! What a pass goes by: the snapshot, what operators set, and what was counted once for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::MicroUsd;
use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_core::plan::NewNode;

use crate::balanced::Totals;
use crate::calm::Calm;
use crate::candidate::{Candidate, Cluster};
use crate::command::Replacement;
use crate::decision::Reason;
use crate::snapshot::{ConsolidationPolicy, Policy, Refused, Snapshot};

pub(crate) struct Rules<'s, 'w> {
    pub(crate) snapshot: &'s Snapshot<'w>,
    pub(crate) policy: &'s Policy,
    pub(crate) totals: BTreeMap<Arc<str>, Totals>,
    /// Looked for only where anybody weighs disruption.
    pub(crate) calm: Calm,
    /// What kube-scheduler may find no room for is tried where it saves so much for each pod that moves.
    pub(crate) risk: Option<MicroUsd>,
    /// What all nodes cost together.
    pub(crate) price: MicroUsd,
    /// How many nodes of a pool one command of consolidation may have.
    pub(crate) most: BTreeMap<Arc<str>, u32>,
    /// Commands that are not to be found again.
    pub(crate) refused: BTreeSet<Refused>,
}

impl Rules<'_, '_> {
    pub(crate) fn label(&self, candidate: &Candidate, key: &str) -> Option<&str> {
        self.snapshot.world.nodes[candidate.node].labels.get(key).map(String::as_str)
    }

    /// Totals of the pools that weigh savings against them.
    pub(crate) fn weighing(&self) -> BTreeMap<Arc<str>, Totals> {
        let balanced = |name: &Arc<str>| {
            self.snapshot.pools.get(name).is_some_and(|pool| pool.policy == ConsolidationPolicy::Balanced)
        };
        self.totals.iter().filter(|(name, _)| balanced(name)).map(|(name, of)| (name.clone(), *of)).collect()
    }

    pub(crate) fn replacement(&self, node: NewNode) -> Replacement {
        let pool = &self.snapshot.world.pools[node.pool];
        let instance_types = node.instance_types.iter().map(|kind| pool.instance_types[*kind].name.clone()).collect();
        Replacement { pool: pool.name.clone(), instance_types, node }
    }
}

/// Whether consolidation looks at a candidate; where it does not, what people should know.
pub(crate) fn consolidatable(
    cluster: &Cluster<'_, '_>,
    policy: &Policy,
    candidate: &Candidate,
) -> Result<(), Option<Reason>> {
    let snapshot = cluster.snapshot;
    let (pool, facts) = (&snapshot.pools[&candidate.pool], &snapshot.nodes[candidate.node]);
    let (name, labels) = (candidate.pool.clone(), &snapshot.world.nodes[candidate.node].labels);
    if pool.is_static {
        return Err(Some(Reason::StaticPool { pool: name }));
    }
    if policy.paused || pool.paused {
        return Err(Some(Reason::Paused { pool: pool.paused.then_some(name) }));
    }
    if cluster.instance_type(labels).is_none() {
        let name = labels.get(INSTANCE_TYPE).cloned().unwrap_or_default();
        return Err(Some(Reason::UnknownInstanceType { name }));
    }
    if let Some(label) = [CAPACITY_TYPE, ZONE].into_iter().find(|label| !labels.contains_key(*label)) {
        return Err(Some(Reason::MissingLabel { label }));
    }
    if pool.consolidate_after.is_none() {
        return Err(Some(Reason::ConsolidationDisabled { pool: name }));
    }
    if candidate.is_empty() {
        return Err(None);
    }
    if pool.policy == ConsolidationPolicy::WhenEmpty {
        return Err(Some(Reason::OnlyWhenEmpty { pool: name, pods: candidate.pods.len() }));
    }
    match facts.consolidatable {
        true => Ok(()),
        false => Err(Some(Reason::NotYetQuiet { until: facts.quiet_from })),
    }
}
