//! How each node stands before any method looks for something to do.
//!
//! A standing rests on the node, its pods, its pool and the budgets of its pods, and on little else: when something
//! happens in a cluster, only the nodes it happens to are looked at again.

use std::sync::Arc;

use karpenter_core::world::DisruptionBudget;
use karpenter_core::{MicroUsd, Pod, PodShape, World};
use karpenter_scheduling::what_if::PodChanges;
use rustc_hash::FxHashMap;

use crate::candidate::{self, Candidate, Class, Cluster};
use crate::decision::Reason;
use crate::snapshot::{NodeFacts, Policy, Snapshot};
use crate::{drift, emptiness, pods, rules};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Standing {
    pub(crate) price: MicroUsd,
    /// If it may be disrupted gracefully.
    pub(crate) candidate: Option<Arc<Candidate>>,
    pub(crate) interest: Interest,
    /// If drift looks at it, which may wait for less.
    pub(crate) drifted: Option<Arc<Candidate>>,
    /// Why methods do not look at it.
    pub(crate) reasons: Vec<Reason>,
}

/// The one method beside drift that looks at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    None,
    Empty,
    Underutilized,
}

impl Standing {
    /// Nothing for a node that is somebody else's.
    pub(crate) fn of(cluster: &mut Cluster<'_, '_>, policy: &Policy, index: usize) -> Option<Self> {
        let (snapshot, node) = (cluster.snapshot, &cluster.snapshot.world.nodes[index]);
        if !node.is_managed() {
            return None;
        }
        let drifts = snapshot.nodes[index].drifted.is_some();
        let drifted = drifts.then(|| cluster.candidate(index, Class::Eventual)).and_then(Result::ok);
        let drifted = drifted.filter(|candidate| drift::looks_at(candidate, snapshot, policy)).map(Arc::new);
        let candidate = match cluster.candidate(index, Class::Graceful) {
            Ok(candidate) => candidate,
            Err(why) => {
                let (price, reasons) = (cluster.price(&node.labels), vec![Reason::Blocked(why)]);
                return Some(Self { price, candidate: None, interest: Interest::None, drifted, reasons });
            }
        };
        let (mut reasons, mut interest) = (Vec::new(), Interest::None);
        match emptiness::judge(&candidate, snapshot, policy) {
            emptiness::Interest::Yes => interest = Interest::Empty,
            emptiness::Interest::No(why) => {
                reasons.extend(why);
                match rules::consolidatable(cluster, policy, &candidate) {
                    Ok(()) => interest = Interest::Underutilized,
                    Err(why) => reasons.extend(why),
                }
                reasons.dedup();
            }
        }
        Some(Self { price: candidate.price, candidate: Some(Arc::new(candidate)), interest, drifted, reasons })
    }
}

/// All nodes of a cluster at one moment.
#[derive(Debug)]
pub(crate) struct Standings {
    /// By position in `World::nodes`.
    pub(crate) of: Vec<Option<Standing>>,
    /// By position in `World::nodes`: its pods, in `World::pods`, in ascending order.
    pub(crate) pods_on: Vec<Vec<usize>>,
    /// By position in `World::pods`: it has to move when its node goes.
    moves: Vec<bool>,
    /// Nodes with pods that are protected for some time only.
    timed: Vec<usize>,
    by_name: FxHashMap<Arc<str>, usize>,
}

impl Standings {
    pub(crate) fn new(snapshot: &Snapshot<'_>, policy: &Policy) -> Self {
        let world = snapshot.world;
        let nodes = world.nodes.len();
        let mut found = Self {
            of: vec![None; nodes],
            pods_on: candidate::pods_on(world),
            moves: vec![false; world.pods.len()],
            timed: Vec::new(),
            by_name: world.nodes.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect(),
        };
        found.look_at((0..nodes).collect(), snapshot, policy);
        found
    }

    /// Finds the standing of these nodes anew; answers whether any is another one now.
    pub(crate) fn look_at(&mut self, nodes: Vec<usize>, snapshot: &Snapshot<'_>, policy: &Policy) -> bool {
        let world = snapshot.world;
        let mut cluster = Cluster::with(snapshot, std::mem::take(&mut self.pods_on));
        let mut changed = false;
        for node in nodes {
            let now = Standing::of(&mut cluster, policy, node);
            changed |= self.of[node] != now;
            self.of[node] = now;
            let stays = world.nodes[node].is_managed() && !world.nodes[node].deleting;
            let mut timed = false;
            for pod in cluster.pods_on(node) {
                let of = &world.pods[*pod];
                self.moves[*pod] = stays && pods::is_reschedulable(of);
                timed |= of.shape.do_not_disrupt.as_deref().is_some_and(|value| value != "true");
            }
            match (timed, self.timed.binary_search(&node)) {
                (true, Err(at)) => self.timed.insert(at, node),
                (false, Ok(at)) => {
                    self.timed.remove(at);
                }
                (true, Ok(_)) | (false, Err(_)) => {}
            }
        }
        self.pods_on = cluster.pods_on;
        changed
    }

    /// Pods are where they are now. Answers the nodes that have others than before; what is known of those is void.
    pub(crate) fn follow_pods(&mut self, before: &[Pod], now: &[Pod], changes: &PodChanges) -> Vec<usize> {
        let at = |pod: &Pod| pod.node.as_ref().and_then(|name| self.by_name.get(name)).copied();
        let gone: Vec<(usize, usize)> =
            changes.gone().filter_map(|pod| at(&before[pod]).map(|node| (node, pod))).collect();
        let new: Vec<(usize, usize)> =
            changes.new.iter().filter_map(|pod| at(&now[*pod as usize]).map(|node| (node, *pod as usize))).collect();
        for (node, pod) in &gone {
            self.pods_on[*node].retain(|other| other != pod);
        }
        if !changes.is_in_place() || self.moves.len() != now.len() {
            self.renumber(changes, now.len());
        }
        for (node, pod) in &new {
            self.pods_on[*node].push(*pod);
            self.pods_on[*node].sort_unstable();
        }
        changes.new.iter().for_each(|pod| self.moves[*pod as usize] = false);
        let mut touched: Vec<usize> = gone.iter().chain(&new).map(|(node, _)| *node).collect();
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Every pod that stayed may be at another position.
    fn renumber(&mut self, changes: &PodChanges, pods: usize) {
        let position = |old: usize| changes.same[old].map(|now| now as usize);
        let in_order = changes.is_in_order();
        let renumber = |list: &mut Vec<usize>| {
            list.iter_mut().for_each(|pod| *pod = position(*pod).unwrap_or(*pod));
            if !in_order {
                list.sort_unstable();
            }
        };
        self.pods_on.iter_mut().for_each(renumber);
        for standing in self.of.iter_mut().flatten() {
            for candidate in [&mut standing.candidate, &mut standing.drifted].into_iter().flatten() {
                renumber(&mut Arc::make_mut(candidate).pods);
            }
        }
        let mut moves = vec![false; pods];
        for (old, now) in changes.same.iter().enumerate() {
            if let Some(now) = now {
                moves[*now as usize] = self.moves[old];
            }
        }
        self.moves = moves;
    }

    /// Nodes whose standing may be another one for something that happened beside their own pods: their own facts, a
    /// PodDisruptionBudget, or that time has passed.
    pub(crate) fn concerned(&self, was: &World, facts: &[NodeFacts], snapshot: &Snapshot<'_>) -> Vec<usize> {
        let now = snapshot.world;
        let mut nodes: Vec<usize> = if was.now == now.now { Vec::new() } else { self.timed.clone() };
        nodes.extend((0..facts.len()).filter(|at| facts[*at] != snapshot.nodes[*at]));
        let mut differing = Differing::between(&was.disruption_budgets, &now.disruption_budgets);
        if !differing.budgets.is_empty() {
            let pods_on = self.pods_on.iter().enumerate();
            let concerned = pods_on.filter(|(_, pods)| pods.iter().any(|pod| differing.concern(&now.pods[*pod])));
            nodes.extend(concerned.map(|(node, _)| node));
        }
        nodes
    }

    /// Pods that may not be moved for some time.
    pub(crate) fn protected(&self, world: &World) -> Vec<usize> {
        let pods = self.timed.iter().flat_map(|node| &self.pods_on[*node]).copied();
        pods.filter(|pod| pods::is_protected(&world.pods[*pod], world.now)).collect()
    }

    /// Pods that may have to move: all that can, on nodes of ours that stay, whether those are candidates now or not.
    pub(crate) fn movable(&self) -> Vec<usize> {
        self.moves.iter().enumerate().filter(|(_, moves)| **moves).map(|(pod, _)| pod).collect()
    }

    /// Candidates that a method looks at, by position of their nodes.
    pub(crate) fn interesting(&self, interest: Interest) -> impl Iterator<Item = &Arc<Candidate>> {
        let of = self.of.iter().flatten().filter(move |standing| standing.interest == interest);
        of.filter_map(|standing| standing.candidate.as_ref())
    }

    /// Best savings first.
    pub(crate) fn underutilized(&self) -> Vec<Arc<Candidate>> {
        let mut found: Vec<Arc<Candidate>> = self.interesting(Interest::Underutilized).cloned().collect();
        candidate::sort(&mut found);
        found
    }
}

/// PodDisruptionBudgets that came, went or changed, as they were and as they are.
struct Differing<'b> {
    budgets: Vec<&'b DisruptionBudget>,
    known: FxHashMap<(*const PodShape, &'b str), bool>,
}

impl<'b> Differing<'b> {
    fn between(before: &'b [DisruptionBudget], now: &'b [DisruptionBudget]) -> Self {
        let missing = |from: &'b [DisruptionBudget], list: &'b [DisruptionBudget]| {
            from.iter().filter(|budget| !list.contains(budget)).collect::<Vec<_>>()
        };
        let budgets = if before == now { Vec::new() } else { [missing(before, now), missing(now, before)].concat() };
        Self { budgets, known: FxHashMap::default() }
    }

    fn concern(&mut self, pod: &'b Pod) -> bool {
        let key = (Arc::as_ptr(&pod.shape), &*pod.namespace);
        *self.known.entry(key).or_insert_with(|| {
            let selects = |budget: &&'b DisruptionBudget| {
                let selector = budget.selector.as_ref().filter(|_| budget.namespace == pod.namespace);
                selector.is_some_and(|selector| selector.matches(&pod.shape.labels))
            };
            self.budgets.iter().any(selects)
        })
    }
}
