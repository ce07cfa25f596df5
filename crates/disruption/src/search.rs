//! Which sets of candidates to take in one pass.
//!
//! A search takes one command after the other, each judged on the cluster that the ones before it leave behind: nodes
//! that can simply go, then many into fewer, then one for a cheaper one, until nothing is left to take. What the
//! reference would do first is one of the starts; the start that saves most is the answer. What a pass takes must hold
//! together: all its nodes gone at once, their pods find room for no more than the replacements cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::MicroUsd;
use karpenter_scheduling::what_if::{Mark, Narrowing, WhatIf};

use crate::candidate::Candidate;
use crate::command::{Move, Target};
use crate::decision::Reason;
use crate::rules::Rules;
use crate::trial::{self, Trial};

/// How many candidates a prefix has at most; the reference's number.
const LONGEST_PREFIX: usize = 100;
/// With more candidates than this only one start is tried: one command more or less no longer decides.
const MOST_FOR_STARTS: usize = 400;
/// With more commands than this the pass is checked as a whole and by halves, not command by command.
const MOST_ONE_BY_ONE: usize = 60;
/// Sizes of the groups in which candidates are tried together.
const GROUPS: [usize; 5] = [2, 3, 5, 8, 16];
/// With more candidates than this, groups are not tried at every place.
const MOST_FOR_GROUPS: usize = 200;

/// A command of the search: which candidates, and what becomes of them.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// In the order of the candidates.
    pub(crate) members: Vec<usize>,
    pub(crate) trial: Trial,
}

/// What a search came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) taken: Vec<Taken>,
    /// By candidate: why it stays.
    pub(crate) kept: Vec<Option<Reason>>,
    pub(crate) held_back: bool,
}

impl Found {
    /// Of each command.
    pub(crate) fn moves(&self) -> impl Iterator<Item = &[Move]> {
        self.taken.iter().map(|taken| &*taken.trial.moves)
    }

    pub(crate) fn savings(&self) -> i64 {
        self.taken.iter().map(|taken| taken.trial.savings).sum()
    }
}

pub(crate) struct Search<'a, 's, 'w> {
    rules: &'a Rules<'s, 'w>,
    what_if: &'a mut WhatIf<'w>,
    /// Best savings ratio first.
    candidates: &'a [Candidate],
    /// Candidates by node.
    at_node: BTreeMap<usize, usize>,
    budget: &'a BTreeMap<Arc<str>, u32>,
    left: BTreeMap<Arc<str>, u32>,
    gone: Vec<bool>,
    /// The command that moves pods onto it.
    receives: Vec<Option<usize>>,
    taken: Vec<Taken>,
}

impl<'a, 's, 'w> Search<'a, 's, 'w> {
    pub(crate) fn new(
        rules: &'a Rules<'s, 'w>,
        what_if: &'a mut WhatIf<'w>,
        candidates: &'a [Candidate],
        budget: &'a BTreeMap<Arc<str>, u32>,
    ) -> Self {
        let at_node = candidates.iter().enumerate().map(|(at, candidate)| (candidate.node, at)).collect();
        let (gone, receives) = (vec![false; candidates.len()], vec![None; candidates.len()]);
        let left = budget.clone();
        Self { rules, what_if, candidates, at_node, budget, left, gone, receives, taken: Vec::new() }
    }

    /// The best of the starts. The what-if is left as it was found.
    pub(crate) fn run(mut self) -> Found {
        let base = self.what_if.mark();
        let mut starts: Vec<Option<Vec<usize>>> = vec![None];
        if self.candidates.len() <= MOST_FOR_STARTS {
            let first = |search: &mut Self, most_new| search.best_prefix(most_new).map(|(members, _)| members);
            let tried = [first(&mut self, 1), first(&mut self, usize::MAX)];
            starts.extend(tried.into_iter().flatten().map(Some));
            starts.dedup();
        }
        let mut best: Option<Vec<Vec<usize>>> = None;
        let mut most = i64::MIN;
        for start in starts {
            self.restart(base);
            self.take_all(start);
            self.hold_together(base);
            let savings: i64 = self.taken.iter().map(|taken| taken.trial.savings).sum();
            if savings > most {
                most = savings;
                best = Some(self.taken.iter().map(|taken| taken.members.clone()).collect());
            }
        }
        self.restart(base);
        for members in best.unwrap_or_default() {
            self.take(&members);
        }
        let found = self.finish();
        self.what_if.rollback(base);
        found
    }

    fn restart(&mut self, base: Mark) {
        self.what_if.rollback(base);
        self.left = self.budget.clone();
        self.gone.fill(false);
        self.receives.fill(None);
        self.taken.clear();
    }

    fn take_all(&mut self, start: Option<Vec<usize>>) {
        if let Some(start) = start {
            self.take(&start);
        }
        loop {
            let before = self.taken.len();
            self.take_singles(Singles::Deletions);
            while let Some(members) = self.best_of_prefixes() {
                if !self.take(&members) {
                    break;
                }
            }
            self.take_singles(Singles::All);
            self.take_groups();
            if self.taken.len() == before {
                return;
            }
        }
    }

    /// Still there, not needed by another command, and within budget.
    fn is_free(&self, at: usize) -> bool {
        !self.gone[at] && self.receives[at].is_none() && self.left.get(&self.candidates[at].pool) > Some(&0)
    }

    /// As many free candidates as budgets allow at once, best ratio first.
    fn within_budgets(&self) -> Vec<usize> {
        let mut left = self.left.clone();
        let fits = |at: &usize| match left.get_mut(&self.candidates[*at].pool) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        };
        (0..self.candidates.len()).filter(|at| self.is_free(*at)).collect::<Vec<_>>().into_iter().filter(fits).collect()
    }

    fn judge(&mut self, members: &[usize]) -> Result<Trial, Reason> {
        let candidates: Vec<&Candidate> = members.iter().map(|at| &self.candidates[*at]).collect();
        trial::consolidate(self.what_if, self.rules, &candidates)
    }

    /// Judges, and takes back.
    fn probe(&mut self, members: &[usize]) -> Result<Trial, Reason> {
        let mark = self.what_if.mark();
        let answer = self.judge(members);
        self.what_if.rollback(mark);
        answer
    }

    /// Judges, and keeps what is worth it.
    fn take(&mut self, members: &[usize]) -> bool {
        let mark = self.what_if.mark();
        match self.judge(members) {
            Ok(trial) => {
                self.keep(members.to_vec(), trial);
                true
            }
            Err(_) => {
                self.what_if.rollback(mark);
                false
            }
        }
    }

    fn keep(&mut self, members: Vec<usize>, trial: Trial) {
        self.what_if.settle();
        for at in &members {
            self.gone[*at] = true;
            if let Some(left) = self.left.get_mut(&self.candidates[*at].pool) {
                *left = left.saturating_sub(1);
            }
        }
        for moved in &trial.moves {
            if let Target::Node(node) = moved.to
                && let Some(at) = self.at_node.get(&node)
            {
                self.receives[*at].get_or_insert(self.taken.len());
            }
        }
        self.taken.push(Taken { members, trial });
    }

    fn take_singles(&mut self, which: Singles) {
        for at in interleaved(self.candidates) {
            if !self.is_free(at) {
                continue;
            }
            let mark = self.what_if.mark();
            match self.judge(&[at]) {
                Ok(trial) if which == Singles::All || trial.replacements.is_empty() => self.keep(vec![at], trial),
                _ => self.what_if.rollback(mark),
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
                Ok(trial) if trial.replacements.len() <= most_new => {
                    if best.is_none_or(|(_, savings)| trial.savings > savings) {
                        best = Some((middle, trial.savings));
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

    /// Drops what does not hold together with the rest.
    fn hold_together(&mut self, base: Mark) {
        if self.taken.len() <= 1 || self.is_housed(base, self.taken.len()) {
            return;
        }
        let all = std::mem::take(&mut self.taken);
        self.restart(base);
        if all.len() > MOST_ONE_BY_ONE {
            let mut fits = all.len();
            self.taken = all;
            while fits > 1 && !self.is_housed(base, fits) {
                fits /= 2;
            }
            let kept: Vec<Vec<usize>> = self.taken[..fits].iter().map(|taken| taken.members.clone()).collect();
            self.restart(base);
            kept.iter().for_each(|members| {
                self.take(members);
            });
            return;
        }
        for one in all {
            if !self.take(&one.members) {
                continue;
            }
            if !self.is_housed_from(base) {
                let rest: Vec<Vec<usize>> =
                    self.taken[..self.taken.len() - 1].iter().map(|taken| taken.members.clone()).collect();
                self.restart(base);
                rest.iter().for_each(|members| {
                    self.take(members);
                });
            }
        }
    }

    /// After the newest command; the state is built anew.
    fn is_housed_from(&mut self, base: Mark) -> bool {
        let members: Vec<Vec<usize>> = self.taken.iter().map(|taken| taken.members.clone()).collect();
        let fine = self.is_housed(base, members.len());
        self.restart(base);
        members.iter().for_each(|members| {
            self.take(members);
        });
        fine
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
        let fine = match self.what_if.leave(&nodes, &pods) {
            Err(_) => false,
            Ok(housing) => {
                let price = |new| {
                    let kinds: Vec<usize> =
                        self.what_if.offers(new, Narrowing::None).iter().map(|offer| offer.kind).collect();
                    let launch = self.what_if.launch(new, Narrowing::None, &kinds);
                    launch.map_or(MicroUsd::UNKNOWN, |launch| launch.price)
                };
                (0..housing.new_nodes).map(price).sum::<MicroUsd>() <= bought
            }
        };
        self.what_if.rollback(base);
        fine
    }

    /// With everything taken, why each of the others stays.
    fn finish(&mut self) -> Found {
        let mut found = Found { kept: vec![None; self.candidates.len()], ..Found::default() };
        for at in 0..self.candidates.len() {
            if self.gone[at] {
                continue;
            }
            let reason = if let Some(command) = self.receives[at] {
                Reason::ReceivesPods { command }
            } else {
                match self.probe(&[at]) {
                    Err(reason) => reason,
                    Ok(_) if !self.is_free(at) => {
                        found.held_back = true;
                        let pool = self.candidates[at].pool.clone();
                        let allowed = self.budget.get(&pool).copied().unwrap_or(0);
                        let consumed = allowed - self.left.get(&pool).copied().unwrap_or(0);
                        Reason::Budget { pool, reason: "Underutilized", allowed, consumed }
                    }
                    Ok(trial) => Reason::NotWithOthers { savings: MicroUsd(trial.savings.max(0) as u64) },
                }
            };
            found.kept[at] = Some(reason);
        }
        found.taken = std::mem::take(&mut self.taken);
        found
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Singles {
    Deletions,
    All,
}

/// The first of each pool, then the second of each: no pool waits for another. Pools go by name.
fn interleaved(candidates: &[Candidate]) -> Vec<usize> {
    let mut by_pool: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
    for (at, candidate) in candidates.iter().enumerate() {
        by_pool.entry(&candidate.pool).or_default().push(at);
    }
    let longest = by_pool.values().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|round| by_pool.values().filter_map(move |of_pool| of_pool.get(round).copied())).collect()
}
