//! Answers that are kept are carried out side by side, in any order: what each does to spreads must hold if it alone is
//! carried out, and when all of them are.
//!
//! Each answer is judged on a cluster in which those before it are done already. There a pod may go where it could not go
//! before them, and where others went earlier it may become too full for them, since what leaves a domain lowers the least
//! count. As an independent judge must, pods that came with an answer and are only counted do not speak against anybody:
//! they may have come last.

use rustc_hash::{FxHashMap, FxHashSet};

use super::WhatIf;
use crate::groups::{GroupId, Kind};
use crate::problem::Problem;
use crate::state::{Slot, State};

/// What the answers that were kept did to spreads over domains.
#[derive(Clone, Default)]
pub(super) struct Beside {
    kept: Vec<Effect>,
    /// Of all of them.
    sum: FxHashMap<(GroupId, usize), Shift>,
}

#[derive(Clone, Default)]
struct Effect {
    /// How long the state's log was when the answer was kept.
    until: usize,
    shifts: FxHashMap<(GroupId, usize), Shift>,
    owners: FxHashSet<Owner>,
}

/// By how much the count of a domain differs.
#[derive(Clone, Copy, Default)]
struct Shift {
    all: i64,
    /// Of these, pods that do not carry the constraint themselves.
    bystanders: i64,
}

/// Pods that came into a domain and mind how full it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Owner {
    group: GroupId,
    domain: usize,
    class: usize,
    variant: usize,
}

impl Beside {
    /// What was kept since is no longer.
    pub(super) fn rollback(&mut self, log: usize) {
        while let Some(last) = self.kept.pop_if(|last| last.until > log) {
            for (at, shift) in last.shifts {
                let sum = self.sum.entry(at).or_default();
                sum.all -= shift.all;
                sum.bystanders -= shift.bystanders;
            }
        }
    }

    fn since(&self) -> usize {
        self.kept.last().map_or(0, |last| last.until)
    }
}

impl WhatIf<'_> {
    /// Whether the last answer, which is not kept yet, holds without the ones that are, and they hold with it.
    pub fn holds_beside(&mut self) -> bool {
        if self.beside.kept.is_empty() {
            return true;
        }
        let mine = self.effect();
        if mine.shifts.is_empty() && mine.owners.is_empty() {
            return true;
        }
        let none = FxHashMap::default();
        let changed: FxHashSet<GroupId> = mine.shifts.keys().map(|(group, _)| *group).collect();
        let others = self.beside.kept.iter().flat_map(|effect| &effect.owners);
        let others: FxHashSet<Owner> = others.filter(|owner| changed.contains(&owner.group)).copied().collect();
        let mut with = self.beside.sum.clone();
        for (at, shift) in &mine.shifts {
            with.entry(*at).or_default().bystanders += shift.bystanders;
        }
        let (problem, state) = (&mut self.problem, &self.state);
        mine.owners.iter().all(|owner| problem.fits_still(state, owner, &self.beside.sum, &mine.shifts))
            && mine.owners.iter().chain(&others).all(|owner| problem.fits_still(state, owner, &none, &with))
    }

    /// Notes what the last answer did, which is about to be kept.
    pub(super) fn note_effect(&mut self) {
        let effect = self.effect();
        for (at, shift) in &effect.shifts {
            let sum = self.beside.sum.entry(*at).or_default();
            sum.all += shift.all;
            sum.bystanders += shift.bystanders;
        }
        self.beside.kept.push(effect);
    }

    /// What was done since an answer was last kept.
    fn effect(&mut self) -> Effect {
        let mut effect = Effect { until: self.state.log_length() + 1, ..Effect::default() };
        for (group, domain) in self.state.uncounted_since(self.beside.since()) {
            if self.problem.groups.get(group).kind == Kind::Spread {
                effect.shifts.entry((group, domain)).or_default().all -= 1;
            }
        }
        for (place, (pod, variant)) in self.state.placed_since_settled() {
            let class = self.problem.pods[pod].class;
            let of = &self.problem.classes[class];
            let (counted, owned) = (of.counted_in.clone(), of.variants[variant].owned.clone());
            for group in &owned {
                if let Some(domain) = self.problem.domain_at(&self.state, *group, place) {
                    effect.owners.insert(Owner { group: *group, domain, class, variant });
                }
            }
            for group in counted {
                if let Some(domain) = self.problem.domain_at(&self.state, group, place) {
                    let shift = effect.shifts.entry((group, domain)).or_default();
                    shift.all += 1;
                    shift.bystanders += i64::from(!owned.contains(&group));
                }
            }
        }
        effect
    }
}

impl Problem<'_> {
    /// The domain of a place for a spread over domains, where it counts there.
    fn domain_at(&mut self, state: &State, group: GroupId, place: Slot) -> Option<usize> {
        let table =
            self.domains.groups[group.0 as usize].table.filter(|_| self.groups.get(group).kind == Kind::Spread)?;
        match place {
            Slot::Node(node) => match self.slot_on_node(group, node)? {
                Slot::Domain(domain) => Some(domain),
                Slot::Node(_) | Slot::Claim(_) => None,
            },
            Slot::Claim(claim) => self.settled_domains(state, claim, table, Kind::Spread).first().copied(),
            Slot::Domain(_) => None,
        }
    }

    /// Whether a domain is not too full for a pod in it, when these shifts are not made, and bystanders of those do not count.
    fn fits_still(
        &mut self,
        state: &State,
        owner: &Owner,
        without: &FxHashMap<(GroupId, usize), Shift>,
        bystanders: &FxHashMap<(GroupId, usize), Shift>,
    ) -> bool {
        let Owner { group, domain, class, variant } = *owner;
        let counts = &state.groups[group.0 as usize].domains;
        let count = |at: usize| i64::from(counts[at]) - without.get(&(group, at)).map_or(0, |shift| shift.all);
        let least = self.least(class, variant, group, &count);
        let here = count(domain) - bystanders.get(&(group, domain)).map_or(0, |shift| shift.bystanders);
        here - least <= self.groups.get(group).max_skew
    }
}
