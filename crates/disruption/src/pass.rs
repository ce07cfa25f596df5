//! One pass: who goes, and a decision for every managed node.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_scheduling::what_if::WhatIf;

use crate::balanced;
use crate::budgets::{self, Allowance};
use crate::candidate::{self, Candidate, Class, Cluster};
use crate::command::{Command, Method, Move, Target};
use crate::decision::{Decision, NodeDecision, Reason};
use crate::memory::{self, Memory, Question, Recalled, Start};
use crate::rules::{self, Rules};
use crate::search::{Found, Search};
use crate::snapshot::{Policy, Snapshot};
use crate::{Proposal, drift, emptiness, miss};

/// With more nodes than this, empty ones always go first.
const MOST_FOR_KEEPING_EMPTY: usize = 400;

pub(crate) fn propose(snapshot: &Snapshot<'_>, policy: &Policy) -> Proposal {
    let mut cluster = Cluster::new(snapshot);
    let pass = Pass::new(&mut cluster, policy);
    if pass.moves_nobody() {
        return pass.only_empty(policy);
    }
    let movable = cluster.movable();
    let start = Start { what_if: WhatIf::new(snapshot.world, &movable), found: None, world: None };
    decide(&cluster, policy, pass, start, &movable).0
}

pub(crate) fn propose_again(memory: &mut Memory, snapshot: &Snapshot<'_>, policy: &Policy) -> Proposal {
    let mut cluster = Cluster::new(snapshot);
    let pass = Pass::new(&mut cluster, policy);
    if pass.moves_nobody() {
        return pass.only_empty(policy);
    }
    let question = Question::new(snapshot, policy, &pass);
    let movable = cluster.movable();
    let start = match memory.recall(snapshot.world, &question, &movable) {
        Recalled::Answer(known) => return known,
        Recalled::Start(start) => *start,
        Recalled::Nothing => Start { what_if: WhatIf::new(snapshot.world, &movable), found: None, world: None },
    };
    let (proposal, start) = decide(&cluster, policy, pass, start, &movable);
    let world = start.world.unwrap_or_else(|| snapshot.world.clone());
    memory.learn(world, question, &proposal, start.what_if.keep(), start.found.map(|(_, found)| found));
    proposal
}

/// Hands back what the next pass may start from.
fn decide<'w>(
    cluster: &Cluster<'_, 'w>,
    policy: &Policy,
    mut pass: Pass,
    start: Start<'w>,
    movable: &[usize],
) -> (Proposal, Start<'w>) {
    let snapshot = cluster.snapshot;
    let rules = Rules { snapshot, policy, totals: balanced::totals(cluster, &pass.candidates) };
    let Start { mut what_if, found, world } = start;
    let base = what_if.mark();
    pass.drift(&rules, &mut what_if);
    let found = pass.consolidate(&rules, &mut what_if, movable, found).map(|found| (Vec::new(), found));
    what_if.rollback(base);
    (pass.finish(policy), Start { what_if, found, world })
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pass {
    /// Every node that may be disrupted gracefully.
    candidates: Vec<Candidate>,
    empty: Vec<Candidate>,
    drifted: Vec<Candidate>,
    underutilized: Vec<Candidate>,
    allowances: BTreeMap<&'static str, BTreeMap<Arc<str>, Allowance>>,
    nodes: BTreeMap<Arc<str>, NodeDecision>,
    commands: Vec<Command>,
    held_back: bool,
}

impl Pass {
    fn new(cluster: &mut Cluster<'_, '_>, policy: &Policy) -> Self {
        let snapshot = cluster.snapshot;
        let allowances = [Method::Empty, Method::Drift, Method::Multi].map(Method::reason);
        let allowances = allowances.map(|reason| (reason, budgets::allowances(snapshot, reason)));
        let mut pass = Self {
            candidates: Vec::new(),
            empty: Vec::new(),
            drifted: Vec::new(),
            underutilized: Vec::new(),
            allowances: allowances.into(),
            nodes: BTreeMap::new(),
            commands: Vec::new(),
            held_back: false,
        };
        for (index, node) in snapshot.world.nodes.iter().enumerate().filter(|(_, node)| node.is_managed()) {
            let reasons = pass.sort_in(cluster, policy, index);
            let known = pass.candidates.last().filter(|candidate| candidate.node == index);
            let price = known.map_or_else(|| cluster.price(&node.labels), |candidate| candidate.price);
            let (name, decision) = (node.name.clone(), Decision::Keep);
            let decision = NodeDecision { node: index, name, price, decision, reasons, nearest_miss: None };
            pass.nodes.insert(node.name.clone(), decision);
        }
        candidate::sort(&mut pass.underutilized);
        drift::sort(&mut pass.drifted, snapshot);
        pass
    }

    /// Files a node under the methods that look at it; answers why others do not.
    fn sort_in(&mut self, cluster: &mut Cluster<'_, '_>, policy: &Policy, index: usize) -> Vec<Reason> {
        let snapshot = cluster.snapshot;
        let mut reasons = Vec::new();
        if snapshot.nodes[index].drifted.is_some()
            && let Ok(candidate) = cluster.candidate(index, Class::Eventual)
            && drift::looks_at(&candidate, snapshot, policy)
        {
            self.drifted.push(candidate);
        }
        let candidate = match cluster.candidate(index, Class::Graceful) {
            Ok(candidate) => candidate,
            Err(why) => return vec![Reason::Blocked(why)],
        };
        self.candidates.push(candidate.clone());
        match emptiness::judge(&candidate, snapshot, policy) {
            emptiness::Interest::Yes => {
                self.empty.push(candidate);
                return reasons;
            }
            emptiness::Interest::No(why) => reasons.extend(why),
        }
        match rules::consolidatable(cluster, policy, &candidate) {
            Ok(()) => self.underutilized.push(candidate),
            Err(why) => reasons.extend(why),
        }
        reasons.dedup();
        reasons
    }

    /// What budgets leave for a reason. What this pass takes for one reason is taken from all: a node that goes is a node
    /// that goes.
    fn left(&self, reason: &str) -> BTreeMap<Arc<str>, u32> {
        let mut left: BTreeMap<Arc<str>, u32> =
            self.allowances[reason].iter().map(|(pool, allowance)| (pool.clone(), allowance.left())).collect();
        take_from(&mut left, self.commands.iter().flat_map(|command| &command.candidates));
        left
    }

    fn order(&mut self, command: Command) {
        let number = self.commands.len();
        for candidate in &command.candidates {
            if let Some(node) = self.nodes.get_mut(&candidate.name) {
                node.decision = Decision::Disrupt { command: number };
                node.reasons.clear();
            }
        }
        self.commands.push(command);
    }

    fn is_taken(&self, candidate: &Candidate) -> bool {
        self.nodes.get(&candidate.name).is_some_and(|node| node.decision != Decision::Keep)
    }

    fn held_by_budget(&mut self, candidate: &Candidate, reason: &'static str) {
        let of = self.allowances[reason].get(&candidate.pool);
        let mine = self.commands.iter().flat_map(|command| &command.candidates);
        let mine = mine.filter(|taken| taken.pool == candidate.pool).count() as u32;
        let (allowed, consumed) = of.map_or((0, 0), |of| (of.allowed, of.consumed + mine));
        self.held_back = true;
        self.keep(candidate, Reason::Budget { pool: candidate.pool.clone(), reason, allowed, consumed });
    }

    fn keep(&mut self, candidate: &Candidate, reason: Reason) {
        if let Some(node) = self.nodes.get_mut(&candidate.name) {
            node.reasons.push(reason);
        }
    }

    fn drift(&mut self, rules: &Rules<'_, '_>, what_if: &mut WhatIf<'_>) {
        if self.drifted.is_empty() {
            return;
        }
        let mut left = self.left(Method::Drift.reason());
        // Nodes that are empty as well go under the budget for those, if it lets them.
        let within = within(self.empty.clone(), &self.left(Method::Empty.reason())).0;
        within.iter().for_each(|empty| what_if.close(empty.node));
        let mut needed: BTreeMap<usize, usize> = BTreeMap::new();
        for candidate in std::mem::take(&mut self.drifted) {
            if within.iter().any(|empty| empty.node == candidate.node) {
                continue;
            }
            if let Some(command) = needed.get(&candidate.node) {
                self.keep(&candidate, Reason::ReceivesPods { command: *command });
                continue;
            }
            let Some(units) = left.get_mut(&candidate.pool).filter(|units| **units > 0) else {
                self.held_by_budget(&candidate, Method::Drift.reason());
                continue;
            };
            match drift::command(what_if, rules, &candidate) {
                Ok(command) => {
                    *units -= 1;
                    for node in receivers(std::iter::once(&*command.moves)).into_keys() {
                        needed.entry(node).or_insert(self.commands.len());
                    }
                    self.order(command);
                }
                Err(reason) => self.keep(&candidate, reason),
            }
        }
    }

    /// There is nothing but empty nodes to look at, if that.
    fn moves_nobody(&self) -> bool {
        self.drifted.is_empty() && self.underutilized.is_empty()
    }

    /// Where nobody moves, nothing has to be compiled.
    fn only_empty(mut self, policy: &Policy) -> Proposal {
        let (empty, held_back) = within(std::mem::take(&mut self.empty), &self.left(Method::Empty.reason()));
        self.order_empty(empty);
        for candidate in &held_back {
            self.held_by_budget(candidate, Method::Empty.reason());
        }
        self.finish(policy)
    }

    fn order_empty(&mut self, go: Vec<Candidate>) {
        if go.is_empty() {
            return;
        }
        let savings = go.iter().map(|candidate| candidate.price.0 as i64).sum();
        let (replacements, moves) = Default::default();
        self.order(Command { method: Method::Empty, candidates: go, replacements, moves, savings });
    }

    /// Empty nodes go; whether before the others are looked at, or only those that the others leave empty, is decided by
    /// what saves more.
    fn consolidate<'w>(
        &mut self,
        rules: &Rules<'_, 'w>,
        what_if: &mut WhatIf<'w>,
        movable: &[usize],
        remembered: Option<(Vec<u32>, memory::Found)>,
    ) -> Option<memory::Found> {
        let snapshot = rules.snapshot;
        for node in memory::closed(snapshot, snapshot.world.now) {
            what_if.close(node);
        }
        let taken = |pass: &Self, list: &[Candidate]| -> Vec<Candidate> {
            list.iter().filter(|candidate| !pass.is_taken(candidate)).cloned().collect()
        };
        let (empty, held_back) = within(taken(self, &self.empty), &self.left(Method::Empty.reason()));
        let mut underutilized = taken(self, &self.underutilized);
        let needed = receivers(self.commands.iter().map(|command| &*command.moves));
        underutilized.retain(|candidate| !needed.contains_key(&candidate.node));
        for candidate in self.underutilized.clone() {
            if let Some(command) = needed.get(&candidate.node) {
                self.keep(&candidate, Reason::ReceivesPods { command: *command });
            }
        }
        let mut budget = self.left(Method::Multi.reason());
        take_from(&mut budget, &empty);
        let base = what_if.mark();
        let nodes: Vec<usize> = empty.iter().map(|candidate| candidate.node).collect();
        let small = snapshot.nodes.len() <= MOST_FOR_KEEPING_EMPTY;
        let together = what_if.together(movable).filter(|_| small && self.commands.is_empty());
        // Nobody moves, so this cannot fail.
        let _ = what_if.leave(&nodes, &[]);
        what_if.settle();
        let check = together.clone().map(|mut check| {
            nodes.iter().for_each(|node| check.close(*node));
            check
        });
        // Drift comes first, and what it takes is not the same every time.
        let comparable = self.commands.is_empty();
        let totals = rules.weighing();
        let known = remembered
            .filter(|_| comparable)
            .map(|(others, before)| before.still(what_if, &others, &totals, &underutilized));
        let start = comparable.then(|| what_if.base());
        let (mut found, verdicts) =
            Search::new(rules, what_if, &underutilized, &budget, check).knowing(known.unwrap_or_default()).run();
        let remembered = start.map(|base| memory::Found { base, verdicts, totals });
        what_if.rollback(base);
        let mut kept_empty: Vec<usize> = Vec::new();
        let mut others = Vec::new();
        if !underutilized.is_empty() && small {
            if !empty.is_empty() {
                others.push(Search::new(rules, what_if, &underutilized, &budget, together.clone()).run().0);
            }
            if let Some(mut together) = together {
                let check = together.clone();
                others.push(Search::new(rules, &mut together, &underutilized, &budget, Some(check)).run().0);
            }
        }
        for other in others {
            let used = receivers(other.moves());
            let lost = |kept: &[usize]| -> i64 {
                empty.iter().filter(|empty| kept.contains(&empty.node)).map(|empty| empty.price.0 as i64).sum()
            };
            let used: Vec<usize> = used.keys().copied().collect();
            if other.savings() - lost(&used) > found.savings() - lost(&kept_empty) {
                kept_empty = used;
                found = other;
            }
        }
        let (stay, go): (Vec<Candidate>, Vec<Candidate>) =
            empty.into_iter().partition(|empty| kept_empty.contains(&empty.node));
        self.order_empty(go);
        // Told after the others are taken, so that the figures are those that hold.
        for candidate in &held_back {
            self.held_by_budget(candidate, Method::Empty.reason());
        }
        self.take_over(found, &underutilized, &stay);
        remembered
    }

    fn take_over(&mut self, found: Found, candidates: &[Candidate], kept_empty: &[Candidate]) {
        let first = self.commands.len();
        let used = receivers(found.moves());
        for candidate in kept_empty {
            if let Some(command) = used.get(&candidate.node) {
                self.keep(candidate, Reason::ReceivesPods { command: first + command });
            }
        }
        self.held_back |= found.held_back;
        for (candidate, reason) in candidates.iter().zip(found.kept) {
            match reason {
                Some(Reason::ReceivesPods { command }) => {
                    self.keep(candidate, Reason::ReceivesPods { command: first + command });
                }
                Some(reason) => self.keep(candidate, reason),
                None => {}
            }
        }
        for taken in found.taken {
            let method = if taken.members.len() > 1 { Method::Multi } else { Method::Single };
            let members = taken.members.iter().map(|at| candidates[*at].clone()).collect();
            let trial = taken.trial;
            self.order(Command {
                method,
                candidates: members,
                replacements: trial.replacements,
                moves: trial.moves,
                savings: trial.savings,
            });
        }
    }

    fn finish(self, policy: &Policy) -> Proposal {
        let mut nodes: Vec<NodeDecision> = self.nodes.into_values().collect();
        for node in &mut nodes {
            node.nearest_miss = miss::nearest(&node.reasons, policy);
        }
        Proposal { commands: self.commands, nodes, held_back: self.held_back }
    }
}

fn take_from<'c>(left: &mut BTreeMap<Arc<str>, u32>, taken: impl IntoIterator<Item = &'c Candidate>) {
    for candidate in taken {
        left.entry(candidate.pool.clone()).and_modify(|left| *left = left.saturating_sub(1));
    }
}

/// Nodes that commands move pods onto, each with the first that does.
fn receivers<'m>(moves: impl Iterator<Item = &'m [Move]>) -> BTreeMap<usize, usize> {
    let mut used = BTreeMap::new();
    for (command, moves) in moves.enumerate() {
        for moved in moves {
            if let Target::Node(node) = moved.to {
                used.entry(node).or_insert(command);
            }
        }
    }
    used
}

/// Those that fit their pools' budgets, best savings first, each taking one unit; and those that do not.
fn within(mut candidates: Vec<Candidate>, left: &BTreeMap<Arc<str>, u32>) -> (Vec<Candidate>, Vec<Candidate>) {
    candidate::sort(&mut candidates);
    let mut left = left.clone();
    candidates.into_iter().partition(|candidate| match left.get_mut(&candidate.pool) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    })
}
