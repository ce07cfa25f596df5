//! Nodes on which nothing runs that is worth moving.

use std::collections::BTreeMap;

use karpenter_api::conditions::{self, Status};

use super::budgets::Allowance;
use super::candidate::{Candidate, sort};

/// Whether the method looks at a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    Yes,
    No,
    /// Consolidation is switched off, which people should know.
    Disabled,
}

pub fn interest(candidate: &Candidate) -> Interest {
    if candidate.pool.spec.replicas.is_some() {
        return Interest::No;
    }
    if candidate.pool.spec.disruption.consolidate_after.duration().is_none() {
        return Interest::Disabled;
    }
    let quiet = candidate.claim.condition_status(conditions::CONSOLIDATABLE) == Status::True;
    if candidate.is_empty() && quiet { Interest::Yes } else { Interest::No }
}

/// What a pass chose.
#[derive(Debug)]
pub struct Choice {
    pub chosen: Vec<Candidate>,
    /// Some candidate was left out for want of budget: it may go later though nothing changes.
    pub held_back: bool,
}

/// All that fit their pools' budgets, best savings first, each taking one unit.
pub fn choose(mut candidates: Vec<Candidate>, allowances: &BTreeMap<String, Allowance>) -> Choice {
    sort(&mut candidates);
    let mut left: BTreeMap<String, u32> = allowances.iter().map(|(pool, a)| (pool.clone(), a.left())).collect();
    let mut choice = Choice { chosen: Vec::new(), held_back: false };
    for candidate in candidates {
        match left.get_mut(candidate.pool_name()).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                choice.chosen.push(candidate);
            }
            None => choice.held_back = true,
        }
    }
    choice
}

/// What is left of a command.
#[derive(Debug)]
pub struct Valid {
    pub chosen: Vec<Candidate>,
    /// How many count as failed: all of them when none is a candidate any more, otherwise those that budgets hold back.
    pub failed: usize,
}

/// Those of a command that are still as they were: candidates now, and within today's budgets.
pub fn still_valid(proposed: &[Candidate], now: Vec<Candidate>, allowances: &BTreeMap<String, Allowance>) -> Valid {
    let was_proposed = |candidate: &Candidate| proposed.iter().any(|other| other.id == candidate.id);
    let still: Vec<Candidate> = now.into_iter().filter(was_proposed).collect();
    let candidates = still.len();
    let chosen = choose(still, allowances).chosen;
    let failed = if candidates == 0 { proposed.len() } else { candidates - chosen.len() };
    Valid { chosen, failed }
}

#[cfg(test)]
mod tests;
