//! One pass: who goes, and a decision for every managed node.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budgets::{self, Allowance};
use crate::candidate::{self, Candidate, Class, Cluster};
use crate::command::{Command, Method};
use crate::decision::{Decision, NodeDecision, Reason};
use crate::memory::Memory;
use crate::snapshot::{Policy, Snapshot};
use crate::{Proposal, emptiness};

pub(crate) fn propose(snapshot: &Snapshot<'_>, policy: &Policy, _memory: &mut Memory) -> Proposal {
    let mut cluster = Cluster::new(snapshot);
    let mut nodes = BTreeMap::new();
    let mut empty = Vec::new();
    for (index, node) in snapshot.world.nodes.iter().enumerate().filter(|(_, node)| node.is_managed()) {
        let mut reasons = Vec::new();
        let candidate = cluster.candidate(index, Class::Graceful);
        match candidate {
            Err(why) => reasons.push(Reason::Blocked(why)),
            Ok(candidate) => match emptiness::judge(&candidate, snapshot, policy) {
                emptiness::Interest::Yes => empty.push(candidate),
                emptiness::Interest::No(why) => reasons.extend(why),
            },
        }
        let price = cluster.price(&node.labels);
        let (name, decision) = (node.name.clone(), Decision::Keep);
        nodes.insert(
            node.name.clone(),
            NodeDecision { node: index, name, price, decision, reasons, nearest_miss: None },
        );
    }
    let allowances = budgets::allowances(snapshot, Method::Empty.reason());
    let (chosen, held_back) = within(empty, &allowances);
    let mut proposal = Proposal { commands: Vec::new(), nodes: Vec::new(), held_back: !held_back.is_empty() };
    for candidate in held_back {
        let of = allowances.get(&candidate.pool).copied();
        let (allowed, consumed) = of.map_or((0, 0), |of| (of.allowed, of.consumed));
        let reason = Reason::Budget { pool: candidate.pool, reason: Method::Empty.reason(), allowed, consumed };
        nodes.entry(candidate.name).and_modify(|node| node.reasons.push(reason));
    }
    if !chosen.is_empty() {
        for candidate in &chosen {
            let disrupt = Decision::Disrupt { command: 0 };
            nodes.entry(candidate.name.clone()).and_modify(|node| node.decision = disrupt);
        }
        let savings = chosen.iter().map(|candidate| candidate.price.0 as i64).sum();
        let (replacements, moves) = Default::default();
        proposal.commands.push(Command { method: Method::Empty, candidates: chosen, replacements, moves, savings });
    }
    proposal.nodes = nodes.into_values().collect();
    proposal
}

/// Those that fit their pools' budgets, best savings first, each taking one unit; and those that do not.
fn within(
    mut candidates: Vec<Candidate>,
    allowances: &BTreeMap<Arc<str>, Allowance>,
) -> (Vec<Candidate>, Vec<Candidate>) {
    candidate::sort(&mut candidates);
    let mut left: BTreeMap<&Arc<str>, u32> = allowances.iter().map(|(pool, a)| (pool, a.left())).collect();
    candidates.into_iter().partition(|candidate| match left.get_mut(&candidate.pool) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    })
}
