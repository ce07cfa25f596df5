//! Everything a placement depends on, kept up to date one change at a time.

use super::classes::Classes;
use super::node::NodeInfo;
use super::pod::PodInfo;
use super::storage::Storage;
use crate::key::Key;
use crate::selector::{Labels, Selector};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    nodes: Vec<NodeInfo>,
    free: Vec<usize>,
    by_name: FxHashMap<Arc<str>, usize>,
    /// Slots of the nodes that exist, zones taking turns, so that looking at a part of the list sees every zone.
    order: Vec<usize>,
    pub classes: Classes,
    with_affinity: BTreeSet<usize>,
    with_anti_affinity: BTreeSet<usize>,
    /// Which slot holds a pod, by uid.
    places: FxHashMap<String, usize>,
    pub namespaces: BTreeMap<String, Labels>,
    /// Pods that wait for room on a node, by its name. Their room is not given to others of their priority or less.
    nominated: BTreeMap<String, Vec<Arc<PodInfo>>>,
    /// Which node a waiting pod hopes for, by uid.
    hopes: FxHashMap<String, String>,
    pub storage: Storage,
    pub budgets: BTreeMap<Key, Arc<PodDisruptionBudget>>,
    /// Selectors of services and workload controllers, for spreading pods that ask for nothing themselves.
    pub groups: Groups,
    /// Where the last search ended; the next one goes on from there.
    pub start: usize,
    /// Decides between equally good nodes.
    pub seed: u64,
}

/// Who groups pods: services by selector, owners by reference.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    pub services: BTreeMap<Key, Labels>,
    /// ReplicaSets, StatefulSets and ReplicationControllers: (kind, key) to selector.
    pub owners: BTreeMap<(String, Key), Selector>,
}

impl Groups {
    /// The selector of everything a pod belongs to, as upstream computes it for its default constraints.
    pub fn selector_of(&self, pod: &PodInfo) -> Option<Selector> {
        let mut all = Vec::new();
        for (key, selector) in &self.services {
            let mine = key.namespace == pod.key.namespace && !selector.is_empty();
            if mine
                && selector.iter().all(|(k, v)| pod.labels.get(k) == Some(v))
                && let Selector::All(requirements) = Selector::from_labels(selector)
            {
                all.extend(requirements);
            }
        }
        if let Some(owner) = crate::key::controller_of(&pod.pod.metadata) {
            let key = (owner.kind.clone(), pod.key.sibling(&owner.name));
            if let Some(Selector::All(requirements)) = self.owners.get(&key) {
                all.extend(requirements.iter().cloned());
            }
        }
        (!all.is_empty()).then_some(Selector::All(all))
    }
}

impl Snapshot {
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    pub fn order(&self) -> &[usize] {
        &self.order
    }

    pub fn node(&self, slot: usize) -> &NodeInfo {
        &self.nodes[slot]
    }

    pub fn slot(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied().filter(|&s| self.nodes[s].node.is_some())
    }

    pub fn nodes_with_affinity(&self) -> impl Iterator<Item = &NodeInfo> {
        self.with_affinity.iter().map(|&s| &self.nodes[s]).filter(|n| n.node.is_some())
    }

    pub fn nodes_with_anti_affinity(&self) -> impl Iterator<Item = &NodeInfo> {
        self.with_anti_affinity.iter().map(|&s| &self.nodes[s]).filter(|n| n.node.is_some())
    }

    pub fn existing(&self) -> impl Iterator<Item = &NodeInfo> {
        self.order.iter().map(|&s| &self.nodes[s])
    }

    pub fn namespace_labels(&self, namespace: &str) -> &Labels {
        static NONE: Labels = Labels::new();
        self.namespaces.get(namespace).unwrap_or(&NONE)
    }

    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = crate::key::name(&node.metadata).to_owned();
        let slot = self.slot_for(&name);
        let before = self.nodes[slot].node.is_some().then(|| self.nodes[slot].labels.clone());
        self.nodes[slot].set_node(node);
        let zone_kept = before.is_some_and(|labels| {
            let zone = |l: &Labels, key: &str| l.get(key).cloned();
            ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"]
                .iter()
                .all(|k| zone(&labels, k) == zone(&self.nodes[slot].labels, k))
        });
        if !zone_kept {
            self.reorder();
        }
    }

    pub fn remove_node(&mut self, name: &str) {
        let Some(&slot) = self.by_name.get(name) else { return };
        self.nodes[slot].node = None;
        self.drop_if_unused(slot);
        self.reorder();
    }

    /// Places a pod, or replaces what was known of it.
    pub fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.forget(&pod.uid);
        let slot = self.slot_for(node);
        for claim in &pod.claims {
            *self.storage.users.entry(pod.key.sibling(&claim.name)).or_default() += 1;
        }
        self.places.insert(pod.uid.clone(), slot);
        let class = self.classes.enter(&pod.key.namespace, &pod.labels);
        self.nodes[slot].add(pod, class);
        self.index(slot);
    }

    /// Forgets a placed pod; answers whether it was there.
    pub fn forget(&mut self, uid: &str) -> bool {
        let Some(slot) = self.places.remove(uid) else {
            return false;
        };
        if let Some(resident) = self.nodes[slot].remove(uid) {
            self.classes.leave(resident.class);
            for claim in &resident.pod.claims {
                let key = resident.pod.key.sibling(&claim.name);
                if let Some(count) = self.storage.users.get_mut(&key) {
                    *count -= 1;
                    if *count == 0 {
                        self.storage.users.remove(&key);
                    }
                }
            }
        }
        self.index(slot);
        self.drop_if_unused(slot);
        true
    }

    pub fn place_of(&self, uid: &str) -> Option<&Arc<str>> {
        self.places.get(uid).map(|&slot| &self.nodes[slot].name)
    }

    /// Records which node a waiting pod hopes for; `None` forgets its hope.
    pub fn nominate(&mut self, pod: &Arc<PodInfo>, node: Option<&str>) {
        if let Some(before) = self.hopes.remove(&pod.uid)
            && let Some(pods) = self.nominated.get_mut(&before)
        {
            pods.retain(|p| p.uid != pod.uid);
            if pods.is_empty() {
                self.nominated.remove(&before);
            }
        }
        if let Some(node) = node {
            self.hopes.insert(pod.uid.clone(), node.into());
            self.nominated.entry(node.into()).or_default().push(pod.clone());
        }
    }

    pub fn nominated_on(&self, node: &str) -> &[Arc<PodInfo>] {
        self.nominated.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    fn slot_for(&mut self, name: &str) -> usize {
        if let Some(&slot) = self.by_name.get(name) {
            return slot;
        }
        let name: Arc<str> = name.into();
        let info = NodeInfo::new(name.clone());
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot] = info;
                slot
            }
            None => {
                self.nodes.push(info);
                self.nodes.len() - 1
            }
        };
        self.by_name.insert(name, slot);
        slot
    }

    fn drop_if_unused(&mut self, slot: usize) {
        let info = &self.nodes[slot];
        if info.node.is_none() && info.pods.is_empty() {
            self.by_name.remove(&info.name);
            self.free.push(slot);
        }
    }

    fn index(&mut self, slot: usize) {
        let info = &self.nodes[slot];
        for (set, member) in [
            (&mut self.with_affinity, info.with_affinity > 0),
            (&mut self.with_anti_affinity, info.with_anti_affinity > 0),
        ] {
            if member {
                set.insert(slot)
            } else {
                set.remove(&slot)
            };
        }
    }

    fn reorder(&mut self) {
        /// Region and zone to the nodes there, by name and slot.
        type Zones = BTreeMap<(String, String), Vec<(Arc<str>, usize)>>;
        let mut zones = Zones::new();
        for (slot, info) in self.nodes.iter().enumerate().filter(|(_, i)| i.node.is_some()) {
            let (region, zone) = info.zone();
            zones.entry((region.into(), zone.into())).or_default().push((info.name.clone(), slot));
        }
        self.order.clear();
        zones.values_mut().for_each(|nodes| nodes.sort());
        let longest = zones.values().map(Vec::len).max().unwrap_or(0);
        for turn in 0..longest {
            self.order.extend(zones.values().filter_map(|nodes| nodes.get(turn)).map(|(_, slot)| *slot));
        }
    }
}
