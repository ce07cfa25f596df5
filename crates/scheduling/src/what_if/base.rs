//! What answers were given from, and how far that has moved when they are to be used again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Changes, Rests, WhatIf};
use crate::bits::Bits;
use crate::columns::{Amount, Amounts};
use crate::state::{GroupState, NodeState};

/// Everything of a what-if that an answer can depend on and that moves between two moments.
#[derive(Clone, Debug)]
pub struct Base {
    nodes: Vec<NodeState>,
    closed: Bits,
    groups: Vec<GroupState>,
    limits: Vec<Vec<Amount>>,
    node_limits: Vec<Option<i64>>,
    reservations: BTreeMap<Arc<str>, u32>,
}

/// How a what-if differs from an earlier one over the same nodes and kinds of pods.
#[derive(Clone, Debug, Default)]
pub struct Shift {
    pub changes: Changes,
    moved: Vec<Moved>,
    /// By class, for the first 64 that moved: those that could take its pods now.
    takers: Vec<u64>,
    /// More moved than that.
    many: bool,
}

/// A target that is not as it was.
#[derive(Clone, Debug)]
struct Moved {
    target: u32,
    /// What it had left, and what it has: nothing while it is closed.
    before: Option<Amounts>,
    now: Option<Amounts>,
    /// Pods with ports or volumes are not followed.
    other_ports: bool,
    other_volumes: bool,
    /// Somebody waits for a place there, and may be somebody else each time.
    waited_for: bool,
}

impl WhatIf<'_> {
    pub fn base(&self) -> Base {
        let state = &self.state;
        Base {
            nodes: state.nodes.clone(),
            closed: state.closed.clone(),
            groups: state.groups.clone(),
            limits: state.limits.clone(),
            node_limits: state.node_limits.clone(),
            reservations: state.reservations.clone(),
        }
    }

    /// As [`Self::base`], by way of an earlier one: what is the same is not copied.
    pub fn rebase(&self, mut base: Base) -> Base {
        let state = &self.state;
        if state.nodes.len() != base.nodes.len() || state.groups.len() != base.groups.len() {
            return self.base();
        }
        for (before, now) in base.nodes.iter_mut().zip(&state.nodes) {
            if !now.same_room(before) || !now.pods.is_empty() || !before.pods.is_empty() {
                before.clone_from(now);
            }
        }
        for (before, now) in base.groups.iter_mut().zip(&state.groups) {
            if !now.same_counts(before) {
                before.clone_from(now);
            }
        }
        base.closed.clone_from(&state.closed);
        base.limits.clone_from(&state.limits);
        base.node_limits.clone_from(&state.node_limits);
        base.reservations.clone_from(&state.reservations);
        base
    }

    /// What is different from an earlier base. Whoever rests on none of it, and has no pod that is attracted, gets the
    /// same answer as before.
    pub fn shift_from(&mut self, base: &Base) -> Shift {
        let state = &self.state;
        let limits = state.limits != base.limits || state.node_limits != base.node_limits;
        let everything = state.reservations != base.reservations
            || state.groups.len() != base.groups.len()
            || state.nodes.len() != base.nodes.len()
            || !self.waiting.is_empty();
        if everything {
            return Shift { changes: Changes { everything, ..Changes::default() }, ..Shift::default() };
        }
        let groups = state.groups.iter().zip(&base.groups).enumerate();
        let groups: Vec<u32> =
            groups.filter(|(_, (now, before))| !now.same_counts(before)).map(|(at, _)| at as u32).collect();
        let moved: Vec<Moved> = (0..state.nodes.len()).filter_map(|at| self.moved(at, base)).collect();
        // Who waits for a place somewhere moves with that node: what is known of it says nothing any more.
        let waited_for = moved.iter().filter(|moved| moved.waited_for);
        let nodes = waited_for.map(|moved| self.problem.nodes[moved.target as usize].index as u32).collect();
        let takers = match moved.is_empty() {
            true => Vec::new(),
            false => (0..self.problem.classes.len()).map(|class| self.takers(class, &moved)).collect(),
        };
        let buyable = limits.then(|| self.buyable());
        let many = moved.len() > 64;
        Shift { changes: Changes { nodes, groups, buyable, everything }, moved, takers, many }
    }

    fn moved(&self, at: usize, base: &Base) -> Option<Moved> {
        let (now, before) = (&self.state.nodes[at], &base.nodes[at]);
        let (closed, was_closed) = (self.state.closed.contains(at), base.closed.contains(at));
        let waited_for = !now.pods.is_empty() || !before.pods.is_empty();
        (closed != was_closed || waited_for || !now.same_room(before)).then(|| Moved {
            target: at as u32,
            before: (!was_closed).then(|| before.free.clone()),
            now: (!closed).then(|| now.free.clone()),
            other_ports: now.ports != before.ports,
            other_volumes: now.volumes != before.volumes,
            waited_for,
        })
    }

    /// Which of the targets that moved could take pods of a class now, topology apart.
    fn takers(&mut self, class: usize, moved: &[Moved]) -> u64 {
        let mut takers = 0;
        for (at, moved) in moved.iter().take(64).enumerate() {
            if !moved.now.as_ref().is_some_and(|free| self.problem.classes[class].requests.fits(free)) {
                continue;
            }
            let problem = &mut self.problem;
            let satisfied = (0..problem.classes[class].variants.len()).any(|variant| {
                let set = problem.classes[class].variants[variant].set;
                problem.node_index.satisfying(set, &mut problem.terms).contains(moved.target as usize)
            });
            takers |= u64::from(satisfied) << at;
        }
        takers
    }

    /// Whether an answer is the same after a shift, as far as room on nodes decides it: each of its pods still goes where
    /// it went. `members` are the nodes it is about, in `World::nodes`.
    pub fn stands(&self, shift: &Shift, members: &[u32], rests: &Rests) -> bool {
        if shift.moved.is_empty() {
            return true;
        }
        if shift.many {
            return false;
        }
        let concerned = rests.steps.iter().any(|(class, to)| {
            let takers = shift.takers[*class as usize];
            let mut moved = shift.moved.iter().enumerate();
            moved.any(|(at, moved)| moved.target == *to || moved.target < *to && takers >> at & 1 == 1)
        });
        if !concerned || !rests.traced {
            let index = |moved: &Moved| self.problem.nodes[moved.target as usize].index as u32;
            return !concerned && !shift.moved.iter().any(|moved| rests.nodes.contains(&index(moved)));
        }
        self.replay(shift, members, rests)
    }

    /// Step by step, on the nodes that moved alone.
    fn replay(&self, shift: &Shift, members: &[u32], rests: &Rests) -> bool {
        let is_member = |target: u32| members.contains(&(self.problem.nodes[target as usize].index as u32));
        let mut moved: Vec<(usize, &Moved, Option<Amounts>, Option<Amounts>)> = shift
            .moved
            .iter()
            .enumerate()
            .filter(|(_, moved)| !is_member(moved.target))
            .map(|(at, moved)| (at, moved, moved.before.clone(), moved.now.clone()))
            .collect();
        for (class, to) in &rests.steps {
            let of = &self.problem.classes[*class as usize];
            for (at, moved, before, now) in &mut moved {
                let odd = moved.other_ports && !of.ports.is_empty() || moved.other_volumes && of.has_claims;
                let fits = |free: &Option<Amounts>| free.as_ref().is_some_and(|free| of.requests.fits(free));
                if moved.target == *to {
                    if odd || !fits(now) {
                        return false;
                    }
                    now.iter_mut().chain(before.iter_mut()).for_each(|free| free.subtract(&of.requests));
                } else if moved.target < *to && shift.takers[*class as usize] >> *at & 1 == 1 && fits(now) {
                    // What had room before and was passed over was refused by topology, and still is.
                    if odd || !fits(before) {
                        return false;
                    }
                }
            }
        }
        true
    }
}
