//! "These nodes gone, where do their pods go?" asked many times of one cluster.
//!
//! The cluster is compiled once. A question takes the nodes out, places their pods by the reference's order (existing
//! nodes before new ones, reservations used where they can be), and is taken back: it costs the pods it moves, not the
//! cluster. An answer that is kept is what the next question starts from.

mod base;
mod beside;
mod carry;
mod changes;
mod offers;
mod rests;
mod scatter;

use std::sync::Arc;

use karpenter_core::World;
use karpenter_core::plan::Reason;
use rustc_hash::FxHashMap;

pub use base::{Base, Shift};
pub use carry::Kept;
pub use changes::PodChanges;
pub use offers::{Narrowing, Offer};
pub use rests::{Changes, Rests};
pub use scatter::{Room, Scattered};

use crate::explain;
use crate::first_match;
use crate::groups::GroupId;
use crate::place::Reserving;
use crate::problem::Problem;
use crate::solution::BASELINE;
use crate::state::{Slot, State};
use crate::template::Template;
use crate::terms::SetId;

/// A compiled cluster and what has been asked of it so far. A copy answers the same as the original does.
#[derive(Clone)]
pub struct WhatIf<'w> {
    problem: Problem<'w>,
    state: State,
    /// By position in `World::pods`: its number in the problem.
    pod_at: Vec<u32>,
    targets: Targets,
    offers: FxHashMap<(usize, SetId), Arc<[Offer]>>,
    /// Pods that wait for a node and are placed together with those of the first answer that is kept.
    waiting: Vec<usize>,
    /// The pods that the last question was about.
    queue: Vec<usize>,
    /// How often they were tried.
    rounds: usize,
    known: carry::Known,
    beside: beside::Beside,
}

/// Nodes by their numbers as targets.
#[derive(Clone, Default)]
struct Targets {
    /// By position in `World::nodes`.
    at: Arc<[Option<u32>]>,
    named: Arc<FxHashMap<Arc<str>, usize>>,
}

impl Targets {
    fn of(problem: &Problem<'_>) -> Self {
        let world = problem.world;
        let mut at = vec![None; world.nodes.len()];
        problem.nodes.iter().enumerate().for_each(|(target, node)| at[node.index] = Some(target as u32));
        let targets = problem.nodes.iter().enumerate();
        let named = targets.map(|(target, node)| (world.nodes[node.index].name.clone(), target)).collect();
        Self { at: at.into(), named: Arc::new(named) }
    }
}

/// A point to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

/// Where every pod of the nodes that leave would go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Housing {
    /// In the order in which they were placed; the pods are positions in `World::pods`.
    pub moves: Vec<(usize, Home)>,
    /// How many new nodes it takes.
    pub new_nodes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In `World::nodes`.
    Node(usize),
    /// Of the new nodes of this answer.
    New(usize),
}

/// Why nodes cannot be missed. Pods and nodes are positions in the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Homeless {
    NoPlace {
        pod: usize,
    },
    /// The first place found is a node that is not ready for pods yet.
    NotReady {
        pod: usize,
        node: usize,
    },
}

const NONE: u32 = u32::MAX;

impl<'w> WhatIf<'w> {
    /// `movable` are the pods that questions will be about. Pods that wait for a node take what room there is first.
    pub fn new(world: &'w World, movable: &[usize]) -> Self {
        let problem = Problem::compile_with(world, movable);
        let targets = Targets::of(&problem);
        let state = State::new(&problem, BASELINE);
        Self::of(problem, state, movable, targets, carry::Known::default())
    }

    fn of(
        mut problem: Problem<'w>,
        mut state: State,
        movable: &[usize],
        targets: Targets,
        known: carry::Known,
    ) -> Self {
        let world = problem.world;
        let mut pod_at = vec![NONE; world.pods.len()];
        problem.pods.iter().enumerate().for_each(|(at, pod)| pod_at[pod.index] = at as u32);
        let mut is_movable = vec![false; world.pods.len()];
        movable.iter().for_each(|pod| is_movable[*pod] = true);
        for pod in 0..problem.pods.len() {
            if is_movable[problem.pods[pod].index] {
                continue;
            }
            // Whoever needs a new node gets it from somebody else, and takes no room here.
            let mark = state.mark();
            let _ = first_match::place(&mut problem, &mut state, pod, Reserving::Fallback);
            if !state.claims.is_empty() {
                state.rollback(mark);
            }
        }
        state.mark();
        let (offers, waiting, queue, rounds, beside) = Default::default();
        Self { problem, state, pod_at, targets, offers, waiting, queue, rounds, known, beside }
    }

    /// The same cluster, but pods that wait for a node take no room in advance: they are placed together with those that
    /// move, largest first, as the reference does. Nothing if nobody waits.
    pub fn together(&self, movable: &[usize]) -> Option<Self> {
        let mut is_movable = vec![false; self.pod_at.len()];
        movable.iter().for_each(|pod| is_movable[*pod] = true);
        let pods = self.problem.pods.iter().enumerate();
        let waiting: Vec<usize> = pods.filter(|(_, pod)| !is_movable[pod.index]).map(|(at, _)| at).collect();
        if waiting.is_empty() {
            return None;
        }
        let mut state = State::new(&self.problem, BASELINE);
        state.closed = self.state.closed.clone();
        state.mark();
        Some(Self { state, waiting, beside: beside::Beside::default(), ..self.clone() })
    }

    /// Pods of nodes that leave are not to go here.
    pub fn close(&mut self, node: usize) {
        if let Some(target) = self.targets.at[node] {
            self.state.closed.insert(target as usize);
        }
    }

    /// Closes these nodes, and answers which of them were open, for [`Self::reopen`].
    pub fn close_all(&mut self, nodes: &[usize]) -> Vec<usize> {
        let target = |node: &usize| self.targets.at[*node].map(|target| target as usize);
        let is_open = |node: &usize| target(node).is_some_and(|target| !self.state.closed.contains(target));
        let open: Vec<usize> = nodes.iter().copied().filter(is_open).collect();
        open.iter().for_each(|node| self.close(*node));
        open
    }

    pub fn reopen(&mut self, nodes: &[usize]) {
        for target in nodes.iter().filter_map(|node| self.targets.at[*node]) {
            self.state.closed.remove(target as usize);
        }
    }

    pub fn mark(&mut self) -> Mark {
        Mark(self.state.mark())
    }

    /// Takes back everything since the mark.
    pub fn rollback(&mut self, mark: Mark) {
        self.state.rollback(mark.0);
        self.beside.rollback(mark.0);
    }

    /// Keeps the answer for what follows. Its new nodes take no more pods: they are not there yet.
    pub fn settle(&mut self) {
        self.note_effect();
        self.state.settle();
    }

    /// Takes nodes out, with these pods of theirs. Whatever the answer, the state stays as it is until it is rolled back.
    pub fn leave(&mut self, nodes: &[usize], pods: &[usize]) -> Result<Housing, Homeless> {
        self.leave_for(nodes, pods, usize::MAX)
    }

    /// As [`Self::leave`], giving up as soon as it takes more new nodes than this.
    pub fn leave_for(&mut self, nodes: &[usize], pods: &[usize], most_new: usize) -> Result<Housing, Homeless> {
        let queue = self.take_out_all(nodes, pods);
        self.place_all(queue, most_new)
    }

    /// As [`Self::leave`], but only onto nodes that are there: a cheap way to find that it takes a new one.
    pub fn leave_for_existing(&mut self, nodes: &[usize], pods: &[usize]) -> Result<Housing, Homeless> {
        let queue = self.take_out_all(nodes, pods);
        self.rounds = 1;
        let start = self.state.mark();
        for pod in &queue {
            if !first_match::place_on_existing(&mut self.problem, &mut self.state, *pod) {
                return Err(Homeless::NoPlace { pod: self.problem.pods[*pod].index });
            }
        }
        self.housing(&queue, start)
    }

    /// The pods that need a place now, largest first.
    fn take_out_all(&mut self, nodes: &[usize], pods: &[usize]) -> Vec<usize> {
        let mut queue: Vec<usize> = pods.iter().map(|pod| self.pod_at[*pod] as usize).collect();
        for node in nodes {
            let Some(target) = self.targets.at[*node].map(|target| target as usize) else { continue };
            queue.extend(self.take_out(target));
        }
        // Pods are on the nodes that leave: with one node there is nothing to look up.
        let only = if let [node] = nodes { self.targets.at[*node].map(|target| target as usize) } else { None };
        for pod in pods {
            self.uncount(*pod, only);
        }
        if self.state.settlements == 0 {
            queue.extend(&self.waiting);
        }
        queue.sort_unstable();
        self.queue.clone_from(&queue);
        queue
    }

    /// Closes a node and gives back what it took of its pool's limits; answers the waiting pods that were to go there.
    fn take_out(&mut self, target: usize) -> Vec<usize> {
        let index = self.problem.nodes[target].index;
        let waiting: Vec<usize> = self.state.close(target).into_iter().map(|(pod, _)| pod).collect();
        for pod in &waiting {
            self.uncount_at(*pod, target);
        }
        let node = &self.problem.world.nodes[index];
        let of_pool = |template: &Template| node.pool() == Some(&*self.problem.world.pools[template.pool].name);
        let mut templates = self.problem.templates.iter();
        let template = templates.position(|template| template.is_limited() && !node.deleting && of_pool(template));
        if let Some(template) = template {
            let (limits, names) = (&self.problem.templates[template].limits, &self.problem.names);
            let counted = |resource| node.capacity.counted(names.name(resource)).nanos();
            let freed: Vec<_> = limits.iter().map(|(resource, _)| counted(*resource)).collect();
            self.state.credit(template, &freed);
        }
        waiting
    }

    /// A bound pod no longer counts where it is.
    fn uncount(&mut self, pod: usize, target: Option<usize>) {
        let of = &self.problem.world.pods[pod];
        let named = || of.node.as_ref().and_then(|name| self.targets.named.get(&**name).copied());
        let Some(target) = target.or_else(named) else { return };
        let class = self.problem.pods[self.pod_at[pod] as usize].class;
        let (counted, kept) = (of.is_active(), !of.is_terminal());
        self.uncount_in(class, target, counted, kept);
    }

    fn uncount_at(&mut self, pod: usize, target: usize) {
        self.uncount_in(self.problem.pods[pod].class, target, true, true);
    }

    fn uncount_in(&mut self, class: usize, target: usize, counted: bool, kept: bool) {
        let classes = self.problem.classes.clone();
        let counted = classes[class].counted_in.iter().filter(|_| counted);
        for id in counted.chain(classes[class].keeps_out.iter().filter(|_| kept)) {
            if let Some(slot) = self.problem.slot_on_node(*id, target) {
                self.state.uncount(*id, slot);
            }
        }
    }

    /// Largest first, until a full round places none.
    fn place_all(&mut self, queue: Vec<usize>, most_new: usize) -> Result<Housing, Homeless> {
        let start = self.state.mark();
        let mut waiting = queue.clone();
        self.rounds = 0;
        while !waiting.is_empty() {
            self.rounds += 1;
            let before = waiting.len();
            let (problem, state) = (&mut self.problem, &mut self.state);
            let mut too_many = None;
            waiting.retain(|pod| {
                let left = too_many.is_some() || first_match::place(problem, state, *pod, Reserving::Fallback).is_err();
                if state.claims.len() - state.settled > most_new {
                    too_many.get_or_insert(*pod);
                }
                left
            });
            if let Some(pod) = too_many {
                return Err(Homeless::NoPlace { pod: self.problem.pods[pod].index });
            }
            if waiting.len() == before {
                // Whoever waited before may go on waiting.
                match waiting.iter().find(|pod| self.waiting.binary_search(pod).is_err()) {
                    Some(pod) => return Err(Homeless::NoPlace { pod: self.problem.pods[*pod].index }),
                    None => break,
                }
            }
        }
        let placed: Vec<usize> = queue.into_iter().filter(|pod| !waiting.contains(pod)).collect();
        self.housing(&placed, start)
    }

    fn housing(&self, queue: &[usize], start: usize) -> Result<Housing, Homeless> {
        let mut homes: FxHashMap<usize, Home> = FxHashMap::default();
        let new = &self.state.claims[self.state.settled..];
        for (at, claim) in new.iter().enumerate() {
            homes.extend(claim.pods.iter().map(|(pod, _)| (*pod, Home::New(at))));
        }
        for target in self.state.filled_since(start) {
            let node = self.problem.nodes[target].index;
            homes.extend(self.state.nodes[target].pods.iter().map(|(pod, _)| (*pod, Home::Node(node))));
        }
        let mut moves = Vec::with_capacity(queue.len());
        for at in queue {
            let (pod, home) = (self.problem.pods[*at].index, homes[at]);
            match home {
                Home::Node(node)
                    if !self.problem.world.nodes[node].is_initialized() && self.waiting.binary_search(at).is_err() =>
                {
                    return Err(Homeless::NotReady { pod, node });
                }
                Home::Node(_) | Home::New(_) => moves.push((pod, home)),
            }
        }
        Ok(Housing { moves, new_nodes: new.len() })
    }

    /// Why a pod that was left without a place finds none, pool by pool.
    pub fn explain(&mut self, pod: usize) -> Option<Reason> {
        let at = self.pod_at[pod];
        (at != NONE).then(|| explain::Reasons::default().of(&mut self.problem, &self.state, at as usize))
    }
}

impl Problem<'_> {
    /// Where a pod on a node counts in a group; nowhere if the group does not look at the node.
    fn slot_on_node(&mut self, id: GroupId, node: usize) -> Option<Slot> {
        if !self.group_sees_node(id, node) {
            return None;
        }
        match self.domains.groups[id.0 as usize].table {
            None => Some(Slot::Node(node)),
            Some(table) => {
                let of = &self.domains.keys[table].nodes;
                of.iter().position(|nodes| nodes.contains(node)).map(Slot::Domain)
            }
        }
    }
}

#[cfg(test)]
mod tests;
