//! Snapshots that cost what changed.
//!
//! The world of the last snapshot is kept, with a list of what is out of date. A new snapshot brings that up to date in
//! place; only while somebody still holds the last one is it copied first. Positions in a world follow from the order
//! of arrival, which no solver may look at.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::{Pod, Pool, World};
use rustc_hash::FxHashMap;

use crate::index::{Index, State};
use crate::key::Key;
use crate::machine::MachineId;
use crate::object::TrackedPod;

/// What of the kept world is out of date.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub(crate) pods: BTreeSet<Key>,
    pub(crate) machines: BTreeSet<MachineId>,
    pub(crate) claims: BTreeSet<Key>,
    pub(crate) volumes: BTreeSet<Key>,
    pub(crate) namespaces: bool,
    pub(crate) classes: bool,
    pub(crate) services: bool,
    pub(crate) workloads: bool,
    pub(crate) daemon_sets: bool,
    pub(crate) budgets: bool,
}

/// Where things stand in the kept world.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pods: Slots<Key>,
    nodes: Slots<MachineId>,
}

/// Positions by name; what leaves is replaced by the last, so that nothing else moves.
#[derive(Debug)]
struct Slots<K> {
    at: FxHashMap<K, usize>,
    keys: Vec<K>,
}

impl<K> Default for Slots<K> {
    fn default() -> Self {
        Self { at: FxHashMap::default(), keys: Vec::new() }
    }
}

impl<K: Clone + Eq + std::hash::Hash> Slots<K> {
    fn set<T>(&mut self, key: &K, value: Option<T>, values: &mut Vec<T>) {
        match (self.at.get(key).copied(), value) {
            (Some(at), Some(value)) => values[at] = value,
            (None, Some(value)) => {
                self.at.insert(key.clone(), values.len());
                self.keys.push(key.clone());
                values.push(value);
            }
            (Some(at), None) => {
                values.swap_remove(at);
                self.keys.swap_remove(at);
                self.at.remove(key);
                if let Some(moved) = self.keys.get(at) {
                    self.at.insert(moved.clone(), at);
                }
            }
            (None, None) => {}
        }
    }
}

impl Index {
    /// The cluster as it is known now, with these pools to buy from.
    pub fn snapshot(&self, now: Timestamp, pools: Vec<Pool>) -> Arc<World> {
        let mut state = self.state();
        state.end_plans(now);
        state.refresh_world();
        let world = Arc::make_mut(&mut state.world);
        world.now = now;
        world.pools = pools;
        state.world.clone()
    }

    /// The number of the newest snapshot: of two with the same number, only the time and the pools may differ.
    pub fn revision(&self) -> u64 {
        self.state().revision
    }
}

impl State {
    fn refresh_world(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        if dirty == Dirty::default() {
            return;
        }
        self.revision += 1;
        let mut world = std::mem::replace(&mut self.world, Arc::new(empty(&self.options)));
        let mut places = std::mem::take(&mut self.places);
        {
            let world = Arc::make_mut(&mut world);
            for id in &dirty.machines {
                let node = self.reduced.get(id).map(|node| karpenter_core::Node::clone(node));
                places.nodes.set(id, node, &mut world.nodes);
            }
            for key in &dirty.pods {
                let pod = self.pods.get(key).filter(|pod| pod.can_be_planned()).map(|pod| self.as_seen(key, pod));
                places.pods.set(key, pod, &mut world.pods);
            }
            self.refresh_rest(&dirty, world);
        }
        self.world = world;
        self.places = places;
    }

    fn refresh_rest(&self, dirty: &Dirty, world: &mut World) {
        for key in &dirty.claims {
            let name = (key.namespace.clone(), key.name.clone());
            match self.volume_claims.get(key) {
                Some(claim) => world.storage.claims.insert(name, (**claim).clone()),
                None => world.storage.claims.remove(&name),
            };
        }
        for key in &dirty.volumes {
            match self.volumes.get(key) {
                Some(volume) => world.storage.volumes.insert(key.name.clone(), (**volume).clone()),
                None => world.storage.volumes.remove(&key.name),
            };
        }
        if dirty.namespaces {
            let all = self.namespaces.iter();
            world.namespaces = all.map(|(key, labels)| (key.name.clone(), (**labels).clone())).collect();
        }
        if dirty.classes {
            let all = self.classes.iter();
            world.storage.classes = all.map(|(key, class)| (key.name.clone(), (**class).clone())).collect();
        }
        if dirty.services {
            world.services = self.services.values().map(|service| (**service).clone()).collect();
        }
        if dirty.workloads {
            let sets = self.replica_sets.values().chain(self.stateful_sets.values());
            let all = self.controllers.values().chain(sets);
            world.workload_selectors = all.map(|one| (one.uid.clone(), one.selector.clone())).collect();
        }
        if dirty.daemon_sets {
            world.daemon_sets = self.daemon_sets.values().map(|set| self.samples.applied_to(set)).collect();
        }
        if dirty.budgets {
            world.disruption_budgets = self.budgets.values().map(|budget| (**budget).clone()).collect();
        }
    }

    /// A pod as the solver should see it: on the machine it is bound to, or planned for, or nominated to while that is
    /// coming. A plan outlives the coming of its machine for a while, since kube-scheduler clears nominations at every
    /// failed attempt. Machines go by the name they have at their stage, and a nomination to a node that is gone counts
    /// for nothing.
    fn as_seen(&self, key: &Key, tracked: &TrackedPod) -> Pod {
        let mut pod = tracked.pod.clone();
        let named = |name: &str| self.machines.of_node(name).and_then(|id| self.reduced.get(id));
        if let Some(node) = &pod.node {
            if let Some(machine) = named(node) {
                pod.node = Some(machine.name.clone());
            }
            return pod;
        }
        let claim = self.planned.get(key).and_then(|planned| self.machines.of_claim(&planned.claim));
        let planned = claim.and_then(|id| self.reduced.get(id)).filter(|machine| Self::is_ours_to_stay(machine));
        let nominated = pod.nominated_node.as_deref().and_then(named);
        let elsewhere = nominated.filter(|machine| Self::is_ours_to_stay(machine) && !Self::is_coming(machine));
        let planned = planned.filter(|planned| elsewhere.is_none_or(|machine| machine.name == planned.name));
        if let Some(machine) = nominated.filter(|machine| Self::is_coming(machine)).or(planned) {
            pod.node = Some(machine.name.clone());
            pod.nominated_node = None;
        } else {
            pod.nominated_node = nominated.map(|machine| machine.name.clone());
        }
        pod
    }

    /// Shapes and names that nothing uses any more are forgotten when they may be half of what is kept.
    pub(crate) fn sweep_interner(&mut self) {
        self.interner.sweep_if_due();
    }
}

pub(crate) fn empty(options: &crate::index::Options) -> World {
    World {
        now: Timestamp::UNIX_EPOCH,
        settings: options.settings.clone(),
        vocabulary: options.vocabulary.clone(),
        pools: Vec::new(),
        nodes: Vec::new(),
        pods: Vec::new(),
        daemon_sets: Vec::new(),
        namespaces: std::collections::BTreeMap::new(),
        storage: karpenter_core::storage::Storage::default(),
        services: Vec::new(),
        workload_selectors: std::collections::BTreeMap::new(),
        disruption_budgets: Vec::new(),
    }
}
