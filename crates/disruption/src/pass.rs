//! One pass: who goes, and a decision for every managed node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::MicroUsd;
use karpenter_scheduling::what_if::WhatIf;

use crate::balanced::{self, Totals};
use crate::budgets::Allowance;
use crate::calm::Calm;
use crate::candidate::{self, Candidate};
use crate::command::{Assumptions, Command, Later, Method, Move, Target};
use crate::decision::{Decision, NodeDecision, Reason};
use crate::memory::{self, Memory, Moment, Recalled, Start};
use crate::rules::Rules;
use crate::search::{Found, Search, Taken};
use crate::snapshot::{Begun, ConsolidationPolicy, Policy, Refused, Snapshot};
use crate::standing::{Interest, Standing, Standings};
use crate::validation::Validation;
use crate::verdicts::Verdicts;
use crate::{Proposal, drift, miss};

/// Where one command may have more nodes than this, a search finds what goes well together; with fewer there is little to put
/// together, and the plan tells what to begin with.
const FEW_UNITS: u64 = 7;
/// After so long something is bought in advance again though the last time it came to nothing.
const TRIED_AGAIN: Duration = Duration::from_hours(1);
/// With more nodes than this, empty ones always go first.
const MOST_FOR_KEEPING_EMPTY: usize = 400;
/// With more candidates than this nobody looks beyond what budgets allow now.
const MOST_FOR_STEADINESS: usize = 400;
/// With more nodes than this only what kube-scheduler finds room for is done: another look would cost as much again.
const MOST_FOR_RISKS: usize = 400;
/// This part of what pods cost must be saved by moving them where there may be no room.
const RISKED: (u64, u64) = (5, 8);

pub(crate) fn propose(snapshot: &Snapshot<'_>, policy: &Policy) -> Proposal {
    decide(snapshot, policy, Start::afresh(snapshot, policy)).0
}

pub(crate) fn propose_empty(snapshot: &Snapshot<'_>, policy: &Policy) -> Vec<Command> {
    let Start { standings, moment, .. } = Start::afresh(snapshot, policy);
    Pass::new(snapshot, policy, &standings, &moment).only_empty(policy).commands
}

pub(crate) fn propose_again(memory: &mut Memory, snapshot: &Snapshot<'_>, policy: &Policy) -> Proposal {
    match memory.recall(snapshot, policy) {
        Recalled::Answer(known) => known,
        Recalled::Start(start) => {
            let (proposal, start) = decide(snapshot, policy, *start);
            memory.learn(snapshot, policy, start, &proposal);
            proposal
        }
    }
}

/// Hands back what the next pass may start from.
fn decide<'w>(snapshot: &Snapshot<'w>, policy: &Policy, start: Start<'w>) -> (Proposal, Start<'w>) {
    let Start { standings, moment, what_if, found, world } = start;
    let mut pass = Pass::new(snapshot, policy, &standings, &moment);
    pass.static_drift(snapshot);
    if pass.moves_nobody() {
        // Nothing has to be compiled. What is known of sets of nodes is not followed any further.
        return (pass.only_empty(policy), Start { standings, moment, what_if, found: None, world });
    }
    let weighed = policy.threshold.is_some() || any_balanced(snapshot);
    let calm = if weighed { Calm::of(snapshot.world) } else { Calm::default() };
    let price: MicroUsd = standings.of.iter().flatten().map(|standing| standing.price).sum();
    let risk = policy.as_scheduled.then(|| risk_worth_taking(snapshot, price)).flatten();
    let (totals, refused) = (totals(snapshot, &standings), policy.refused.clone());
    let allowed = |(pool, allowance): (&Arc<str>, &Allowance)| (pool.clone(), allowance.left_soon());
    let most = moment.allowances[Method::Multi.reason()].iter().map(allowed).collect();
    let mut rules = Rules { snapshot, policy, totals, calm, risk, price, most, refused };
    let movable = standings.movable();
    let mut what_if = what_if.unwrap_or_else(|| WhatIf::new(snapshot.world, &movable));
    let base = what_if.mark();
    pass.commands.iter().flat_map(|command| &command.candidates).for_each(|going| what_if.close(going.node));
    pass.drift(&rules, &mut what_if);
    let mut found = found;
    let (found, mut what_if) = loop {
        let before = pass.clone();
        let kept = pass.consolidate(&rules, &mut what_if, &movable, found.take());
        let refused = pass.refused(&standings, before.commands.len(), snapshot, &movable, &mut what_if);
        if refused.is_empty() {
            break (kept.map(|found| (Vec::new(), found)), what_if);
        }
        rules.refused.extend(refused);
        pass = before;
    };
    what_if.rollback(base);
    (pass.finish(policy), Start { standings, moment, what_if: Some(what_if), found, world })
}

fn any_balanced(snapshot: &Snapshot<'_>) -> bool {
    snapshot.pools.values().any(|pool| pool.policy == ConsolidationPolicy::Balanced)
}

/// What pools weigh savings against, where any does.
fn totals(snapshot: &Snapshot<'_>, standings: &Standings) -> BTreeMap<Arc<str>, Totals> {
    if !any_balanced(snapshot) {
        return BTreeMap::new();
    }
    let candidates = standings.of.iter().flatten().filter_map(|standing| standing.candidate.as_deref());
    balanced::totals_of(snapshot, &standings.pods_on, candidates)
}

/// A good part of what the pods that move cost: what has to be bought again, if there is no room for them, is less.
fn risk_worth_taking(snapshot: &Snapshot<'_>, fleet: MicroUsd) -> Option<MicroUsd> {
    if snapshot.nodes.len() > MOST_FOR_RISKS {
        return None;
    }
    let pods = snapshot.world.pods.iter().filter(|pod| pod.node.is_some() && !pod.is_daemon()).count();
    Some(fleet.fraction(RISKED.0, RISKED.1 * pods.max(1) as u64))
}

/// Where budgets leave for later what could go today: whoever goes in the end takes nobody in, so that pods are moved to
/// where they can stay. Nothing where budgets leave nothing for later, or nothing would go that way.
fn steadily<'w>(
    rules: &Rules<'_, 'w>,
    what_if: &WhatIf<'w>,
    candidates: &[Arc<Candidate>],
    budget: &BTreeMap<Arc<str>, u32>,
    check: Option<&WhatIf<'w>>,
    otherwise: &Found,
) -> Option<Found> {
    // However much is decided in advance, no command has more nodes than the budget.
    let at_once = |pool: &Arc<str>, left: u32| left.min(rules.most.get(pool).copied().unwrap_or(u32::MAX));
    let is_short = |(pool, left): (&Arc<str>, &u32)| {
        let at_once = at_once(pool, *left) as usize;
        at_once > 0 && candidates.iter().filter(|candidate| candidate.pool == *pool).count() > at_once
    };
    if candidates.len() > MOST_FOR_STEADINESS || !budget.iter().any(is_short) {
        return None;
    }
    let unlimited: BTreeMap<Arc<str>, u32> =
        budget.iter().map(|(pool, left)| (pool.clone(), if *left > 0 { u32::MAX } else { 0 })).collect();
    let mut apart = what_if.clone();
    let (in_the_end, _) = Search::new(rules, &mut apart, candidates, &unlimited, check.cloned()).unlimited().run();
    let (mut apart, mut check) = (what_if.clone(), check.cloned());
    for at in in_the_end.taken.iter().flat_map(|taken| &taken.members) {
        let node = candidates[*at].node;
        apart.close(node);
        check.iter_mut().for_each(|check| check.close(node));
    }
    let plan = by_savings(&in_the_end.taken, candidates);
    let closed: Arc<[Arc<str>]> = plan.iter().flatten().map(|at| candidates[*at].name.clone()).collect();
    let units: u64 = budget.iter().map(|(pool, left)| u64::from(at_once(pool, *left))).sum();
    let search = Search::new(rules, &mut apart, candidates, budget, check.clone());
    let mut steady = if units <= FEW_UNITS { search.follow(&plan) } else { search.run().0 };
    steady.assumes.closed = closed.clone();
    if steady.savings() > 0 {
        return Some(steady);
    }
    if !otherwise.taken.is_empty() || !may_begin(rules) {
        return None;
    }
    let mut begun = Search::new(rules, &mut apart, candidates, budget, check).begin(&plan);
    begun.assumes.closed = closed;
    (!begun.taken.is_empty()).then_some(begun)
}

/// Whether something may be bought in advance: what was bought that way last brought at least half of what it was to, or it
/// is long ago, or the cluster has grown since.
fn may_begin(rules: &Rules<'_, '_>) -> bool {
    rules.policy.begun.is_none_or(|last| {
        let came_true = rules.price.0 + last.promised.0 / 2 <= last.price.0;
        // What it bought itself is no growth.
        let grown = rules.price.0 > last.price.0 + last.bought.0 + last.price.0 / 10;
        came_true || grown || is_long_ago(&last, rules.snapshot.world.now)
    })
}

/// Whether something may be bought in advance again, whatever became of the last time.
pub(crate) fn is_long_ago(begun: &Begun, now: Timestamp) -> bool {
    now > begun.at + TRIED_AGAIN
}

/// The commands that save most with each node that goes, first, and of each command the dearest nodes.
fn by_savings(taken: &[Taken], candidates: &[Arc<Candidate>]) -> Vec<Vec<usize>> {
    let each = |taken: &Taken| taken.trial.savings / taken.members.len().max(1) as i64;
    let mut order: Vec<&Taken> = taken.iter().collect();
    order.sort_by_key(|taken| std::cmp::Reverse(each(taken)));
    let members = |taken: &Taken| {
        let mut members = taken.members.clone();
        members.sort_by_key(|at| std::cmp::Reverse(candidates[*at].price));
        members
    };
    order.into_iter().map(members).collect()
}

#[derive(Clone)]
struct Pass<'m> {
    moment: &'m Moment,
    empty: Vec<Arc<Candidate>>,
    /// Of static pools.
    static_drifted: Vec<Arc<Candidate>>,
    drifted: Vec<Arc<Candidate>>,
    underutilized: Vec<Arc<Candidate>>,
    /// By position in `World::nodes`; nothing for nodes that are somebody else's.
    nodes: Vec<Option<NodeDecision>>,
    commands: Vec<Command>,
    held_back: bool,
    due: usize,
    ahead: Option<u32>,
}

impl<'m> Pass<'m> {
    fn new(snapshot: &Snapshot<'_>, policy: &Policy, standings: &Standings, moment: &'m Moment) -> Self {
        let decision = |(index, standing): (usize, &Option<Standing>)| {
            let Standing { price, reasons, .. } = standing.as_ref()?;
            let (name, reasons) = (snapshot.world.nodes[index].name.clone(), reasons.clone());
            let (price, decision) = (*price, Decision::Keep);
            Some(NodeDecision { node: index, name, price, decision, reasons, nearest_miss: None })
        };
        let mut drifted: Vec<Arc<Candidate>> =
            standings.of.iter().flatten().filter_map(|standing| standing.drifted.clone()).collect();
        drift::sort(&mut drifted, snapshot);
        let is_static = |candidate: &Arc<Candidate>| snapshot.pools[&candidate.pool].is_static;
        let (mut static_drifted, drifted): (Vec<_>, Vec<_>) = drifted.into_iter().partition(is_static);
        let since = |node: usize| snapshot.nodes[node].drifted.as_ref().map(|drifted| drifted.since);
        static_drifted.sort_by_key(|candidate| (since(candidate.node), candidate.name.clone()));
        Self {
            moment,
            static_drifted,
            empty: standings.interesting(Interest::Empty).cloned().collect(),
            drifted,
            underutilized: standings.underutilized(),
            nodes: standings.of.iter().enumerate().map(decision).collect(),
            commands: Vec::new(),
            held_back: false,
            due: 0,
            ahead: policy.ahead,
        }
    }

    /// What budgets leave for a reason. What this pass takes for one reason is taken from all: a node that goes is a node
    /// that goes.
    fn left(&self, reason: &str) -> BTreeMap<Arc<str>, u32> {
        self.left_after(reason, self.commands.len())
    }

    /// After the first commands.
    fn left_after(&self, reason: &str, first: usize) -> BTreeMap<Arc<str>, u32> {
        // Drift is carried out at once.
        let ahead = self.ahead.filter(|_| reason != Method::Drift.reason());
        let units = |allowance: &Allowance| match ahead {
            // Nothing moves that would have to be looked at again.
            Some(_) if reason == Method::Empty.reason() && allowance.left_soon() > 0 => u32::MAX,
            Some(times) => allowance.left_soon().saturating_mul(times),
            None => allowance.left(),
        };
        let mut left: BTreeMap<Arc<str>, u32> =
            self.moment.allowances[reason].iter().map(|(pool, allowance)| (pool.clone(), units(allowance))).collect();
        let taken = self.commands[..first].iter().flat_map(|command| &command.candidates);
        take_from(&mut left, taken.map(|candidate| &candidate.pool));
        left
    }

    fn order(&mut self, mut command: Command) {
        let number = self.commands.len();
        command.ahead = self.is_ahead(&command);
        for candidate in &command.candidates {
            if let Some(node) = &mut self.nodes[candidate.node] {
                node.decision = Decision::Disrupt { command: number };
                node.reasons.clear();
            }
        }
        self.commands.push(command);
    }

    /// Whether budgets have no room for it beside the commands before it.
    fn is_ahead(&self, command: &Command) -> bool {
        let Some(allowances) = self.moment.allowances.get(command.method.reason()).filter(|_| self.ahead.is_some())
        else {
            return false;
        };
        let mut left: BTreeMap<&str, u32> = allowances.iter().map(|(pool, of)| (&**pool, of.left())).collect();
        let taken = self.commands.iter().chain([command]).flat_map(|one| &one.candidates);
        let mine: BTreeSet<&str> = command.candidates.iter().map(|candidate| &*candidate.pool).collect();
        let goes_over = |candidate: &Candidate| match left.get_mut(&*candidate.pool) {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        taken.filter(|candidate| mine.contains(&*candidate.pool)).any(goes_over)
    }

    fn is_taken(&self, candidate: &Candidate) -> bool {
        self.nodes[candidate.node].as_ref().is_some_and(|node| node.decision != Decision::Keep)
    }

    fn held_by_budget(&mut self, candidate: &Candidate, reason: &'static str) {
        let of = self.moment.allowances[reason].get(&candidate.pool);
        let mine = self.commands.iter().flat_map(|command| &command.candidates);
        let mine = mine.filter(|taken| taken.pool == candidate.pool).count() as u32;
        let (allowed, consumed) = of.map_or((0, 0), |of| (of.allowed, of.consumed + mine));
        self.held_back = true;
        self.keep(candidate, Reason::Budget { pool: candidate.pool.clone(), reason, allowed, consumed });
    }

    fn keep(&mut self, candidate: &Candidate, reason: Reason) {
        if let Some(node) = &mut self.nodes[candidate.node] {
            node.reasons.push(reason);
        }
    }

    /// As many nodes of static pools as their budgets and their limits on nodes let go.
    fn static_drift(&mut self, snapshot: &Snapshot<'_>) {
        if self.static_drifted.is_empty() {
            return;
        }
        let mut left = self.left(Method::StaticDrift.reason());
        let mut spare: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for candidate in std::mem::take(&mut self.static_drifted) {
            let spare = spare.entry(candidate.pool.clone()).or_insert_with(|| snapshot.pools[&candidate.pool].spare);
            let Some(units) = left.get_mut(&candidate.pool).filter(|units| **units > 0) else {
                self.held_by_budget(&candidate, Method::StaticDrift.reason());
                continue;
            };
            if *spare == 0 {
                self.held_back = true;
                self.keep(&candidate, Reason::NoSpareNode { pool: candidate.pool.clone() });
                continue;
            }
            (*units, *spare) = (*units - 1, *spare - 1);
            self.order(drift::of_static(&candidate));
        }
    }

    fn drift(&mut self, rules: &Rules<'_, '_>, what_if: &mut WhatIf<'_>) {
        if self.drifted.is_empty() {
            return;
        }
        let mut left = self.left(Method::Drift.reason());
        // Nodes that are empty as well go under the budget for those, if it lets them.
        let within = within(self.empty.clone(), &self.left(Method::Empty.reason())).0;
        let closed = what_if.close_all(&within.iter().map(|empty| empty.node).collect::<Vec<_>>());
        let empty = within.iter().map(|empty| &empty.name);
        let going: Arc<[Arc<str>]> = self.going().chain(empty).cloned().collect();
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
                Ok(mut command) => {
                    *units -= 1;
                    command.assumes.going = going.clone();
                    for node in receivers(std::iter::once(&*command.moves)).into_keys() {
                        needed.entry(node).or_insert(self.commands.len());
                    }
                    self.order(command);
                }
                Err(reason) => self.keep(&candidate, reason),
            }
        }
        what_if.reopen(&closed);
    }

    /// The nodes of the commands so far.
    fn going(&self) -> impl Iterator<Item = &Arc<str>> {
        self.commands.iter().flat_map(|command| &command.candidates).map(|candidate| &candidate.name)
    }

    /// There is nothing but empty nodes to look at, if that.
    fn moves_nobody(&self) -> bool {
        self.drifted.is_empty() && self.underutilized.is_empty()
    }

    fn only_empty(mut self, policy: &Policy) -> Proposal {
        let (empty, held_back) = within(std::mem::take(&mut self.empty), &self.left(Method::Empty.reason()));
        self.order_empty(empty);
        for candidate in &held_back {
            self.held_by_budget(candidate, Method::Empty.reason());
        }
        self.finish(policy)
    }

    fn order_empty(&mut self, go: Vec<Arc<Candidate>>) {
        if go.is_empty() {
            return;
        }
        let savings = go.iter().map(|candidate| candidate.price.0 as i64).sum();
        let (replacements, moves, later, assumes) = Default::default();
        let candidates = go.iter().map(|candidate| Candidate::clone(candidate)).collect();
        let method = Method::Empty;
        self.order(Command { method, candidates, replacements, moves, savings, later, assumes, ahead: false });
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
        for node in &self.moment.closed {
            what_if.close(*node);
        }
        let taken = |pass: &Self, list: &[Arc<Candidate>]| -> Vec<Arc<Candidate>> {
            list.iter().filter(|candidate| !pass.is_taken(candidate)).cloned().collect()
        };
        let (empty, held_back) = within(taken(self, &self.empty), &self.left(Method::Empty.reason()));
        let mut underutilized = taken(self, &self.underutilized);
        let needed = receivers(self.commands.iter().map(|command| &*command.moves));
        underutilized.retain(|candidate| !needed.contains_key(&candidate.node));
        for candidate in std::mem::take(&mut self.underutilized) {
            if let Some(command) = needed.get(&candidate.node) {
                self.keep(&candidate, Reason::ReceivesPods { command: *command });
            }
        }
        let mut budget = self.left(Method::Multi.reason());
        take_from(&mut budget, empty.iter().map(|candidate| &candidate.pool));
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
            .map(|(others, before)| before.still(what_if, &others, &totals, &rules.calm));
        let (known, turn, start) = match known {
            Some((known, turn, start)) => (known, turn, Some(start)),
            None => (Verdicts::default(), 0, comparable.then(|| what_if.base())),
        };
        let search = Search::new(rules, what_if, &underutilized, &budget, check.clone()).knowing(known, turn);
        let (mut found, (verdicts, turn)) = search.run();
        if let Some(steady) = steadily(rules, what_if, &underutilized, &budget, check.as_ref(), &found) {
            found = steady;
        }
        let remembered = start.map(|base| memory::Found { base, verdicts, turn, totals, calm: rules.calm.clone() });
        what_if.rollback(base);
        let mut kept_empty: Vec<usize> = Vec::new();
        let mut others = Vec::new();
        if !underutilized.is_empty() && small {
            if !empty.is_empty() {
                others.push(Search::new(rules, what_if, &underutilized, &budget, together.clone()).run().0);
            }
            if let Some(mut together) = together {
                let check = together.clone();
                let mut found = Search::new(rules, &mut together, &underutilized, &budget, Some(check)).run().0;
                found.assumes.with_pending = true;
                others.push(found);
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
        let (stay, go): (Vec<Arc<Candidate>>, Vec<Arc<Candidate>>) =
            empty.into_iter().partition(|empty| kept_empty.contains(&empty.node));
        self.order_empty(go);
        // Told after the others are taken, so that the figures are those that hold.
        for candidate in &held_back {
            self.held_by_budget(candidate, Method::Empty.reason());
        }
        self.take_over(found, &underutilized, &stay);
        remembered
    }

    fn take_over(&mut self, found: Found, candidates: &[Arc<Candidate>], kept_empty: &[Arc<Candidate>]) {
        let first = self.commands.len();
        let used = receivers(found.moves());
        for candidate in kept_empty {
            if let Some(command) = used.get(&candidate.node) {
                self.keep(candidate, Reason::ReceivesPods { command: first + command });
            }
        }
        self.held_back |= found.held_back;
        self.due = found.due;
        for (candidate, reason) in candidates.iter().zip(found.kept) {
            match reason {
                Some(Reason::ReceivesPods { command }) => {
                    self.keep(candidate, Reason::ReceivesPods { command: first + command });
                }
                Some(reason) => self.keep(candidate, reason),
                None => {}
            }
        }
        let going = self.going().cloned().collect();
        let assumes = Assumptions { going, ..found.assumes };
        for taken in found.taken {
            let method = if taken.members.len() > 1 { Method::Multi } else { Method::Single };
            let of = |members: Vec<usize>| members.iter().map(|at| Candidate::clone(&candidates[*at])).collect();
            let now = taken.members.iter().filter(|at| !taken.later.contains(at)).copied().collect();
            let (now, later): (Vec<Candidate>, Vec<Candidate>) = (of(now), of(taken.later));
            let mut trial = taken.trial;
            let stays = |pod: &usize| later.iter().any(|candidate| candidate.pods.contains(pod));
            let (later_moves, moves) = trial.moves.into_iter().partition(|moved| stays(&moved.pod));
            trial.replacements.iter_mut().for_each(|new| new.node.pods.retain(|pod| !stays(pod)));
            self.order(Command {
                method,
                candidates: now,
                replacements: trial.replacements,
                moves,
                savings: trial.savings - later.iter().map(|candidate| candidate.price.0 as i64).sum::<i64>(),
                later: Later { candidates: later, moves: later_moves },
                assumes: assumes.clone(),
                ahead: false,
            });
        }
    }

    /// Commands of consolidation, from the first on, that validation would not hold on this very snapshot.
    fn refused<'w>(
        &self,
        standings: &Standings,
        first: usize,
        snapshot: &Snapshot<'w>,
        movable: &[usize],
        what_if: &mut WhatIf<'w>,
    ) -> Vec<Refused> {
        if self.commands[first..].iter().all(|command| command.method == Method::Empty) {
            return Vec::new();
        }
        let mut left = BTreeMap::new();
        for reason in [Method::Empty, Method::Multi].map(Method::reason) {
            let of_reason = self.left_after(reason, first);
            left.extend(of_reason.into_iter().map(|(pool, left)| ((pool, reason), left)));
        }
        let mut validation = Validation::within_pass(snapshot, standings, left, what_if.clone(), movable);
        let refused = self.commands[first..].iter().filter(|command| validation.validate(command).refused.is_some());
        refused.map(Refused::of).collect()
    }

    fn finish(self, policy: &Policy) -> Proposal {
        let mut nodes: Vec<NodeDecision> = self.nodes.into_iter().flatten().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        for node in &mut nodes {
            node.nearest_miss = miss::nearest(&node.reasons, policy);
        }
        Proposal { commands: self.commands, nodes, held_back: self.held_back, due: self.due }
    }
}

/// A unit of each of these pools.
fn take_from<'c>(left: &mut BTreeMap<Arc<str>, u32>, pools: impl Iterator<Item = &'c Arc<str>>) {
    for pool in pools {
        left.entry(pool.clone()).and_modify(|left| *left = left.saturating_sub(1));
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

type Candidates = Vec<Arc<Candidate>>;

/// Those that fit their pools' budgets, best savings first, each taking one unit; and those that do not.
fn within(mut candidates: Vec<Arc<Candidate>>, left: &BTreeMap<Arc<str>, u32>) -> (Candidates, Candidates) {
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
