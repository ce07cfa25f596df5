//! From one moment's what-if to the next one's, without compiling the cluster again.
//!
//! Pods come and go all the time; nodes, pools, prices and kinds of pods rarely do. Where only pods that look like known
//! ones changed, the compiled cluster is brought up to date at the cost of what changed. Everything else is compiled anew.

use std::fmt;
use std::sync::Arc;

use karpenter_core::{Pod, PodShape, World};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{PodChanges, Targets, WhatIf};
use crate::admit;
use crate::existing;
use crate::groups::GroupId;
use crate::problem::{PendingPod, Problem, Tables, in_queue_order};
use crate::state::{Slot, State};

/// A compiled cluster between two moments.
pub struct Kept {
    tables: Tables,
    state: State,
    known: Known,
    targets: Targets,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("pods", &self.tables.pods.len()).finish_non_exhaustive()
    }
}

/// Classes by namespace and address of the shape, which is held so that the address stays its own.
#[derive(Clone, Default)]
pub(super) struct Known(FxHashMap<(Arc<str>, usize), (usize, Arc<PodShape>)>);

impl Known {
    /// Volumes and cluster-wide spread make classes of their own, beyond the shape.
    fn note(&mut self, pod: &Pod, class: usize) {
        if pod.claims.is_empty() {
            let key = (pod.namespace.clone(), Arc::as_ptr(&pod.shape) as usize);
            self.0.entry(key).or_insert_with(|| (class, pod.shape.clone()));
        }
    }

    fn class(&self, pod: &Pod) -> Option<usize> {
        let key = (pod.namespace.clone(), Arc::as_ptr(&pod.shape) as usize);
        self.0.get(&key).filter(|_| pod.claims.is_empty()).map(|(class, _)| *class)
    }
}

impl WhatIf<'_> {
    /// To be carried over to the next moment.
    pub fn keep(self) -> Kept {
        let mut known = self.known;
        if known.0.is_empty() {
            for pod in self.problem.pods.iter() {
                known.note(&self.problem.world.pods[pod.index], pod.class);
            }
        }
        Kept { tables: self.problem.into_tables(), state: self.state, known, targets: self.targets }
    }
}

impl Kept {
    /// The what-if of a world that differs from the one before in its pods and the time alone. Nothing where pods changed
    /// in a way that cannot be carried over. `pods_on` tells the pods of a node in `World::nodes` as they are now.
    pub fn carry<'w, 'p>(
        self,
        before: &World,
        now: &'w World,
        changes: &PodChanges,
        movable: &[usize],
        pods_on: impl Fn(usize) -> &'p [usize],
    ) -> Option<WhatIf<'w>> {
        if !now.settings.default_spread.is_empty() {
            return None;
        }
        let Self { tables, mut state, known, targets } = self;
        let mut problem = tables.on(now);
        let mut touched: FxHashSet<usize> = FxHashSet::default();
        let gone = changes.gone().map(|old| (&before.pods[old], -1));
        let new = changes.new.iter().map(|new| (&now.pods[*new as usize], 1));
        let mut counts = Vec::new();
        for (pod, by) in gone.chain(new) {
            touched.extend(count(&mut problem, pod, &known, &targets.named, by, &mut counts)?);
        }
        refill(&mut problem, &touched, pods_on);
        requeue(&mut problem, changes, movable, &known)?;
        state.renew(&problem, &touched, &counts);
        Some(WhatIf::of(problem, state, movable, targets, known))
    }
}

/// Counts a pod in or out where it is; answers its node if it has one. Nothing where that cannot be told.
fn count(
    problem: &mut Problem<'_>,
    pod: &Pod,
    known: &Known,
    targets: &FxHashMap<Arc<str>, usize>,
    by: i32,
    counts: &mut Vec<(GroupId, Slot, i32)>,
) -> Option<Option<usize>> {
    let Some(node) = pod.node.as_ref().filter(|_| !pod.is_terminal()) else { return Some(None) };
    let (class, target) = (known.class(pod)?, *targets.get(&**node)?);
    if !problem.world.nodes[problem.nodes[target].index].has_node {
        return None;
    }
    let of = &problem.classes[class];
    let counted = if pod.is_active() { of.counted_in.clone() } else { Vec::new() };
    for id in counted.into_iter().chain(of.keeps_out.clone()) {
        let Some(slot) = problem.slot_on_node(id, target) else { continue };
        Arc::make_mut(&mut problem.domains.groups)[id.0 as usize].change(slot, by);
        counts.push((id, slot, by));
    }
    Some(Some(target))
}

/// What nodes have left, with the pods they have now.
fn refill<'p>(problem: &mut Problem<'_>, touched: &FxHashSet<usize>, pods_on: impl Fn(usize) -> &'p [usize]) {
    let world = problem.world;
    for target in touched {
        let index = problem.nodes[*target].index;
        let pods = pods_on(index).iter().map(|pod| &world.pods[*pod]);
        let pods: Vec<&Pod> = pods.filter(|pod| !pod.is_terminal()).collect();
        let node = existing::one(world, index, Some(&pods), &problem.daemons, &mut problem.terms, &mut problem.names);
        Arc::make_mut(&mut problem.nodes)[*target] = node;
    }
}

/// The pods of the moment, in the order in which they are tried.
fn requeue(problem: &mut Problem<'_>, changes: &PodChanges, movable: &[usize], known: &Known) -> Option<()> {
    let world = problem.world;
    let admitted = admit::admit(world);
    let mut wanted = vec![false; world.pods.len()];
    admitted.pods.iter().chain(movable).for_each(|pod| wanted[*pod] = true);
    let mut pods: Vec<PendingPod> = Vec::with_capacity(admitted.pods.len() + movable.len());
    for pod in problem.pods.iter() {
        let now = changes.same[pod.index].map(|now| now as usize);
        if let Some(index) = now.filter(|now| std::mem::take(&mut wanted[*now])) {
            pods.push(PendingPod { index, class: pod.class });
        }
    }
    for index in admitted.pods.iter().chain(movable) {
        if std::mem::take(&mut wanted[*index]) {
            let pod = PendingPod { index: *index, class: known.class(&world.pods[*index])? };
            let at = pods.partition_point(|other| in_queue_order(other, &pod, &problem.classes, world).is_lt());
            pods.insert(at, pod);
        }
    }
    problem.pods = pods.into();
    problem.ignored = admitted.ignored;
    Some(())
}

impl crate::domains::GroupDomains {
    fn change(&mut self, slot: Slot, by: i32) {
        let add = |count: u32| count.checked_add_signed(by).expect("a pod is counted out where it was counted in");
        match slot {
            Slot::Domain(at) => self.counts[at] = add(self.counts[at]),
            Slot::Node(host) => match self.hosts.binary_search_by_key(&(host as u32), |(at, _)| *at) {
                Ok(at) if add(self.hosts[at].1) == 0 => {
                    self.hosts.remove(at);
                }
                Ok(at) => self.hosts[at].1 = add(self.hosts[at].1),
                Err(at) => self.hosts.insert(at, (host as u32, add(0))),
            },
            Slot::Claim(_) => {}
        }
    }
}
