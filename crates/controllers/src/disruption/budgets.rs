//! How many nodes of a pool may be disrupted now.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_api::conditions::{self, Status};
use karpenter_api::nodepool::Budget;
use karpenter_core::labels::NODEPOOL;
use karpenter_index::Machine;

use karpenter_disruption::cron::Schedule;

/// No budget says anything.
pub const UNLIMITED: u32 = i32::MAX as u32;

/// A pool and a reason: what budgets allow, and what is already taken of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Nodes that count.
    pub nodes: u32,
    /// Before anything is taken.
    pub allowed: u32,
    /// Nodes that are being disrupted, or not ready, for whatever reason.
    pub consumed: u32,
}

impl Allowance {
    pub fn left(self) -> u32 {
        self.allowed.saturating_sub(self.consumed)
    }
}

/// The allowances of all pools for a reason, by name. A pool whose budgets cannot be read allows nothing.
pub fn allowances(
    pools: &[std::sync::Arc<NodePool>],
    machines: &[Machine],
    reason: &str,
    now: Timestamp,
) -> BTreeMap<String, Allowance> {
    let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (pool, disrupted) in machines.iter().filter_map(counted) {
        let (nodes, consumed) = counts.entry(pool).or_default();
        *nodes += 1;
        *consumed += u32::from(disrupted);
    }
    let of = |pool: &std::sync::Arc<NodePool>| {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let (nodes, consumed) = counts.get(name.as_str()).copied().unwrap_or_default();
        let allowed = allowed(pool, nodes, reason, now).unwrap_or(0);
        (name, Allowance { nodes, allowed, consumed })
    };
    pools.iter().map(of).collect()
}

/// The pool of a node that counts, and whether it takes from the budget: managed, initialized, and not already given
/// back to the cloud.
fn counted(machine: &Machine) -> Option<(&str, bool)> {
    let (claim, node) = (machine.claim.as_ref()?, machine.node.as_ref()?);
    let reduced = machine.reduced.as_ref().filter(|reduced| reduced.is_managed() && reduced.is_initialized())?;
    if claim.condition_status(conditions::INSTANCE_TERMINATING) == Status::True {
        return None;
    }
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    Some((reduced.labels.get(NODEPOOL)?, !ready || reduced.deleting))
}

/// The least that any budget for the reason allows. One budget that cannot be read spoils all.
pub fn allowed(pool: &NodePool, nodes: u32, reason: &str, now: Timestamp) -> Result<u32, String> {
    let mut least = UNLIMITED;
    for (position, budget) in pool.spec.disruption.budgets.iter().enumerate() {
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
    let length = budget.duration.as_ref().map(karpenter_api::GoDuration::to_std).unwrap_or_default();
    let from = now.checked_sub(length).unwrap_or(Timestamp::MIN);
    Ok(schedule.hits_between(from, now))
}

#[cfg(test)]
mod tests;
