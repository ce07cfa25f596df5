//! The nearest miss of a pod left over: the smallest single change to one field of one object that lets it in.
//!
//! ```text
//!   reasons ─▶ candidates (pod, pool, storage) ─ screen ─▶ smallest first ─ solve the changed world ─▶ the miss
//! ```
//!
//! Candidates are guesses. What is told was verified by solving the whole changed world in every way the default may
//! choose from; where no candidate lets the pod in, nothing is told.
//! The work is counted: large worlds get fewer tries, never longer waits.

mod candidates;
mod change;
mod screen;
mod topology;

use std::ops::Range;
use std::sync::Arc;

use karpenter_core::plan::{Plan, Reason};
use karpenter_core::{Quantity, World};
use rustc_hash::{FxHashMap, FxHashSet};

pub use change::{Change, ClassChange, PodChange, PoolChange};

use crate::place::Reserving;
use crate::problem::Problem;
use crate::solution::{BASELINE, Solution};
use crate::state::State;
use crate::{best, first_match};
use screen::Screen;

/// For how many different kinds of pods candidates are looked for.
const MOST_CLASSES: usize = 200;
/// How many candidates of a pod are verified.
const MOST_TRIES: usize = 24;
/// Pods solved in all verifications together; compiling a world counts as much as [`COMPILING`] pods.
const WORK: usize = 1_000_000;
const COMPILING: usize = 2_000;

/// What a world does not know of the manifests behind it.
pub struct Written<'a> {
    /// Pods written down in the same object as this one, such as the replicas of a Deployment: they change together.
    pub together: &'a dyn Fn(usize) -> Range<usize>,
    /// The least that lowering a single field can make of what a pod takes of a resource.
    pub least: &'a dyn Fn(usize, &str) -> Quantity,
}

/// A change that was seen to let the pod in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// In `World::pods`.
    pub pod: usize,
    /// In `World::pools`: of the new node it then gets; nothing where an existing one takes it.
    pub pool: Option<usize>,
    pub change: Change,
}

/// The nearest miss of each pod the plan leaves over, where there is one. In the order of the plan.
pub fn nearest_misses(world: &World, plan: &Plan, written: &Written<'_>) -> Vec<Miss> {
    let left: Vec<usize> = plan
        .left_over
        .iter()
        .chain(&plan.ignored)
        .filter(|left| is_missed(&left.reason))
        .map(|left| left.pod)
        .collect();
    if left.is_empty() {
        return Vec::new();
    }
    let mut problem = Problem::compile(world);
    let mut state = State::new(&problem, BASELINE);
    let queue: Vec<usize> = (0..problem.pods.len()).collect();
    first_match::solve(&mut problem, &mut state, &queue, Reserving::Strict);
    let class_of: FxHashMap<usize, usize> = problem.pods.iter().map(|pod| (pod.index, pod.class)).collect();
    let mut waiting: FxHashMap<Option<usize>, u32> = FxHashMap::default();
    left.iter().for_each(|pod| *waiting.entry(class_of.get(pod).copied()).or_insert(0) += 1);

    let mut by_class: FxHashMap<usize, Arc<[Change]>> = FxHashMap::default();
    let mut trials = Trials { world, left: &left, work: WORK, known: Vec::new() };
    let mut sure: Vec<(usize, Change, Option<usize>)> = Vec::new();
    let mut misses = Vec::new();
    for pod in &left {
        let class = class_of.get(pod).copied();
        let known = class.and_then(|class| by_class.get(&class).cloned());
        if known.is_none() && by_class.len() >= MOST_CLASSES {
            continue;
        }
        let candidates = known.unwrap_or_else(|| {
            let alike = waiting.get(&class).copied().unwrap_or(1).max(1);
            let mut screen = Screen { problem: &mut problem, state: &state };
            screen.candidates(*pod, class, alike).into()
        });
        if let Some(class) = class {
            by_class.insert(class, candidates.clone());
        }
        let fits = |change: &&Change| match change {
            Change::Pod(PodChange::Request { resource, to, .. }) => *to >= (written.least)(*pod, resource),
            _ => true,
        };
        for change in candidates.iter().filter(fits).take(MOST_TRIES) {
            let alone = matches!(change, Change::Pod(_)) && (written.together)(*pod).len() <= 1;
            let same = |(of, known, _): &&(usize, Change, Option<usize>)| Some(*of) == class && known == change;
            if let Some((_, _, pool)) = sure.iter().find(same).filter(|_| alone) {
                misses.push(Miss { pod: *pod, pool: *pool, change: change.clone() });
                break;
            }
            let Some(pool) = trials.lets_in(change, *pod, written) else { continue };
            misses.push(Miss { pod: *pod, pool, change: change.clone() });
            if let Some(class) = class.filter(|class| alone && problem.always_takes(&state, *class, pool)) {
                sure.push((class, change.clone(), pool));
            }
            break;
        }
    }
    misses
}

/// Whether a pod wanted a place and found none.
fn is_missed(reason: &Reason) -> bool {
    match reason {
        Reason::Invalid { .. } | Reason::NoPools | Reason::NoInstanceTypes | Reason::Pools(_) => true,
        Reason::AvoidsManagedNodes | Reason::DevicesIgnored | Reason::ReservedCapacityDeferred => false,
    }
}

impl Problem<'_> {
    /// Whether what one pod of the class got, all others would get at any time: a new node of a pool without limits,
    /// with nothing that depends on other pods.
    fn always_takes(&self, state: &State, class: usize, pool: Option<usize>) -> bool {
        let free = |pool: usize| self.world.pools[pool].limits.is_empty();
        let variants = 0..self.classes[class].variants.len();
        pool.is_some_and(free)
            && state.reservations.is_empty()
            && !self.classes[class].has_claims
            && variants.into_iter().all(|variant| self.deciding(class, variant).next().is_none())
    }
}

/// Changed worlds that were solved.
struct Trials<'a> {
    world: &'a World,
    left: &'a [usize],
    work: usize,
    known: Vec<Trial>,
}

struct Trial {
    change: Change,
    /// The pods that were changed, where it was pods.
    pods: Range<usize>,
    /// Those of the pods left over that then have a place, with the pool of their new node.
    placed: FxHashMap<usize, Option<usize>>,
}

impl Trials<'_> {
    /// Whether the change gives the pod a place, and if so, in which pool.
    fn lets_in(&mut self, change: &Change, pod: usize, written: &Written<'_>) -> Option<Option<usize>> {
        let pods = match change {
            Change::Pod(_) => (written.together)(pod),
            Change::Pool(..) | Change::StorageClass(..) => 0..0,
        };
        let same = |trial: &Trial| trial.pods == pods && trial.change == *change;
        let at = match self.known.iter().position(same) {
            Some(at) => at,
            None => {
                let cost = self.world.pods.len() + COMPILING;
                self.work = self.work.checked_sub(cost)?;
                let placed = self.solve(change, pods.clone());
                self.known.push(Trial { change: change.clone(), pods, placed });
                self.known.len() - 1
            }
        };
        self.known[at].placed.get(&pod).copied()
    }

    fn solve(&self, change: &Change, pods: Range<usize>) -> FxHashMap<usize, Option<usize>> {
        let world = changed(self.world, change, pods);
        let mut problem = Problem::compile(&world);
        // The default may choose any of these ways, so the pod must have a place in each.
        let mut still: FxHashSet<usize> = FxHashSet::default();
        for ties in best::others(&problem) {
            let left = Solution::new(&mut problem, *ties).left_pods();
            still.extend(left.into_iter().map(|pod| problem.pods[pod].index));
        }
        let plan = best::baseline(&mut problem).into_plan(&mut problem);
        let new = plan.new_nodes.iter().flat_map(|node| node.pods.iter().map(|pod| (*pod, Some(node.pool))));
        let placed: FxHashMap<usize, Option<usize>> =
            new.chain(plan.existing.values().flatten().map(|pod| (*pod, None))).collect();
        let pods = self.left.iter().filter(|pod| !still.contains(pod));
        pods.filter_map(|pod| Some((*pod, *placed.get(pod)?))).collect()
    }
}

/// The world with the change made; `pods` are those that are written in one object.
pub fn changed(world: &World, change: &Change, pods: Range<usize>) -> World {
    let mut world = world.clone();
    match change {
        Change::Pod(change) => {
            let mut last: Option<(Arc<_>, Arc<_>)> = None;
            for pod in &mut world.pods[pods] {
                let shape = match last.take().filter(|(before, _)| Arc::ptr_eq(before, &pod.shape)) {
                    Some((_, after)) => after,
                    None => {
                        let mut shape = (*pod.shape).clone();
                        change.apply(&mut shape);
                        Arc::new(shape)
                    }
                };
                last = Some((std::mem::replace(&mut pod.shape, shape.clone()), shape));
            }
        }
        Change::Pool(pool, change) => change.apply(&mut world.pools[*pool]),
        Change::StorageClass(..) => change.on_storage(&mut world.storage),
    }
    world
}

#[cfg(test)]
mod tests;
