//! Existing nodes as targets: what each has left, and which nodes a requirement leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::pod::Pod;
use karpenter_core::ports::HostPort;
use karpenter_core::taints::untolerated;
use karpenter_core::{Resources, Taint, Toleration, World};
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::columns::{Amounts, ResourceNames};
use crate::daemons::Daemon;
use crate::terms::{KeyId, ReqId, SetId, Terms};
use crate::volumes;

/// Namespace and name of a PersistentVolumeClaim.
pub(crate) type ClaimName = (Arc<str>, Arc<str>);

#[derive(Clone)]
pub(crate) struct ExistingNode {
    /// In `World::nodes`.
    pub(crate) index: usize,
    pub(crate) set: SetId,
    pub(crate) taints: Vec<Taint>,
    /// Allocatable less what runs there and the daemons still to come.
    pub(crate) free: Amounts,
    pub(crate) ports: Vec<HostPort>,
    /// Claims in use, by driver; only for drivers with a limit.
    pub(crate) volumes: BTreeMap<Arc<str>, BTreeSet<ClaimName>>,
}

/// Initialized nodes first, each group by name.
pub(crate) fn compile(
    world: &World,
    daemons: &[Daemon],
    terms: &mut Terms,
    names: &mut ResourceNames,
) -> Vec<ExistingNode> {
    let mut order: Vec<usize> = (0..world.nodes.len()).filter(|index| !world.nodes[*index].deleting).collect();
    order.sort_by_key(|index| (!world.nodes[*index].is_initialized(), world.nodes[*index].name.clone()));
    let mut bound: FxHashMap<&str, Vec<&Pod>> = FxHashMap::default();
    for pod in world.pods.iter().filter(|pod| !pod.is_terminal()) {
        if let Some(node) = &pod.node {
            bound.entry(node).or_default().push(pod);
        }
    }
    order
        .into_iter()
        .map(|index| one(world, index, bound.get(&*world.nodes[index].name), daemons, terms, names))
        .collect()
}

pub(crate) fn one(
    world: &World,
    index: usize,
    bound: Option<&Vec<&Pod>>,
    daemons: &[Daemon],
    terms: &mut Terms,
    names: &mut ResourceNames,
) -> ExistingNode {
    let node = &world.nodes[index];
    let set = terms.of_node(node);
    let (mut used, mut daemons_here) = (Resources::new(), Resources::new());
    let mut ports = Vec::new();
    let mut volumes: BTreeMap<Arc<str>, BTreeSet<_>> = BTreeMap::new();
    for pod in bound.into_iter().flatten() {
        used.add(&pod.shape.requests);
        if pod.is_daemon() {
            daemons_here.add(&pod.shape.requests);
        }
        ports.extend(pod.shape.host_ports.iter().cloned());
        for (driver, claim) in limited_claims(pod, world) {
            volumes.entry(driver).or_default().insert(claim);
        }
    }
    let mut to_come = Resources::new();
    for daemon in daemons {
        if daemon.runs_on(set, &node.taints, terms) {
            to_come.add(&daemon.shape.requests);
        }
    }
    // Daemons that came unexpectedly must not make room that is not there.
    to_come = to_come.minus(&daemons_here);
    to_come.0.retain(|_, quantity| !quantity.is_negative());
    used.add(&to_come);
    let free = names.amounts(&node.allocatable.minus(&used));
    ExistingNode { index, set, taints: node.taints.clone(), free, ports, volumes }
}

/// A pod's claims with the driver each counts against.
pub(crate) fn limited_claims(pod: &Pod, world: &World) -> Vec<(Arc<str>, ClaimName)> {
    let of = |name: &Arc<str>| {
        let key = (pod.namespace.clone(), name.clone());
        let driver = volumes::driver(world.storage.claims.get(&key)?, &world.storage)?;
        Some((driver, key))
    };
    pod.claims.iter().filter_map(of).collect()
}

/// "Which nodes does this leave", answered with a few ANDs.
#[derive(Clone)]
pub(crate) struct NodeIndex {
    count: usize,
    by_key: Arc<FxHashMap<KeyId, Vec<(ReqId, Bits)>>>,
    by_taints: Arc<[(Vec<Taint>, Bits)]>,
    masks: FxHashMap<(KeyId, ReqId), Arc<Bits>>,
    sets: FxHashMap<SetId, Arc<Bits>>,
    tolerated: FxHashMap<Vec<Toleration>, Arc<Bits>>,
}

impl NodeIndex {
    pub(crate) fn new(nodes: &[ExistingNode], terms: &Terms) -> Self {
        let mut by_key: FxHashMap<KeyId, Vec<(ReqId, Bits)>> = FxHashMap::default();
        let mut at: FxHashMap<(KeyId, ReqId), usize> = FxHashMap::default();
        let mut by_taints: Vec<(Vec<Taint>, Bits)> = Vec::new();
        let mut taints_at: FxHashMap<&[Taint], usize> = FxHashMap::default();
        for (index, node) in nodes.iter().enumerate() {
            for (key, req) in terms.entries(node.set).iter() {
                let groups = by_key.entry(*key).or_default();
                let at = *at.entry((*key, *req)).or_insert_with(|| {
                    groups.push((*req, Bits::zeros(nodes.len())));
                    groups.len() - 1
                });
                groups[at].1.insert(index);
            }
            let at = *taints_at.entry(&node.taints).or_insert_with(|| {
                by_taints.push((node.taints.clone(), Bits::zeros(nodes.len())));
                by_taints.len() - 1
            });
            by_taints[at].1.insert(index);
        }
        let (masks, sets, tolerated) = Default::default();
        let (by_key, by_taints) = (Arc::new(by_key), by_taints.into());
        Self { count: nodes.len(), by_key, by_taints, masks, sets, tolerated }
    }

    /// Nodes that satisfy a set, nothing permitted undefined.
    pub(crate) fn satisfying(&mut self, set: SetId, terms: &mut Terms) -> Arc<Bits> {
        if let Some(mask) = self.sets.get(&set) {
            return mask.clone();
        }
        let mut mask = Bits::full(self.count);
        for (key, req) in terms.entries(set).clone().iter() {
            mask.and(&self.allowing(*key, *req, terms));
        }
        let mask = Arc::new(mask);
        self.sets.insert(set, mask.clone());
        mask
    }

    fn allowing(&mut self, key: KeyId, req: ReqId, terms: &mut Terms) -> Arc<Bits> {
        if let Some(mask) = self.masks.get(&(key, req)) {
            return mask.clone();
        }
        let mut mask = Bits::zeros(self.count);
        let mut without = Bits::full(self.count);
        for (theirs, nodes) in self.by_key.get(&key).into_iter().flatten() {
            without.and_not(nodes);
            if terms.reconcilable(*theirs, req) {
                mask.or(nodes);
            }
        }
        if terms.requirement(req).tolerates_absence() {
            mask.or(&without);
        }
        let mask = Arc::new(mask);
        self.masks.insert((key, req), mask.clone());
        mask
    }

    /// Nodes all of whose taints are tolerated.
    pub(crate) fn tolerated(&mut self, tolerations: &[Toleration]) -> Arc<Bits> {
        if let Some(mask) = self.tolerated.get(tolerations) {
            return mask.clone();
        }
        let mut mask = Bits::zeros(self.count);
        for (taints, nodes) in self.by_taints.iter() {
            if untolerated(taints, tolerations).is_none() {
                mask.or(nodes);
            }
        }
        let mask = Arc::new(mask);
        self.tolerated.insert(tolerations.to_vec(), mask.clone());
        mask
    }
}
