//! Whether what a command saves is worth what it disrupts: the Balanced policy, and the opt-in threshold.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::MicroUsd;

use crate::calm::Calm;
use crate::candidate::{Candidate, Cluster};
use crate::cost;
use crate::decision::Reason;
use crate::snapshot::{ConsolidationPolicy, Policy, Snapshot};

/// A share of savings must be at least this part of the share of disruption.
const K: f64 = 2.0;

/// What a pool costs and what draining all of it would cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    pub cost: f64,
    pub disruption: f64,
}

/// How a move looks to one pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    pub savings_fraction: f64,
    pub disruption_fraction: f64,
}

impl Score {
    pub fn of(savings: f64, disruption: f64, totals: Totals) -> Self {
        if totals.cost <= 0.0 || totals.disruption <= 0.0 {
            return Self { savings_fraction: 0.0, disruption_fraction: 0.0 };
        }
        Self { savings_fraction: savings / totals.cost, disruption_fraction: disruption / totals.disruption }
    }

    pub fn value(self) -> f64 {
        if self.savings_fraction <= 0.0 {
            0.0
        } else if self.disruption_fraction <= 0.0 {
            f64::INFINITY
        } else {
            self.savings_fraction / self.disruption_fraction
        }
    }

    pub fn threshold() -> f64 {
        1.0 / K
    }

    pub fn is_approved(self) -> bool {
        self.value() >= Self::threshold()
    }
}

/// Totals of every pool that has a candidate. `candidates` are all there are, before any method looks at them.
pub fn totals(cluster: &Cluster<'_, '_>, candidates: &[Candidate]) -> BTreeMap<Arc<str>, Totals> {
    totals_of(cluster.snapshot, &cluster.pods_on, candidates.iter())
}

pub(crate) fn totals_of<'c>(
    snapshot: &Snapshot<'_>,
    pods_on: &[Vec<usize>],
    candidates: impl Iterator<Item = &'c Candidate>,
) -> BTreeMap<Arc<str>, Totals> {
    let mut totals: BTreeMap<Arc<str>, Totals> = BTreeMap::new();
    let mut costs: BTreeMap<usize, f64> = BTreeMap::new();
    for candidate in candidates {
        totals.entry(candidate.pool.clone()).or_default().cost += candidate.price.dollars();
        costs.insert(candidate.node, candidate.cost);
    }
    for (index, node) in snapshot.world.nodes.iter().enumerate() {
        let Some(of_pool) = node.pool().and_then(|pool| totals.get_mut(pool)) else { continue };
        let pods = || pods_on[index].iter().map(|pod| &snapshot.world.pods[*pod]);
        let others = || cost::rescheduling(pods().filter(|pod| !pod.is_daemon() && !pod.is_terminal()));
        of_pool.disruption += costs.get(&index).copied().unwrap_or_else(others);
    }
    for (name, of_pool) in &mut totals {
        if let Some(tracked) = snapshot.pools.get(name).and_then(|pool| pool.cost).filter(|cost| cost.0 > 0) {
            of_pool.cost = tracked.dollars();
        }
    }
    totals
}

/// Every Balanced pool that loses a node must find the move worth it; others have no say. Savings are split by each
/// pool's share of what is given up. What moving special pods costs counts for the move and not for the pool, so that
/// nothing passes that the reference would refuse.
pub fn refusal(
    snapshot: &Snapshot<'_>,
    totals: &BTreeMap<Arc<str>, Totals>,
    calm: &Calm,
    candidates: &[&Candidate],
    savings: f64,
) -> Option<Reason> {
    let price = |of: &[&Candidate]| of.iter().map(|candidate| candidate.price.dollars()).sum::<f64>();
    let whole = price(candidates);
    let mut by_pool: BTreeMap<&Arc<str>, Vec<&Candidate>> = BTreeMap::new();
    candidates.iter().for_each(|candidate| by_pool.entry(&candidate.pool).or_default().push(candidate));
    for (name, of_pool) in &by_pool {
        if snapshot.pools[*name].policy != ConsolidationPolicy::Balanced {
            continue;
        }
        let share = if whole > 0.0 && by_pool.len() > 1 { price(of_pool) / whole } else { 1.0 };
        let disruption = of_pool.iter().map(|candidate| candidate.cost + calm.extra(candidate, snapshot.world)).sum();
        let score = Score::of(savings * share, disruption, totals.get(*name).copied().unwrap_or_default());
        if !score.is_approved() {
            let pool = (*name).clone();
            return Some(Reason::Score { pool, score: score.value(), threshold: Score::threshold() });
        }
    }
    None
}

/// What a command must save at least, where operators have put a price on disruption.
pub fn priced_at(snapshot: &Snapshot<'_>, policy: &Policy, calm: &Calm, candidates: &[&Candidate]) -> Option<MicroUsd> {
    let unit = policy.threshold?;
    let trouble = |candidate: &&Candidate| candidate.cost - cost::BASE + calm.extra(candidate, snapshot.world);
    let moved: f64 = candidates.iter().map(trouble).sum();
    Some(MicroUsd((unit.0 as f64 * moved).round() as u64))
}
