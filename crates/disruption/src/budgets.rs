//! How many nodes of a pool may be disrupted now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustc_hash::FxHashMap;

use crate::cron::Schedule;
use crate::snapshot::{Budget, PoolFacts, Snapshot};

/// No budget says anything.
pub const UNLIMITED: u32 = i32::MAX as u32;
/// A node that has been going for longer is held by something, and may be for hours.
const LONG_DRAIN: Duration = Duration::from_mins(2);

/// A pool and a reason: what budgets allow, and what is already taken of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Nodes that count.
    pub nodes: u32,
    /// Before anything is taken.
    pub allowed: u32,
    /// Nodes that are being disrupted, or not ready, for whatever reason.
    pub consumed: u32,
    /// Those of them that may stay so for long: not ready and not going, or going for minutes already.
    pub held: u32,
}

impl Allowance {
    pub fn left(self) -> u32 {
        self.allowed.saturating_sub(self.consumed)
    }

    /// What is left once the nodes that are about to be gone are gone.
    pub fn left_soon(self) -> u32 {
        self.allowed.saturating_sub(self.held)
    }
}

/// The allowances of all pools for a reason, by name. A pool whose budgets cannot be read allows nothing.
pub fn allowances(snapshot: &Snapshot<'_>, reason: &str) -> BTreeMap<Arc<str>, Allowance> {
    of_pools(snapshot, &counts(snapshot), reason)
}

/// As [`allowances`] for each of these reasons.
pub(crate) fn of_each(
    snapshot: &Snapshot<'_>,
    reasons: &[&'static str],
) -> BTreeMap<&'static str, BTreeMap<Arc<str>, Allowance>> {
    let counts = counts(snapshot);
    reasons.iter().map(|reason| (*reason, of_pools(snapshot, &counts, reason))).collect()
}

/// By pool: nodes that count, those that are being disrupted or not ready, and those of them that may stay so.
fn counts<'w>(snapshot: &Snapshot<'w>) -> FxHashMap<&'w str, (u32, u32, u32)> {
    let now = snapshot.world.now;
    let long = |since: Timestamp| since.checked_add(LONG_DRAIN).is_ok_and(|end| end <= now);
    let mut counts: FxHashMap<&str, (u32, u32, u32)> = FxHashMap::default();
    for (node, facts) in snapshot.world.nodes.iter().zip(&snapshot.nodes) {
        let counted = node.is_managed() && node.is_initialized() && node.has_node && !facts.instance_terminating;
        if let Some(pool) = node.pool().filter(|_| counted) {
            let (nodes, consumed, held) = counts.entry(pool).or_default();
            let is_held = if node.deleting { facts.deleting_since.is_some_and(long) } else { !facts.ready };
            *nodes += 1;
            *consumed += u32::from(!facts.ready || node.deleting);
            *held += u32::from(is_held);
        }
    }
    counts
}

fn of_pools(
    snapshot: &Snapshot<'_>,
    counts: &FxHashMap<&str, (u32, u32, u32)>,
    reason: &str,
) -> BTreeMap<Arc<str>, Allowance> {
    let of = |(name, pool): (&Arc<str>, &PoolFacts)| {
        let (nodes, consumed, held) = counts.get(&**name).copied().unwrap_or_default();
        let allowed = allowed(&pool.budgets, nodes, reason, snapshot.world.now).unwrap_or(0);
        (name.clone(), Allowance { nodes, allowed, consumed, held })
    };
    snapshot.pools.iter().map(of).collect()
}

/// The least that any budget for the reason allows. One budget that cannot be read spoils all.
pub fn allowed(budgets: &[Budget], nodes: u32, reason: &str, now: Timestamp) -> Result<u32, String> {
    let mut least = UNLIMITED;
    for (position, budget) in budgets.iter().enumerate() {
        let allows = allows(budget, nodes, now).map_err(|why| format!("spec.disruption.budgets[{position}]: {why}"))?;
        // Without a list a budget is for every reason; with an empty one, for none.
        if budget.reasons.as_ref().is_none_or(|reasons| reasons.iter().any(|listed| listed == reason)) {
            least = least.min(allows);
        }
    }
    Ok(least)
}

fn allows(budget: &Budget, nodes: u32, now: Timestamp) -> Result<u32, String> {
    if !is_active(budget, now)? {
        return Ok(UNLIMITED);
    }
    let wrong = || format!("nodes: {:?} is neither a count nor a percentage", budget.nodes);
    match budget.nodes.strip_suffix('%') {
        None => budget.nodes.parse().map_err(|_| wrong()),
        Some(percent) => {
            let percent: u32 = percent.parse().map_err(|_| wrong())?;
            let exact = u64::from(percent) * u64::from(nodes);
            u32::try_from(exact.div_ceil(100)).map_err(|_| wrong())
        }
    }
}

/// A budget with a schedule holds for its duration from each hit on.
fn is_active(budget: &Budget, now: Timestamp) -> Result<bool, String> {
    if budget.schedule.is_none() && budget.duration.is_none() {
        return Ok(true);
    }
    let schedule = Schedule::parse(budget.schedule.as_deref().unwrap_or_default())?;
    let from = now.checked_sub(budget.duration.unwrap_or_default()).unwrap_or(Timestamp::MIN);
    Ok(schedule.hits_between(from, now))
}
