//! The index: objects as they come in, kept by name and by what belongs together.

mod queries;
pub(crate) mod samples;
mod settle;
mod unread;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use karpenter_core::labels::{Labels, Vocabulary};
use karpenter_core::selector::{Selector, SelectorExpression};
use karpenter_core::settings::Settings;
use karpenter_core::storage::{StorageClass, Volume, VolumeClaim};
use karpenter_core::world::{DaemonSet, DisruptionBudget, Service};
use karpenter_core::{Resources, World};

use crate::change::{Change, Pair, What};
use crate::key::Key;
use crate::kind::{Features, Kind, NodeClassKind};
use crate::machine::{MachineId, Machines};
use crate::object::{Attachment, NodeClass, Object, TrackedPod};
use crate::reduce::{self, Interner, Refused};
use crate::snapshot::Dirty;
use crate::store::{Store, version};
use crate::unreadable::{Unreadable, Unreadables};

/// What does not come from watches.
#[derive(Clone, Debug)]
pub struct Options {
    pub settings: Settings,
    pub vocabulary: Arc<Vocabulary>,
    pub node_class: NodeClassKind,
    pub features: Features,
    /// How long planned pods count on their machines once those of their plan are complete: by then they are bound, or
    /// cannot be.
    pub plan_window: Duration,
}

/// Shared by everybody who decides. One lock, held for moments and never across an await.
#[derive(Debug)]
pub struct Index {
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) interner: Interner,
    pub(crate) namespaces: Store<Labels>,
    pub(crate) classes: Store<StorageClass>,
    pub(crate) volumes: Store<Volume>,
    pub(crate) volume_claims: Store<VolumeClaim>,
    pub(crate) csi_nodes: Store<k8s_openapi::api::storage::v1::CSINode>,
    pub(crate) attachments: Store<Attachment>,
    pub(crate) services: Store<Service>,
    /// By kind, since a ReplicaSet and a StatefulSet may have one name.
    pub(crate) controllers: Store<Workload>,
    pub(crate) replica_sets: Store<Workload>,
    pub(crate) stateful_sets: Store<Workload>,
    pub(crate) daemon_sets: Store<DaemonSet>,
    pub(crate) samples: samples::Samples,
    pub(crate) budgets: Store<DisruptionBudget>,
    pub(crate) pod_templates: Store<k8s_openapi::api::core::v1::PodTemplate>,
    pub(crate) buffers: Store<CapacityBuffer>,
    pub(crate) node_classes: Store<NodeClass>,
    pub(crate) node_overlays: Store<NodeOverlay>,
    pub(crate) node_pools: Store<NodePool>,
    pub(crate) node_claims: Store<NodeClaim>,
    pub(crate) nodes: Store<k8s_openapi::api::core::v1::Node>,
    pub(crate) pods: Store<TrackedPod>,
    /// Objects that could not be read, or not in whole.
    pub(crate) unreadable: Unreadables,
    /// Kinds that have been listed once.
    pub(crate) listed: BTreeSet<Kind>,
    /// By the name of the Node, whatever the pod's phase.
    pub(crate) pods_on: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// Pods without a node, by the Node they are nominated to.
    pub(crate) nominated_to: BTreeMap<Arc<str>, BTreeSet<Key>>,
    pub(crate) attached_to: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// By the name of the Node: pods that may be running there and whose needs are not known.
    pub(crate) pinned_on: BTreeMap<Arc<str>, BTreeSet<Key>>,
    pub(crate) machines: Machines,
    /// Claims of ours that have no provider id yet.
    pub(crate) unlaunched: BTreeSet<Arc<str>>,
    pub(crate) marked: BTreeSet<MachineId>,
    pub(crate) nominated: BTreeMap<MachineId, Nominated>,
    /// Pods that wait for a node, or are about to.
    pub(crate) unbound: BTreeSet<Key>,
    /// Where pods without a node are planned to run: the name of a NodeClaim, by pod.
    pub(crate) planned: BTreeMap<Key, Planned>,
    pub(crate) planned_on: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// The number of the last plan, and by claim that of the last one that had pods for it.
    pub(crate) round: u64,
    pub(crate) rounds: BTreeMap<Arc<str>, u64>,
    /// Before this, nobody looks for plans that are over.
    pub(crate) next_end: Timestamp,
    pub(crate) usage: BTreeMap<Arc<str>, Resources>,
    pub(crate) reduced: BTreeMap<MachineId, Arc<karpenter_core::Node>>,
    pub(crate) panics: u64,
    /// Every Node the server has was once in the picture at the same time.
    pub(crate) complete: bool,
    /// Moves whenever consolidation may find something new.
    pub(crate) unsettled: u64,
    pub(crate) dirty: Dirty,
    pub(crate) world: Arc<World>,
    /// How often the kept world became another.
    pub(crate) revision: u64,
    pub(crate) places: crate::snapshot::Places,
}

/// A workload as far as its pods' default spread goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) uid: Arc<str>,
    pub(crate) selector: Selector,
}

impl Workload {
    fn new(metadata: &karpenter_api::ObjectMeta, selector: Selector) -> Arc<Self> {
        Arc::new(Self { uid: metadata.uid.as_deref().unwrap_or_default().into(), selector })
    }
}

/// A machine that pods are about to come to.
#[derive(Clone, Debug)]
pub(crate) struct Nominated {
    /// Whatever becomes of them.
    pub(crate) firm: Timestamp,
    /// At most, while these pods or their successors have no place yet.
    pub(crate) until: Timestamp,
    pub(crate) pods: BTreeMap<Key, Arc<str>>,
}

/// A pod's place in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) uid: Arc<str>,
    pub(crate) claim: Arc<str>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("listed", &self.listed).finish_non_exhaustive()
    }
}

impl Index {
    pub fn new(options: Options) -> Self {
        Self { state: Mutex::new(State::new(options)) }
    }

    /// Every change is whole or not there, so a panic elsewhere is no reason to stop.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has to be watched.
    pub fn kinds(&self) -> Vec<Kind> {
        self.state().needed()
    }

    pub fn node_class_kind(&self) -> NodeClassKind {
        self.state().options.node_class
    }

    /// Whether an object of this version has something to tell, so that others need not be decoded.
    pub fn wants(&self, kind: Kind, key: &Key, version: u64) -> bool {
        self.state().wants(kind, key, version)
    }

    /// Takes in an object: from a watch, or the answer to a write of ours. Older versions than the one known, and
    /// objects whose end is known, change nothing. See [`Index::take_unreadable`] for what could not be read of it.
    pub fn apply(&self, object: Object) -> Option<Change> {
        let mut state = self.state();
        let (key, version) = (Key::of(object.metadata()), version(object.metadata()));
        if !state.wants(object.kind(), &key, version) {
            return None;
        }
        state.put(object, key, version)
    }

    /// The watch says that the object is gone.
    pub fn remove(&self, kind: Kind, key: &Key, version: u64) -> Option<Change> {
        let mut state = self.state();
        let change = state.take(kind, key, version);
        state.advance(kind, version);
        change
    }

    /// The watch has told everything up to this version.
    pub fn advance(&self, kind: Kind, version: u64) {
        self.state().advance(kind, version);
    }

    /// A whole list: what it does not name is gone. `unreadable` is there and could not be decoded.
    pub fn list(&self, kind: Kind, objects: Vec<Object>, unreadable: Vec<Unreadable>, at: u64) -> Vec<Change> {
        let keys = objects.iter().map(|object| Key::of(object.metadata()));
        let present: BTreeSet<Key> = keys.chain(unreadable.iter().map(|one| one.key.clone())).collect();
        let mut changes = self.list_page(kind, objects);
        changes.extend(self.list_end(kind, &present, unreadable, at));
        changes
    }

    /// Some of a list. Of what comes in pages no more than one is in memory as it was decoded.
    pub fn list_page(&self, kind: Kind, objects: Vec<Object>) -> Vec<Change> {
        let mut state = self.state();
        let initial = !state.listed.contains(&kind);
        let mut changes = Vec::new();
        for object in objects {
            let (key, version) = (Key::of(object.metadata()), version(object.metadata()));
            if state.wants_listed(kind, &key, version) {
                changes.extend(state.put(object, key, version).map(|change| Change { initial, ..change }));
            }
        }
        changes
    }

    /// The pages of a list are all in: what they did not name, or have as `unreadable`, is gone.
    pub fn list_end(&self, kind: Kind, present: &BTreeSet<Key>, unreadable: Vec<Unreadable>, at: u64) -> Vec<Change> {
        let mut state = self.state();
        let initial = state.listed.insert(kind);
        let mut changes = Vec::new();
        for one in unreadable {
            if state.wants_listed(kind, &one.key, one.version) {
                changes.extend(state.put_unreadable(one).map(|change| Change { initial, ..change }));
            }
        }
        for key in state.keys(kind) {
            if !present.contains(&key) {
                changes.extend(state.take(kind, &key, at));
            }
        }
        state.advance(kind, at);
        changes
    }

    /// The kind is done without, as it may not be read any more, or there is none: whatever was known of it is gone. How
    /// far its watch had come stays; it may be read again later.
    pub fn go_without(&self, kind: Kind) -> Vec<Change> {
        let mut state = self.state();
        state.listed.insert(kind);
        let keys = state.keys(kind);
        keys.into_iter().filter_map(|key| state.take(kind, &key, u64::MAX)).collect()
    }

    /// The watch tells of an object that could not be decoded. As [`Index::apply`], with what can be read of it.
    pub fn apply_unreadable(&self, one: Unreadable) -> Option<Change> {
        let mut state = self.state();
        if !state.wants(one.kind, &one.key, one.version) {
            return None;
        }
        state.put_unreadable(one)
    }

    /// How many objects made our own code panic since this was last asked.
    pub fn take_panics(&self) -> u64 {
        std::mem::take(&mut self.state().panics)
    }
}

/// Calls a method on the store of a kind.
macro_rules! each_store {
    ($state:ident, $kind:ident, |$store:ident| $call:expr) => {
        match $kind {
            Kind::Namespace => {
                let $store = &$state.namespaces;
                $call
            }
            Kind::StorageClass => {
                let $store = &$state.classes;
                $call
            }
            Kind::PersistentVolume => {
                let $store = &$state.volumes;
                $call
            }
            Kind::PersistentVolumeClaim => {
                let $store = &$state.volume_claims;
                $call
            }
            Kind::CSINode => {
                let $store = &$state.csi_nodes;
                $call
            }
            Kind::VolumeAttachment => {
                let $store = &$state.attachments;
                $call
            }
            Kind::Service => {
                let $store = &$state.services;
                $call
            }
            Kind::ReplicationController => {
                let $store = &$state.controllers;
                $call
            }
            Kind::ReplicaSet => {
                let $store = &$state.replica_sets;
                $call
            }
            Kind::StatefulSet => {
                let $store = &$state.stateful_sets;
                $call
            }
            Kind::DaemonSet => {
                let $store = &$state.daemon_sets;
                $call
            }
            Kind::PodDisruptionBudget => {
                let $store = &$state.budgets;
                $call
            }
            Kind::PodTemplate => {
                let $store = &$state.pod_templates;
                $call
            }
            Kind::CapacityBuffer => {
                let $store = &$state.buffers;
                $call
            }
            Kind::NodeClass => {
                let $store = &$state.node_classes;
                $call
            }
            Kind::NodeOverlay => {
                let $store = &$state.node_overlays;
                $call
            }
            Kind::NodePool => {
                let $store = &$state.node_pools;
                $call
            }
            Kind::NodeClaim => {
                let $store = &$state.node_claims;
                $call
            }
            Kind::Node => {
                let $store = &$state.nodes;
                $call
            }
            Kind::Pod => {
                let $store = &$state.pods;
                $call
            }
        }
    };
}

impl State {
    fn new(options: Options) -> Self {
        let world = crate::snapshot::empty(&options);
        Self {
            options,
            interner: Interner::default(),
            namespaces: Store::default(),
            classes: Store::default(),
            volumes: Store::default(),
            volume_claims: Store::default(),
            csi_nodes: Store::default(),
            attachments: Store::default(),
            services: Store::default(),
            controllers: Store::default(),
            replica_sets: Store::default(),
            stateful_sets: Store::default(),
            daemon_sets: Store::default(),
            samples: samples::Samples::default(),
            budgets: Store::default(),
            pod_templates: Store::default(),
            buffers: Store::default(),
            node_classes: Store::default(),
            node_overlays: Store::default(),
            node_pools: Store::default(),
            node_claims: Store::default(),
            nodes: Store::default(),
            pods: Store::default(),
            unreadable: Unreadables::default(),
            listed: BTreeSet::new(),
            pods_on: BTreeMap::new(),
            nominated_to: BTreeMap::new(),
            attached_to: BTreeMap::new(),
            pinned_on: BTreeMap::new(),
            complete: false,
            machines: Machines::default(),
            unlaunched: BTreeSet::new(),
            marked: BTreeSet::new(),
            nominated: BTreeMap::new(),
            unbound: BTreeSet::new(),
            planned: BTreeMap::new(),
            planned_on: BTreeMap::new(),
            round: 0,
            rounds: BTreeMap::new(),
            next_end: Timestamp::MIN,
            usage: BTreeMap::new(),
            reduced: BTreeMap::new(),
            panics: 0,
            unsettled: 0,
            dirty: Dirty::default(),
            world: Arc::new(world),
            revision: 0,
            places: crate::snapshot::Places::default(),
        }
    }

    pub(crate) fn needed(&self) -> Vec<Kind> {
        Kind::needed(&self.options.settings, self.options.features)
    }

    fn wants(&self, kind: Kind, key: &Key, version: u64) -> bool {
        each_store!(self, kind, |store| store.wants(key, version)) && self.unreadable.wants(kind, key, version)
    }

    fn wants_listed(&self, kind: Kind, key: &Key, version: u64) -> bool {
        each_store!(self, kind, |store| store.wants_listed(key, version)) && self.unreadable.wants(kind, key, version)
    }

    /// Of all that is there, whether it could be read or not.
    fn keys(&self, kind: Kind) -> BTreeSet<Key> {
        let mut keys: BTreeSet<Key> = each_store!(self, kind, |store| store.keys()).into_iter().collect();
        keys.extend(self.unreadable.of(kind).map(|one| one.key.clone()));
        keys
    }

    fn advance(&mut self, kind: Kind, version: u64) {
        match kind {
            Kind::Namespace => self.namespaces.advance(version),
            Kind::StorageClass => self.classes.advance(version),
            Kind::PersistentVolume => self.volumes.advance(version),
            Kind::PersistentVolumeClaim => self.volume_claims.advance(version),
            Kind::CSINode => self.csi_nodes.advance(version),
            Kind::VolumeAttachment => self.attachments.advance(version),
            Kind::Service => self.services.advance(version),
            Kind::ReplicationController => self.controllers.advance(version),
            Kind::ReplicaSet => self.replica_sets.advance(version),
            Kind::StatefulSet => self.stateful_sets.advance(version),
            Kind::DaemonSet => self.daemon_sets.advance(version),
            Kind::PodDisruptionBudget => self.budgets.advance(version),
            Kind::PodTemplate => self.pod_templates.advance(version),
            Kind::CapacityBuffer => self.buffers.advance(version),
            Kind::NodeClass => self.node_classes.advance(version),
            Kind::NodeOverlay => self.node_overlays.advance(version),
            Kind::NodePool => self.node_pools.advance(version),
            Kind::NodeClaim => self.node_claims.advance(version),
            Kind::Node => self.nodes.advance(version),
            Kind::Pod => self.pods.advance(version),
        }
    }

    /// Does something that a bug of ours may break: nothing comes of it then, and all that comes after it goes on.
    fn guarded<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(|| act(self)));
        self.panics += u64::from(done.is_err());
        done.ok()
    }

    /// Reduces and files an object; nothing comes of one that is refused, which counts as it last was. One with which our
    /// own code cannot cope is refused like any other, unless it may hold something up: then that is kept of it.
    fn put(&mut self, object: Object, key: Key, at: u64) -> Option<Change> {
        let kind = object.kind();
        self.unreadable.begin(kind, &key);
        let uid = object.metadata().uid.clone().unwrap_or_default();
        let (filed, kept) = match object {
            Object::Pod(pod) => (self.guarded(|state| Ok(state.put_pod(&pod, &key, at))), Some(Kept::Pod(pod))),
            Object::PodDisruptionBudget(budget) => {
                (self.guarded(|state| Ok(state.put_budget(&budget, &key, at))), Some(Kept::Budget))
            }
            Object::VolumeAttachment(held) => {
                let filed = self.guarded(|state| Ok(state.put_attachment(&held, &key, at)));
                (filed, Some(Kept::Attachment(held.spec.node_name.into())))
            }
            object => (self.guarded(|state| state.put_as(object, &key, at)), None),
        };
        let change = match filed {
            Some(Ok(what)) => {
                let change = Change { kind, key: key.clone(), initial: false, what };
                if self.guarded(|state| state.settle(&change)).is_none() {
                    self.unreadable.note(Unreadable::panicked(kind, &key, &uid, at));
                }
                Some(change)
            }
            Some(Err(refused)) => {
                self.unreadable.note(Unreadable::refused(kind, &key, &uid, at, &refused, false));
                None
            }
            None => {
                let one = Unreadable::panicked(kind, &key, &uid, at);
                match kept {
                    None => {
                        self.unreadable.note(one);
                        None
                    }
                    Some(Kept::Budget) => self.put_unreadable(one),
                    Some(Kept::Pod(pod)) => self.put_unreadable(Unreadable { pod: Some(Box::new(bare(&pod))), ..one }),
                    Some(Kept::Attachment(node)) => self.put_unreadable(Unreadable { node: Some(node), ..one }),
                }
            }
        };
        self.unreadable.end();
        change
    }

    fn put_pod(&mut self, object: &k8s_openapi::api::core::v1::Pod, key: &Key, at: u64) -> What {
        #[cfg(test)]
        planted(key, "a-bug-of-ours");
        let tracked = reduce::read_pod(object, &mut self.interner);
        self.file_pod(key, at, tracked)
    }

    fn put_budget(&mut self, object: &k8s_openapi::api::policy::v1::PodDisruptionBudget, key: &Key, at: u64) -> What {
        #[cfg(test)]
        planted(key, "a-bug-of-ours");
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        self.file_budget(key, at, uid, reduce::disruption_budget(object));
        What::Other
    }

    fn put_attachment(&mut self, held: &k8s_openapi::api::storage::v1::VolumeAttachment, key: &Key, at: u64) -> What {
        #[cfg(test)]
        planted(key, "a-bug-of-ours");
        let new = Arc::new(reduce::attachment(held));
        let old = self.attachments.put(key.clone(), at, new.clone());
        self.file_attachment(key, old.as_deref(), Some(&new));
        What::Other
    }

    fn put_as(&mut self, object: Object, key: &Key, at: u64) -> Result<What, Refused> {
        #[cfg(test)]
        planted(key, "a-bug-of-ours");
        let key = key.clone();
        Ok(match object {
            Object::Namespace(object) => {
                self.namespaces.put(key, at, Arc::new(reduce::namespace_labels(&object)));
                What::Other
            }
            Object::StorageClass(object) => {
                let reduce::Read { value: reduced, reading } = reduce::read_storage_class(&object);
                if let Some(refused) = reading.refused() {
                    let uid = object.metadata.uid.as_deref().unwrap_or_default();
                    self.unreadable.note(Unreadable::refused(Kind::StorageClass, &key, uid, at, refused, true));
                }
                self.classes.put(key, at, Arc::new(reduced));
                What::Other
            }
            Object::PersistentVolume(object) => {
                self.volumes.put(key, at, Arc::new(reduce::volume(&object)));
                What::Other
            }
            Object::PersistentVolumeClaim(object) => {
                self.volume_claims.put(key, at, Arc::new(reduce::volume_claim(&object)));
                What::Other
            }
            Object::CSINode(mut object) => {
                slim(&mut object.metadata);
                self.csi_nodes.put(key, at, Arc::new(*object));
                What::Other
            }
            Object::VolumeAttachment(object) => self.put_attachment(&object, &key, at),
            Object::Service(object) => {
                self.services.put(key, at, Arc::new(reduce::service(&object)));
                What::Other
            }
            Object::ReplicationController(object) => {
                let labels = object.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
                let all = labels.iter().map(|(key, value)| SelectorExpression::equals(key, value));
                self.controllers.put(key, at, Workload::new(&object.metadata, Selector::new(all.collect::<Vec<_>>())));
                What::Other
            }
            Object::ReplicaSet(object) => {
                let selector = object.spec.as_ref().map(|spec| reduce::selector(&spec.selector));
                let selector = selector.unwrap_or_else(Selector::invalid);
                self.replica_sets.put(key, at, Workload::new(&object.metadata, selector));
                What::Other
            }
            Object::StatefulSet(object) => {
                let selector = object.spec.as_ref().map(|spec| reduce::selector(&spec.selector));
                let selector = selector.unwrap_or_else(Selector::invalid);
                self.stateful_sets.put(key, at, Workload::new(&object.metadata, selector));
                What::Other
            }
            Object::DaemonSet(object) => {
                let reduce::Read { value: reduced, reading } = reduce::read_daemon_set(&object, &mut self.interner);
                let uid = reduced.uid.clone();
                if let Some(refused) = reading.refused() {
                    self.unreadable.note(Unreadable::refused(Kind::DaemonSet, &key, &uid, at, refused, true));
                }
                let old = self.daemon_sets.put(key, at, Arc::new(reduced));
                if let Some(old) = old.filter(|old| old.uid != uid) {
                    self.samples.forget(&old.uid);
                }
                What::Other
            }
            Object::PodDisruptionBudget(object) => self.put_budget(&object, &key, at),
            Object::PodTemplate(mut object) => {
                slim(&mut object.metadata);
                self.pod_templates.put(key, at, Arc::new(*object));
                What::Other
            }
            Object::CapacityBuffer(mut object) => {
                slim(&mut object.metadata);
                self.buffers.put(key, at, Arc::new(*object));
                What::Other
            }
            Object::NodeClass(mut object) => {
                slim(&mut object.metadata);
                let new = Arc::new(*object);
                What::NodeClass(Pair { old: self.node_classes.put(key, at, new.clone()), new: Some(new) })
            }
            Object::NodeOverlay(mut object) => {
                slim(&mut object.metadata);
                let new = Arc::new(*object);
                What::NodeOverlay(Pair { old: self.node_overlays.put(key, at, new.clone()), new: Some(new) })
            }
            Object::NodePool(mut object) => {
                slim(&mut object.metadata);
                let new = Arc::new(*object);
                What::NodePool(Pair { old: self.node_pools.put(key, at, new.clone()), new: Some(new) })
            }
            Object::NodeClaim(mut object) => {
                slim(&mut object.metadata);
                let new = Arc::new(*object);
                What::NodeClaim(Pair { old: self.node_claims.put(key, at, new.clone()), new: Some(new) })
            }
            Object::Node(mut object) => {
                slim(&mut object.metadata);
                if let Some(status) = &mut object.status {
                    // Dozens of image names per node, which nobody asks for.
                    status.images = None;
                }
                let new = Arc::new(*object);
                What::Node(Pair { old: self.nodes.put(key, at, new.clone()), new: Some(new) })
            }
            Object::Pod(object) => self.put_pod(&object, &key, at),
        })
    }

    /// Whatever breaks over what follows from it, the object is gone, and the others of its list are taken out as well.
    fn take(&mut self, kind: Kind, key: &Key, at: u64) -> Option<Change> {
        if self.unreadable.remove(kind, key, at) {
            self.unsettled += 1;
        }
        let what = self.guarded(|state| state.take_as(kind, key, at))??;
        let change = Change { kind, key: key.clone(), initial: false, what };
        self.guarded(|state| {
            #[cfg(test)]
            planted(&change.key, "a-bug-about-the-end");
            state.settle(&change);
        });
        Some(change)
    }

    fn take_as(&mut self, kind: Kind, key: &Key, at: u64) -> Option<What> {
        match kind {
            Kind::Namespace => self.namespaces.remove(key, at).map(|_| What::Other),
            Kind::StorageClass => self.classes.remove(key, at).map(|_| What::Other),
            Kind::PersistentVolume => self.volumes.remove(key, at).map(|_| What::Other),
            Kind::PersistentVolumeClaim => self.volume_claims.remove(key, at).map(|_| What::Other),
            Kind::CSINode => self.csi_nodes.remove(key, at).map(|_| What::Other),
            Kind::VolumeAttachment => self.attachments.remove(key, at).map(|old| {
                self.file_attachment(key, Some(&old), None);
                What::Other
            }),
            Kind::Service => self.services.remove(key, at).map(|_| What::Other),
            Kind::ReplicationController => self.controllers.remove(key, at).map(|_| What::Other),
            Kind::ReplicaSet => self.replica_sets.remove(key, at).map(|_| What::Other),
            Kind::StatefulSet => self.stateful_sets.remove(key, at).map(|_| What::Other),
            Kind::DaemonSet => self.daemon_sets.remove(key, at).map(|old| {
                self.samples.forget(&old.uid);
                What::Other
            }),
            Kind::PodDisruptionBudget => self.budgets.remove(key, at).map(|_| What::Other),
            Kind::PodTemplate => self.pod_templates.remove(key, at).map(|_| What::Other),
            Kind::CapacityBuffer => self.buffers.remove(key, at).map(|_| What::Other),
            Kind::NodeClass => self.node_classes.remove(key, at).map(|old| What::NodeClass(gone(old))),
            Kind::NodeOverlay => self.node_overlays.remove(key, at).map(|old| What::NodeOverlay(gone(old))),
            Kind::NodePool => self.node_pools.remove(key, at).map(|old| What::NodePool(gone(old))),
            Kind::NodeClaim => self.node_claims.remove(key, at).map(|old| What::NodeClaim(gone(old))),
            Kind::Node => self.nodes.remove(key, at).map(|old| What::Node(gone(old))),
            Kind::Pod => self.pods.remove(key, at).map(|old| What::Pod(gone(old))),
        }
    }
}

/// What an object holds up that our own code cannot cope with.
enum Kept {
    Pod(Box<k8s_openapi::api::core::v1::Pod>),
    Budget,
    /// The Node.
    Attachment(Arc<str>),
}

/// The least that has to be known of a pod: that it is there, where, whose, and until when.
fn bare(pod: &k8s_openapi::api::core::v1::Pod) -> k8s_openapi::api::core::v1::Pod {
    use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
    let spec = pod.spec.as_ref();
    let metadata = karpenter_api::ObjectMeta {
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: pod.metadata.uid.clone(),
        owner_references: pod.metadata.owner_references.clone(),
        deletion_timestamp: pod.metadata.deletion_timestamp.clone(),
        ..Default::default()
    };
    let spec = PodSpec {
        node_name: spec.and_then(|spec| spec.node_name.clone()),
        termination_grace_period_seconds: spec.and_then(|spec| spec.termination_grace_period_seconds),
        ..Default::default()
    };
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
    Pod { metadata, spec: Some(spec), status: Some(PodStatus { phase, ..Default::default() }) }
}

/// A bug of ours that one object brings out, for tests.
#[cfg(test)]
pub(crate) fn planted(key: &Key, name: &str) {
    assert!(*key.name != *name, "planted");
}

fn gone<T>(old: Arc<T>) -> Pair<T> {
    Pair { old: Some(old), new: None }
}

/// Who wrote which field is half of many an object. Nobody writes a kept object back whole, so it can go.
fn slim(metadata: &mut karpenter_api::ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

#[cfg(test)]
mod tests;
