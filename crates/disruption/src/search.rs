//! Which sets of candidates to take in one pass.
//!
//! A search takes one command after the other, each judged on the cluster that the ones before it leave behind: nodes
//! that can simply go, then many into fewer, then one for a cheaper one, until nothing is left to take. What the
//! reference would do first is one of the starts; the start that saves most is the answer. What a pass takes must hold
//! together: all its nodes gone at once, their pods find room for no more than the replacements cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::MicroUsd;
use karpenter_scheduling::what_if::{Mark, Narrowing, Rests, Room, Scattered, WhatIf};

use crate::candidate::Candidate;
use crate::command::{Assumptions, Move, Replacement, Target};
use crate::decision::Reason;
use crate::rules::Rules;
use crate::snapshot::Refused;
use crate::trial::{self, Draft, Trial};
use crate::verdicts::{Verdict, Verdicts, Worth};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many candidates a prefix has at most; the reference's number.
const LONGEST_PREFIX: usize = 100;
/// With more candidates than this only one start is tried: one command more or less no longer decides.
const MOST_FOR_STARTS: usize = 400;
/// A thread is not worth starting for fewer candidates than this: it needs a copy of the cluster.
const LEAST_FOR_A_THREAD: usize = 100;
/// With more commands than this a pass is not checked command by command.
const MOST_ONE_BY_ONE: usize = 60;
/// Sizes of the groups in which candidates are tried together.
const GROUPS: [usize; 5] = [2, 3, 5, 8, 16];
/// With more candidates than this, groups are not tried at every place.
const MOST_FOR_GROUPS: usize = 200;

/// With more candidates than this they are not tried in the order of their prices as well.
const MOST_FOR_ORDERS: usize = 100;

/// With more candidates than this not every two of them are tried.
const MOST_FOR_PAIRS: usize = 16;

/// One in so many candidates is few.
const FEW: usize = 3;

/// What is bought in advance must save one part in so many of what the fleet costs.
const LEAST_OF_WAVES: i64 = 40;

/// Which commands may go on in later passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waves {
    /// What goes now costs more than what is bought.
    ThatSaveAtOnce,
    Any,
}

/// A command of the search: which candidates, and what becomes of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Taken {
    /// In the order of the candidates; of a plan, dearest first.
    pub(crate) members: Vec<usize>,
    /// Those of the members for which budgets have no room now.
    pub(crate) later: Vec<usize>,
    pub(crate) trial: Trial,
}

/// What a search came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) taken: Vec<Taken>,
    /// By candidate: why it stays.
    pub(crate) kept: Vec<Option<Reason>>,
    pub(crate) held_back: bool,
    /// How many candidates stay for a reason from before something that may concern them.
    pub(crate) due: usize,
    pub(crate) assumes: Assumptions,
}

impl Found {
    /// Of each command.
    pub(crate) fn moves(&self) -> impl Iterator<Item = &[Move]> {
        self.taken.iter().map(|taken| &*taken.trial.moves)
    }

    /// Once everything that was taken is gone.
    pub(crate) fn savings(&self) -> i64 {
        self.taken.iter().map(|taken| taken.trial.savings).sum()
    }
}

/// One way through the candidates: the command to begin with, if any, and in whose turn the others are tried.
struct Order {
    start: Option<Vec<usize>>,
    turns: Arc<[usize]>,
}

pub(crate) struct Search<'a, 's, 'w> {
    rules: &'a Rules<'s, 'w>,
    what_if: &'a mut WhatIf<'w>,
    /// Where those that wait and those that move are placed together, and what those that wait cost alone; if any wait.
    check: Option<(WhatIf<'w>, MicroUsd)>,
    /// Where what is taken leaves, and kube-scheduler finds other places for its pods; once anybody asks how it would.
    scattered: Option<Scattered<'w>>,
    /// Best savings ratio first.
    candidates: &'a [Arc<Candidate>],
    /// The first of each pool, then the second of each.
    turns: Arc<[usize]>,
    /// Candidates by node.
    at_node: FxHashMap<usize, usize>,
    budget: &'a BTreeMap<Arc<str>, u32>,
    /// By candidate: its pool, in the order of the budget; and what is left of that, by pool.
    pool_of: Vec<usize>,
    left: Vec<u32>,
    /// How many of each pool one command may have.
    most: Vec<u32>,
    gone: Vec<bool>,
    /// To go later, with the replacements of a command that is taken.
    later: Vec<bool>,
    /// The command that moves pods onto it.
    receives: Vec<Option<usize>>,
    taken: Vec<Taken>,
    /// What is known with what is taken so far.
    verdicts: Verdicts,
    /// Something was taken since the base, and what was known then is marked.
    moved: bool,
    /// The node from which on those that are due have their turn.
    turn: usize,
    /// Others are due, and are left to another pass.
    behind: bool,
    /// What kube-scheduler may find no room for is taken as well, where it is worth the risk.
    bold: bool,
}

impl<'a, 's, 'w> Search<'a, 's, 'w> {
    pub(crate) fn new(
        rules: &'a Rules<'s, 'w>,
        what_if: &'a mut WhatIf<'w>,
        candidates: &'a [Arc<Candidate>],
        budget: &'a BTreeMap<Arc<str>, u32>,
        check: Option<WhatIf<'w>>,
    ) -> Self {
        let check = check.map(|mut check| {
            let alone = housed_for(&mut check, &[], &[], usize::MAX).unwrap_or_default();
            (check, alone)
        });
        let at_node = candidates.iter().enumerate().map(|(at, candidate)| (candidate.node, at)).collect();
        let (gone, receives) = (vec![false; candidates.len()], vec![None; candidates.len()]);
        let later = gone.clone();
        let pools: FxHashMap<&str, usize> = budget.keys().enumerate().map(|(at, name)| (&**name, at)).collect();
        let pool_of = candidates.iter().map(|candidate| pools[&*candidate.pool]).collect();
        let left = budget.values().copied().collect();
        let most = budget.keys().map(|pool| rules.most.get(pool).copied().unwrap_or(u32::MAX)).collect();
        let (taken, verdicts, moved, turn, behind, bold) = Default::default();
        Self {
            rules,
            what_if,
            check,
            scattered: None,
            candidates,
            turns: interleaved(candidates).into(),
            at_node,
            budget,
            pool_of,
            left,
            most,
            gone,
            later,
            receives,
            taken,
            verdicts,
            moved,
            turn,
            behind,
            bold,
        }
    }

    /// Commands may have any number of nodes.
    pub(crate) fn unlimited(mut self) -> Self {
        self.most.fill(u32::MAX);
        self
    }

    /// With what is known before anything is taken, and whose turn it is.
    pub(crate) fn knowing(mut self, verdicts: Verdicts, turn: usize) -> Self {
        (self.verdicts, self.turn) = (verdicts, turn);
        self
    }

    /// The best of the starts, and what is known when nothing is taken.
    pub(crate) fn run(mut self) -> (Found, (Verdicts, usize)) {
        let base = self.what_if.mark();
        let mut starts: Vec<Option<Vec<usize>>> = vec![None];
        if self.candidates.len() <= MOST_FOR_STARTS {
            self.verdicts.drop_due();
            // All of them are asked about first: who stays is then known to every start.
            self.sweep(&(0..self.candidates.len()).collect::<Vec<_>>());
            let first = |search: &mut Self, most_new| search.best_prefix(most_new).map(|(members, _)| members);
            let tried = [first(&mut self, 1), first(&mut self, usize::MAX)];
            starts.extend(tried.into_iter().flatten().map(Some));
            starts.extend(self.best_single().map(|at| Some(vec![at])));
            starts.dedup();
        }
        self.catch_up();
        let mut best: Vec<Vec<usize>> = Vec::new();
        let mut most = i64::MIN;
        let by_ratio = self.turns.clone();
        let mut orders: Vec<Order> = starts.into_iter().map(|start| Order { start, turns: by_ratio.clone() }).collect();
        if self.candidates.len() <= MOST_FOR_ORDERS {
            orders.push(Order { start: None, turns: by_price(&by_ratio, self.candidates) });
        }
        for Order { start, turns } in orders {
            self.restart(base);
            self.turns = turns;
            self.take_all(start);
            self.hold_together(base);
            let savings = self.savings();
            if savings > most {
                most = savings;
                best = self.members();
            }
        }
        self.turns = by_ratio;
        if self.members() != best {
            self.rebuild(base, &best);
        }
        self.take_risks(base);
        self.put_biggest_first(base);
        let found = self.finish();
        self.what_if.rollback(base);
        if self.moved {
            self.verdicts.restore();
        }
        (found, (self.verdicts, self.turn))
    }

    /// Whoever nothing is known of is asked first, if that is not nearly everybody: who cannot go need not be tried in
    /// other ways. Then come some of those that are due, each in its turn, and last of all the sets.
    fn catch_up(&mut self) {
        let alone = |at: &usize| [self.candidates[*at].node as u32];
        let all = 0..self.candidates.len();
        let unknown: Vec<usize> = all.clone().filter(|at| self.verdicts.get(&alone(at)).is_none()).collect();
        if unknown.len() * FEW > self.candidates.len() {
            return self.verdicts.drop_due();
        }
        let known_but_due = |at: &usize| self.verdicts.get(&alone(at)).is_some() && self.verdicts.is_due(&alone(at));
        let mut due: Vec<usize> = all.filter(known_but_due).collect();
        due.sort_unstable_by_key(|at| (self.candidates[*at].node < self.turn, self.candidates[*at].node));
        due.truncate(self.rules.policy.patience);
        self.turn = due.last().map_or(self.turn, |at| self.candidates[*at].node + 1);
        self.ask(&unknown);
        self.ask(&due);
        self.behind = due.len() == self.rules.policy.patience;
        if !self.behind {
            self.verdicts.drop_due();
        }
    }

    /// The one candidate that saves most alone; of equals the first.
    fn best_single(&mut self) -> Option<usize> {
        let free: Vec<usize> = (0..self.candidates.len()).filter(|at| self.is_free(*at)).collect();
        let answers = self.sweep(&free);
        let saving = free.iter().zip(&answers).filter_map(|(at, answer)| Some((answer.as_ref().ok()?.savings, *at)));
        saving.max_by_key(|(savings, at)| (*savings, usize::MAX - at)).map(|(_, at)| at)
    }

    fn savings(&self) -> i64 {
        self.taken.iter().map(|taken| taken.trial.savings).sum()
    }

    /// Where budgets let some go before others, those go first that save most with each node, if that makes no other difference.
    fn put_biggest_first(&mut self, base: Mark) {
        let of_pool = |pool: usize| self.pool_of.iter().filter(|of| **of == pool).count();
        let is_short = (0..self.most.len()).any(|pool| of_pool(pool) > self.most[pool] as usize);
        if !is_short || self.taken.len() > MOST_ONE_BY_ONE {
            return;
        }
        let each = |taken: &Taken| taken.trial.savings / taken.members.len().max(1) as i64;
        let mut order: Vec<&Taken> = self.taken.iter().collect();
        order.sort_by_key(|taken| std::cmp::Reverse(each(taken)));
        let sets: Vec<Vec<usize>> = order.into_iter().map(|taken| taken.members.clone()).collect();
        let (before, savings) = (self.members(), self.savings());
        if sets == before {
            return;
        }
        self.rebuild(base, &sets);
        if self.members() != sets || self.savings() != savings {
            self.rebuild(base, &before);
        }
    }

    fn members(&self) -> Vec<Vec<usize>> {
        self.taken.iter().map(|taken| taken.members.clone()).collect()
    }

    /// Takes of these commands, one after the other, what budgets let go now, and then what else is worth it.
    pub(crate) fn follow(mut self, plan: &[Vec<usize>]) -> Found {
        let base = self.what_if.mark();
        for members in plan {
            let now = self.now(members);
            let whole = now.len() == members.len();
            if whole || self.is_open_to(members) && !self.take_in_waves(members, Waves::ThatSaveAtOnce) {
                self.take(&now);
            }
        }
        self.take_all(None);
        self.hold_together(base);
        self.put_biggest_first(base);
        self.finish_at(base)
    }

    /// Takes the first of these commands that can be begun, though it pays only once all of its nodes are gone.
    pub(crate) fn begin(mut self, plan: &[Vec<usize>]) -> Found {
        let base = self.what_if.mark();
        'begun: for members in plan {
            // Whichever of them goes first, as long as what is bought is for its pods too.
            for first in members {
                let rest = members.iter().filter(|at| *at != first);
                let order: Vec<usize> = std::iter::once(first).chain(rest).copied().collect();
                if self.is_open_to(&order) && self.take_in_waves(&order, Waves::Any) {
                    break 'begun;
                }
            }
        }
        self.finish_at(base)
    }

    fn finish_at(mut self, base: Mark) -> Found {
        let found = self.finish();
        self.what_if.rollback(base);
        found
    }

    /// By pool: what one more command may have.
    fn units(&self) -> Vec<u32> {
        self.left.iter().zip(&self.most).map(|(left, most)| *left.min(most)).collect()
    }

    /// Those of a set that budgets let go now.
    fn now(&self, members: &[usize]) -> Vec<usize> {
        let mut left = self.units();
        let fits = |at: &usize| {
            let left = &mut left[self.pool_of[*at]];
            let fits = *left > 0 && self.is_untouched(*at);
            *left -= u32::from(fits);
            fits
        };
        members.iter().copied().filter(fits).collect()
    }

    fn is_open_to(&self, members: &[usize]) -> bool {
        members.iter().any(|at| self.is_free(*at)) && members.iter().all(|at| self.is_untouched(*at))
    }

    /// Judges a set of which budgets let only some go now: what takes its place is bought at once, and has room for the
    /// nodes that follow. What would be there for nobody for a while is not bought, and those that need it stay.
    fn take_in_waves(&mut self, members: &[usize], waves: Waves) -> bool {
        let mark = self.what_if.mark();
        let Ok(trial) = self.judge(members).and_then(|draft| draft.finish(self.what_if, self.rules)) else {
            self.what_if.rollback(mark);
            return false;
        };
        let now = self.now(members);
        let needed = self.bought_for(&now, &trial);
        if needed.len() < trial.replacements.len() {
            self.what_if.rollback(mark);
            let others: BTreeSet<usize> = (0..trial.replacements.len()).filter(|new| !needed.contains(new)).collect();
            let stays = |at: &usize| self.bought_for(&[*at], &trial).is_disjoint(&others);
            let fewer: Vec<usize> = members.iter().copied().filter(stays).collect();
            // With as many it would be the same again: what is bought is for pods of none of them.
            let is_another = now.len() < fewer.len() && fewer.len() < members.len();
            return is_another && self.take_in_waves(&fewer, waves);
        }
        let price = |members: &[usize]| members.iter().map(|at| self.candidates[*at].price.0 as i64).sum::<i64>();
        let worth_it = match waves {
            Waves::ThatSaveAtOnce => trial.savings - price(members) + price(&now) > 0,
            Waves::Any => trial.savings * LEAST_OF_WAVES >= self.rules.price.0 as i64,
        };
        let holds = !trial.replacements.is_empty()
            && worth_it
            && !self.is_refused(&now, &trial)
            && self.what_if.holds_beside()
            && self.is_scattered(mark, members, &trial);
        match holds {
            true => self.keep(mark, members.to_vec(), trial),
            false => self.what_if.rollback(mark),
        }
        holds
    }

    /// The replacements that pods of these go to.
    fn bought_for(&self, members: &[usize], trial: &Trial) -> BTreeSet<usize> {
        let pods: FxHashSet<usize> = members.iter().flat_map(|at| &self.candidates[*at].pods).copied().collect();
        let moves = trial.moves.iter().filter(|moved| pods.contains(&moved.pod));
        let to = moves.filter_map(|moved| match moved.to {
            Target::Replacement(new) => Some(new),
            Target::Node(_) => None,
        });
        to.collect()
    }

    /// Takes these and nothing else.
    fn rebuild(&mut self, base: Mark, sets: &[Vec<usize>]) {
        self.restart(base);
        for members in sets {
            if members.iter().all(|at| self.is_free(*at)) && self.now(members).len() == members.len() {
                self.take(members);
            } else if self.is_open_to(members) {
                self.take_in_waves(members, Waves::Any);
            }
        }
    }

    fn restart(&mut self, base: Mark) {
        self.what_if.rollback(base);
        if std::mem::take(&mut self.moved) {
            self.verdicts.restore();
        }
        self.left = self.budget.values().copied().collect();
        self.gone.fill(false);
        self.later.fill(false);
        self.receives.fill(None);
        self.taken.clear();
        self.scattered.iter_mut().for_each(Scattered::restart);
    }

    fn take_all(&mut self, start: Option<Vec<usize>>) {
        if let Some(start) = start {
            self.take(&start);
        }
        self.take_deletions();
        loop {
            // Sets rest on so much that whatever happens may concern them: they wait until everybody is caught up with.
            if !self.behind {
                self.take_prefixes();
            }
            let before = self.taken.len();
            self.take_singles();
            self.take_groups();
            if self.taken.len() == before {
                return;
            }
        }
    }

    /// After everything that is sure.
    fn take_risks(&mut self, base: Mark) {
        let sure = self.taken.len();
        self.bold = self.rules.risk.is_some();
        if self.bold {
            self.take_all(None);
        }
        if self.taken.len() > sure {
            self.hold_together(base);
        }
    }

    /// Still there, not needed by another command, and within budget.
    fn is_free(&self, at: usize) -> bool {
        self.is_untouched(at) && self.left[self.pool_of[at]] > 0
    }

    fn is_untouched(&self, at: usize) -> bool {
        !self.gone[at] && !self.later[at] && self.receives[at].is_none()
    }

    /// As many free candidates as budgets allow at once, best ratio first.
    fn within_budgets(&self) -> Vec<usize> {
        let mut left = self.units();
        let fits = |at: &usize| {
            let left = &mut left[self.pool_of[*at]];
            let fits = *left > 0;
            *left -= u32::from(fits);
            fits
        };
        (0..self.candidates.len()).filter(|at| self.is_free(*at)).collect::<Vec<_>>().into_iter().filter(fits).collect()
    }

    fn nodes_of(&self, members: &[usize]) -> Vec<u32> {
        members.iter().map(|at| self.candidates[*at].node as u32).collect()
    }

    fn judge(&mut self, members: &[usize]) -> Result<Draft, Reason> {
        let candidates: Vec<&Candidate> = members.iter().map(|at| &*self.candidates[*at]).collect();
        trial::consolidate(self.what_if, self.rules, &candidates)
    }

    /// Judges, and takes back; or knows the answer.
    fn probe(&mut self, members: &[usize]) -> Verdict {
        let nodes = self.nodes_of(members);
        if let Some(known) = self.verdicts.get(&nodes) {
            return known.clone();
        }
        let mark = self.what_if.mark();
        let answer = self.judge(members).map(|draft| draft.worth());
        self.verdicts.put(&nodes, answer.clone(), self.what_if.rests_on(mark));
        self.what_if.rollback(mark);
        answer
    }

    /// Judges, and keeps what is worth it.
    fn take(&mut self, members: &[usize]) -> bool {
        let nodes = self.nodes_of(members);
        if matches!(self.verdicts.get(&nodes), Some(Err(_))) || self.now(members).len() < members.len() {
            return false;
        }
        let mark = self.what_if.mark();
        let answer = self.judge(members);
        match answer.and_then(|draft| draft.finish(self.what_if, self.rules)) {
            Ok(trial)
                if !self.is_refused(members, &trial)
                    && self.what_if.holds_beside()
                    && self.is_scattered(mark, members, &trial) =>
            {
                self.keep(mark, members.to_vec(), trial);
                true
            }
            Ok(_) => {
                self.what_if.rollback(mark);
                false
            }
            Err(reason) => {
                self.verdicts.put(&nodes, Err(reason), self.what_if.rests_on(mark));
                self.what_if.rollback(mark);
                false
            }
        }
    }

    /// Whether validation refused this command, and nothing it depends on has changed since.
    fn is_refused(&self, members: &[usize], trial: &Trial) -> bool {
        self.refused(members, trial.replacements.len())
    }

    fn refused(&self, members: &[usize], replacements: usize) -> bool {
        let names = || members.iter().map(|at| self.candidates[*at].name.clone()).collect();
        !self.rules.refused.is_empty() && self.rules.refused.contains(&Refused { nodes: names(), replacements })
    }

    fn keep(&mut self, mark: Mark, members: Vec<usize>, trial: Trial) {
        if !std::mem::replace(&mut self.moved, true) {
            self.verdicts.mark();
        }
        let (what_if, changes) = (&*self.what_if, self.what_if.changes_since(mark));
        match self.behind {
            true => self.verdicts.postpone(&changes),
            false => self.verdicts.forget(&changes, |rests, node| what_if.still_takes(rests, node)),
        }
        self.what_if.settle();
        if self.scattered.is_some() {
            let (nodes, pods, rooms) = self.leaving(&members, &trial);
            self.scattered.iter_mut().for_each(|scattered| scattered.leave(&nodes, &pods, &rooms));
        }
        let now = self.now(&members);
        let later: Vec<usize> = members.iter().copied().filter(|at| !now.contains(at)).collect();
        later.iter().for_each(|at| self.later[*at] = true);
        for at in now {
            self.gone[at] = true;
            self.left[self.pool_of[at]] -= 1;
        }
        for moved in &trial.moves {
            if let Target::Node(node) = moved.to
                && let Some(at) = self.at_node.get(&node)
            {
                self.receives[*at].get_or_insert(self.taken.len());
            }
        }
        self.taken.push(Taken { members, later, trial });
    }

    /// Nodes whose pods fit on others, as they come.
    fn take_deletions(&mut self) {
        for at in self.turns.clone().iter().copied() {
            // Who cannot go at all cannot go without a replacement.
            let known = self.verdicts.get(&[self.candidates[at].node as u32]);
            if !self.is_free(at) || known.is_some_and(Result::is_err) {
                continue;
            }
            let mark = self.what_if.mark();
            match trial::delete(self.what_if, self.rules, &self.candidates[at]) {
                Ok(trial)
                    if !self.is_refused(&[at], &trial)
                        && self.what_if.holds_beside()
                        && self.is_scattered(mark, &[at], &trial) =>
                {
                    self.keep(mark, vec![at], trial);
                }
                _ => self.what_if.rollback(mark),
            }
        }
    }

    /// Every candidate alone.
    fn take_singles(&mut self) {
        let free: Vec<usize> = self.turns.iter().copied().filter(|at| self.is_free(*at)).collect();
        let promising = self.sweep(&free);
        for (at, answer) in free.into_iter().zip(promising) {
            if answer.is_ok() && self.is_free(at) {
                self.take(&[at]);
            }
        }
    }

    /// What each candidate would come to alone.
    fn sweep(&mut self, list: &[usize]) -> Vec<Verdict> {
        let alone = |at: &usize| [self.candidates[*at].node as u32];
        let open: Vec<usize> = list.iter().filter(|at| self.verdicts.get(&alone(at)).is_none()).copied().collect();
        self.ask(&open);
        let known = |at: &usize| self.verdicts.get(&[self.candidates[*at].node as u32]).cloned();
        list.iter().map(|at| known(at).expect("what was open was just asked")).collect()
    }

    /// Asks about each alone, as things are. Threads share the work; each answer depends on nothing but the question, so
    /// it does not matter who gives it.
    fn ask(&mut self, open: &[usize]) {
        let threads = self.rules.policy.threads.min(open.len() / LEAST_FOR_A_THREAD).max(1);
        let (rules, candidates) = (self.rules, self.candidates);
        let mut parts = open.chunks(open.len().div_ceil(threads).max(1));
        let mine = parts.next().unwrap_or_default();
        let answers = std::thread::scope(|scope| {
            let other = |part: &'_ [usize]| {
                let (part, mut what_if) = (part.to_vec(), self.what_if.clone());
                scope.spawn(move || ask_each(&mut what_if, rules, candidates, &part))
            };
            let others: Vec<_> = parts.map(other).collect();
            let mut answers = ask_each(self.what_if, rules, candidates, mine);
            for other in others {
                answers.extend(other.join().expect("a thread panics only by our bug"));
            }
            answers
        });
        for (at, (answer, rests)) in open.iter().zip(answers) {
            self.verdicts.put(&[candidates[*at].node as u32], answer, rests);
        }
    }

    /// Many at once, as long as there are not too many to choose from.
    fn take_prefixes(&mut self) {
        let often = self.candidates.len() <= MOST_FOR_STARTS;
        while let Some(members) = self.best_of_prefixes() {
            if !self.take(&members) || !often {
                return;
            }
        }
    }

    fn best_of_prefixes(&mut self) -> Option<Vec<usize>> {
        let tried = [self.best_prefix(1), self.best_prefix(usize::MAX)];
        let best = tried.into_iter().flatten().max_by_key(|(members, savings)| (*savings, usize::MAX - members.len()));
        best.map(|(members, _)| members)
    }

    /// Searches the prefixes of the free candidates by halves, as the reference does, and gives the one that saves most
    /// of those it came by.
    fn best_prefix(&mut self, most_new: usize) -> Option<(Vec<usize>, i64)> {
        let list = self.within_budgets();
        let mut best: Option<(usize, i64)> = None;
        let (mut low, mut high) = (2, list.len().min(LONGEST_PREFIX + 1));
        while low <= high && list.len() >= 2 {
            // The reference counts from 1 to one less, and rounds down there.
            let middle = (low - 1).midpoint(high - 1) + 1;
            match self.probe(&list[..middle]) {
                Ok(worth) if worth.replacements <= most_new && !self.refused(&list[..middle], worth.replacements) => {
                    if best.is_none_or(|(_, savings)| worth.savings > savings) {
                        best = Some((middle, worth.savings));
                    }
                    low = middle + 1;
                }
                _ => high = middle - 1,
            }
        }
        best.map(|(length, savings)| (list[..length].to_vec(), savings))
    }

    /// Neighbours by ratio, and all of a pool, repacked together.
    fn take_groups(&mut self) {
        for size in GROUPS {
            let list = self.within_budgets();
            if list.len() > MOST_FOR_GROUPS {
                return;
            }
            let mut at = 0;
            while at + size <= list.len() {
                let group = &list[at..at + size];
                let taken = group.iter().all(|at| self.is_free(*at)) && self.take(group);
                at += if taken { size } else { size.div_ceil(2) };
            }
        }
        self.take_pairs();
        let list = self.within_budgets();
        let mut by_pool: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
        list.iter().for_each(|at| by_pool.entry(&self.candidates[*at].pool).or_default().push(*at));
        let groups: Vec<Vec<usize>> = by_pool.into_values().filter(|group| group.len() > 1).collect();
        for group in groups {
            if group.iter().all(|at| self.is_free(*at)) {
                self.take(&group);
            }
        }
    }

    /// Any two, where few are left: none of them need be neighbours by ratio.
    fn take_pairs(&mut self) {
        let list = self.within_budgets();
        if list.len() > MOST_FOR_PAIRS {
            return;
        }
        for (at, first) in list.iter().enumerate() {
            for second in &list[at + 1..] {
                let pair = [*first, *second];
                if self.now(&pair).len() == 2 && self.take(&pair) {
                    break;
                }
            }
        }
    }

    /// Drops what does not hold together with the rest.
    fn hold_together(&mut self, base: Mark) {
        let all = self.members();
        if all.len() <= 1 {
            return;
        }
        if self.is_housed(base, all.len()) {
            // Judged once more, nothing else comes out: what is known then holds.
            let (before, known) = (std::mem::take(&mut self.taken), std::mem::take(&mut self.verdicts));
            self.rebuild(base, &all);
            let same = self.taken == before;
            (self.verdicts, self.moved) = (known, true);
            if !same {
                self.rebuild(base, &all);
            }
            return;
        }
        if all.len() > MOST_ONE_BY_ONE {
            return self.hold_deletions_together(base);
        }
        let mut kept: Vec<Vec<usize>> = Vec::new();
        for one in all {
            kept.push(one);
            self.rebuild(base, &kept);
            if self.taken.len() < kept.len() || !self.is_housed(base, kept.len()) {
                kept.pop();
            }
        }
        self.rebuild(base, &kept);
    }

    /// With many commands only those that buy nothing are held together: packing what hundreds of replacements are bought
    /// for anew says little about each of them.
    fn hold_deletions_together(&mut self, base: Mark) {
        let (deletions, others): (Vec<Taken>, Vec<Taken>) =
            std::mem::take(&mut self.taken).into_iter().partition(|taken| taken.trial.replacements.is_empty());
        self.taken = deletions;
        let all = self.members();
        let mut fits = all.len();
        if fits > 1 && !self.is_housed(base, fits) {
            // One alone always holds; all of them do not.
            let mut fails = fits;
            fits = 1;
            while fails - fits > all.len() / 64 + 1 {
                let middle = fits.midpoint(fails);
                if self.is_housed(base, middle) { fits = middle } else { fails = middle }
            }
        }
        let others = others.into_iter().map(|taken| taken.members);
        let sets: Vec<Vec<usize>> = all[..fits].iter().cloned().chain(others).collect();
        self.rebuild(base, &sets);
    }

    /// Whether kube-scheduler, which scatters pods, finds room for those of one command more, if it was asked. The what-if
    /// was at the mark before it came to the command.
    fn is_scattered(&mut self, mark: Mark, members: &[usize], trial: &Trial) -> bool {
        if !self.rules.policy.as_scheduled || self.bold && self.is_worth_the_risk(trial) {
            return true;
        }
        let (nodes, pods, rooms) = self.leaving(members, trial);
        // Whatever is taken was asked about: the first time nothing is.
        let scattered = self.scattered.get_or_insert_with(|| {
            let mut before = self.what_if.clone();
            before.rollback(mark);
            Scattered::new(before)
        });
        scattered.has_room(&nodes, &pods, &rooms)
    }

    fn is_worth_the_risk(&self, trial: &Trial) -> bool {
        let least = |risk: MicroUsd| risk.0 as i64 * trial.moves.len() as i64;
        self.rules.risk.is_some_and(|risk| trial.savings >= least(risk))
    }

    /// What a command takes away, and what it brings.
    fn leaving(&self, members: &[usize], trial: &Trial) -> (Vec<usize>, Vec<usize>, Vec<Room>) {
        let candidates = || members.iter().map(|at| &self.candidates[*at]);
        let nodes = candidates().map(|candidate| candidate.node).collect();
        let pods = candidates().flat_map(|candidate| candidate.pods.iter().copied()).collect();
        let room =
            |new: &Replacement| Room { pool: new.node.pool, instance_type: new.node.launch.instance_type.clone() };
        (nodes, pods, trial.replacements.iter().map(room).collect())
    }

    /// All nodes of the first commands gone at once: do their pods find room for no more than was bought? Leaves the
    /// what-if at its base.
    fn is_housed(&mut self, base: Mark, count: usize) -> bool {
        self.what_if.rollback(base);
        let taken = &self.taken[..count];
        let members = || taken.iter().flat_map(|taken| &taken.members).map(|at| &self.candidates[*at]);
        let nodes: Vec<usize> = members().map(|candidate| candidate.node).collect();
        let pods: Vec<usize> = members().flat_map(|candidate| candidate.pods.iter().copied()).collect();
        let bought = taken.iter().flat_map(|taken| &taken.trial.replacements);
        let bought: MicroUsd = bought.map(|replacement| replacement.node.launch.price).sum();
        let (price, limit) = match &mut self.check {
            Some((check, alone)) => (housed_for(check, &nodes, &pods, usize::MAX), bought + *alone),
            None => {
                // Nothing was bought: the first new node ends it.
                let most_new = if bought == MicroUsd(0) { 0 } else { usize::MAX };
                (housed_for(self.what_if, &nodes, &pods, most_new), bought)
            }
        };
        price.is_some_and(|price| price <= limit)
    }

    /// With everything taken, why each of the others stays.
    fn finish(&mut self) -> Found {
        let mut found = Found { kept: vec![None; self.candidates.len()], ..Found::default() };
        for at in (0..self.candidates.len()).filter(|at| self.later[*at]) {
            found.held_back = true;
            found.kept[at] = Some(self.over_budget(at));
        }
        let asked: Vec<usize> = (0..self.candidates.len()).filter(|at| self.is_untouched(*at)).collect();
        let answers = self.sweep(&asked);
        let due = |at: &&usize| self.verdicts.is_due(&[self.candidates[**at].node as u32]);
        found.due = asked.iter().filter(due).count();
        for (at, answer) in asked.into_iter().zip(answers) {
            found.kept[at] = Some(match answer {
                Err(reason) => reason,
                Ok(Worth { savings, .. }) if self.is_free(at) => {
                    self.left_out(at, MicroUsd(savings.max(0).unsigned_abs()))
                }
                Ok(_) => {
                    found.held_back = true;
                    self.over_budget(at)
                }
            });
        }
        for (kept, receives) in found.kept.iter_mut().zip(&self.receives) {
            if let Some(command) = receives {
                *kept = Some(Reason::ReceivesPods { command: *command });
            }
        }
        found.taken = std::mem::take(&mut self.taken);
        found
    }

    /// Why what is worth taking was not taken.
    fn left_out(&mut self, at: usize, savings: MicroUsd) -> Reason {
        let mark = self.what_if.mark();
        let trial = self.judge(&[at]).and_then(|draft| draft.finish(self.what_if, self.rules));
        let fits = trial.is_ok_and(|trial| self.is_scattered(mark, &[at], &trial));
        self.what_if.rollback(mark);
        match !self.rules.policy.as_scheduled || fits {
            true => Reason::NotWithOthers { savings },
            false => Reason::NotAsScheduled { savings },
        }
    }

    fn over_budget(&self, at: usize) -> Reason {
        let pool = self.candidates[at].pool.clone();
        let allowed = self.budget.get(&pool).copied().unwrap_or(0);
        let consumed = allowed.saturating_sub(self.left[self.pool_of[at]]);
        Reason::Budget { pool, reason: "Underutilized", allowed, consumed }
    }
}

/// Each candidate alone, every answer taken back, with what it rests on.
fn ask_each<'w>(
    what_if: &mut WhatIf<'w>,
    rules: &Rules<'_, 'w>,
    candidates: &[Arc<Candidate>],
    list: &[usize],
) -> Vec<(Verdict, Rests)> {
    let ask = |at: &usize| {
        let mark = what_if.mark();
        let answer = trial::consolidate(what_if, rules, &[&candidates[*at]]).map(|draft| draft.worth());
        let rests = what_if.rests_on(mark);
        what_if.rollback(mark);
        (answer, rests)
    };
    list.iter().map(ask).collect()
}

/// What is bought when these nodes go at once; nothing where somebody finds no place. Leaves no trace.
fn housed_for(what_if: &mut WhatIf<'_>, nodes: &[usize], pods: &[usize], most_new: usize) -> Option<MicroUsd> {
    let mark = what_if.mark();
    let price = what_if.leave_for(nodes, pods, most_new).ok().map(|housing| {
        let price = |new| {
            let kinds: Vec<usize> = what_if.offers(new, Narrowing::None).iter().map(|offer| offer.kind).collect();
            let launch = what_if.launch(new, Narrowing::None, &kinds);
            launch.map_or(MicroUsd::UNKNOWN, |launch| launch.price)
        };
        (0..housing.new_nodes).map(price).sum()
    });
    what_if.rollback(mark);
    price
}

/// The first of each pool, then the second of each: no pool waits for another. Pools go by name.
fn interleaved(candidates: &[Arc<Candidate>]) -> Vec<usize> {
    let mut by_pool: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
    for (at, candidate) in candidates.iter().enumerate() {
        by_pool.entry(&candidate.pool).or_default().push(at);
    }
    let longest = by_pool.values().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|round| by_pool.values().filter_map(move |of_pool| of_pool.get(round).copied())).collect()
}

/// The dearest first, of equals as before.
fn by_price(turns: &[usize], candidates: &[Arc<Candidate>]) -> Arc<[usize]> {
    let mut order = turns.to_vec();
    order.sort_by_key(|at| std::cmp::Reverse(candidates[*at].price));
    order.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_take_turns_by_name_and_each_sends_its_best_first() {
        // covers: DIS-SINGLE-01, DIS-SINGLE-07
        let candidate = |name: &str, pool: &str, price: u64| {
            Arc::new(Candidate {
                node: 0,
                name: name.into(),
                claim: name.into(),
                pool: pool.into(),
                price: MicroUsd(price),
                cost: 2.0,
                pods: vec![0],
            })
        };
        let mut all = vec![
            candidate("a", "z", 10),
            candidate("b", "z", 30),
            candidate("c", "m", 5),
            candidate("d", "z", 20),
            candidate("e", "m", 40),
            candidate("f", "b", 1),
        ];
        crate::candidate::sort(&mut all);
        let order: Vec<&str> = interleaved(&all).into_iter().map(|at| &*all[at].name).collect();
        assert_eq!(order, ["f", "e", "b", "c", "d", "a"]);
    }
}
