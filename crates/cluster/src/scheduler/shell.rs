//! The scheduler as a part of the cluster: changes in, writes out.

use super::decide::{Decision, Placement, Preemption, Unschedulable, decide};
use super::pod::PodInfo;
use super::queue::PodQueue;
use super::reject::Plugin;
use super::snapshot::Snapshot;
use super::storage::{BOUND_BY_CONTROLLER, SELECTED_NODE, fully_bound};
use super::volumes::PodVolumes;
use crate::clock::wire;
use crate::key::Key;
use crate::op::{Event, Op, Source, Style};
use crate::selector::Selector;
use crate::world::{Change, Kind, Object, World};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub const NAME: &str = "default-scheduler";
/// A claim that is not bound by then gives its node up.
const VOLUME_TIMEOUT: Duration = Duration::from_secs(600);

pub struct Scheduler {
    pub snapshot: Snapshot,
    queue: PodQueue,
    /// Pods on their way to a node, until the watch shows them there.
    assumed: BTreeMap<Key, Assumed>,
    /// Pods whose claims a change of the claims may have completed.
    recheck: BTreeSet<Key>,
}

struct Assumed {
    info: Arc<PodInfo>,
    node: Arc<str>,
    /// When waiting for its claims ends; `None` once the binding is written.
    claims_until: Option<Instant>,
}

/// Every plugin, for changes that concern them all.
const ALL: [Plugin; 12] = [
    Plugin::NodeUnschedulable,
    Plugin::NodeName,
    Plugin::TaintToleration,
    Plugin::NodeAffinity,
    Plugin::NodePorts,
    Plugin::NodeResources,
    Plugin::VolumeRestrictions,
    Plugin::VolumeLimits,
    Plugin::VolumeBinding,
    Plugin::VolumeZone,
    Plugin::PodTopologySpread,
    Plugin::InterPodAffinity,
];
const VOLUMES: [Plugin; 4] =
    [Plugin::VolumeRestrictions, Plugin::VolumeLimits, Plugin::VolumeBinding, Plugin::VolumeZone];

impl Scheduler {
    pub fn new(seed: u64) -> Self {
        Self {
            snapshot: Snapshot::new(seed),
            queue: PodQueue::default(),
            assumed: BTreeMap::new(),
            recheck: BTreeSet::new(),
        }
    }

    pub fn has_work(&mut self, now: Instant) -> bool {
        !self.recheck.is_empty() || self.queue.has_ready(now)
    }

    pub fn next_timer(&self) -> Option<Instant> {
        let claims = self.assumed.values().filter_map(|a| a.claims_until).min();
        self.queue.next_timer().into_iter().chain(claims).min()
    }

    /// Decides about one pod; answers it and what to write.
    pub fn next(&mut self, world: &World, now: Timestamp, instant: Instant) -> Option<(Key, Vec<Op>)> {
        if let Some(done) = self.next_claims(instant) {
            return Some(done);
        }
        let pod = self.queue.pop(instant)?;
        // What is queued may be older than what is known.
        let current = world.pods.get(&pod.key).filter(|p| p.metadata.uid.as_deref() == Some(&*pod.uid));
        if current.is_none() || pod.terminating || self.assumed.contains_key(&pod.key) {
            self.queue.remove(&pod.key);
            return Some((pod.key.clone(), Vec::new()));
        }
        let ops = match decide(&self.snapshot, &pod, now) {
            Decision::Place(placement) => self.place(pod.clone(), placement, instant),
            Decision::Unschedulable(why) => self.refuse(&pod, why, now, instant),
            Decision::Preempt(preemption) => self.preempt(&pod, preemption, now, instant),
        };
        Some((pod.key.clone(), ops))
    }

    fn place(&mut self, pod: Arc<PodInfo>, placement: Placement, now: Instant) -> Vec<Op> {
        let Placement { node, volumes, examined } = placement;
        self.advance(examined);
        self.snapshot.nominate(&pod, None);
        self.snapshot.place(pod.clone(), &node);
        self.queue.remove(&pod.key);
        let unbound = !volumes.bindings.is_empty() || !volumes.provisions.is_empty();
        let claims_until = unbound.then(|| now + VOLUME_TIMEOUT);
        self.assumed.insert(pod.key.clone(), Assumed { info: pod.clone(), node: node.clone(), claims_until });
        self.on_placed(&pod);
        if unbound {
            let mut ops = vec![patch_status(&pod.key, json!({"nominatedNodeName": &*node}))];
            ops.extend(self.bind_volumes(volumes, &node));
            ops
        } else {
            bind(&pod, &node)
        }
    }

    /// Reserves existing volumes and asks for new ones; the volume controllers do the rest.
    fn bind_volumes(&mut self, volumes: PodVolumes, node: &str) -> Vec<Op> {
        let mut ops = Vec::new();
        for (volume, claim) in volumes.bindings {
            let reserved = Arc::new(reserve(&volume, &claim));
            self.snapshot.storage.volumes.insert(crate::key::name(&reserved.metadata).into(), reserved.clone());
            ops.push(Op::Update(Object::PersistentVolume(reserved)));
        }
        for claim in volumes.provisions {
            let mut wanted = (*claim).clone();
            wanted.metadata.annotations.get_or_insert_default().insert(SELECTED_NODE.into(), node.into());
            let wanted = Arc::new(wanted);
            self.snapshot.storage.claims.insert(Key::of(&wanted.metadata), wanted.clone());
            ops.push(Op::Update(Object::PersistentVolumeClaim(wanted)));
        }
        ops
    }

    /// A pod whose claims are bound by now, or will not be.
    fn next_claims(&mut self, now: Instant) -> Option<(Key, Vec<Op>)> {
        let late = self.assumed.iter().find(|(_, a)| a.claims_until.is_some_and(|t| t <= now)).map(|(k, _)| k.clone());
        if let Some(key) = late {
            self.failed(&key, now);
            return Some((key, Vec::new()));
        }
        while let Some(key) = self.recheck.pop_first() {
            let Some(assumed) = self.assumed.get_mut(&key).filter(|a| a.claims_until.is_some()) else { continue };
            let claims = &self.snapshot.storage.claims;
            let done =
                assumed.info.claims.iter().all(|c| claims.get(&key.sibling(&c.name)).is_some_and(|c| fully_bound(c)));
            if done {
                assumed.claims_until = None;
                let (info, node) = (assumed.info.clone(), assumed.node.clone());
                return Some((key, bind(&info, &node)));
            }
        }
        None
    }

    fn refuse(&mut self, pod: &Arc<PodInfo>, why: Unschedulable, now: Timestamp, instant: Instant) -> Vec<Op> {
        self.advance(why.examined);
        self.queue.unschedulable(&pod.key, why.plugins, instant);
        let nominated = if why.clear_nomination { Some("") } else { None };
        if why.clear_nomination {
            self.snapshot.nominate(pod, None);
        }
        failure(pod, why.message, nominated, now)
    }

    fn preempt(&mut self, pod: &Arc<PodInfo>, preemption: Preemption, now: Timestamp, instant: Instant) -> Vec<Op> {
        self.advance(preemption.examined);
        self.queue.unschedulable(&pod.key, preemption.plugins, instant);
        self.snapshot.nominate(pod, Some(&preemption.node));
        let mut ops = Vec::new();
        for victim in &preemption.victims {
            ops.extend(evict(pod, victim, &preemption.node, now));
        }
        for key in &preemption.displaced {
            if let Some(info) = self.queue.info(key).cloned() {
                self.snapshot.nominate(&info, None);
                ops.push(patch_status(key, json!({"nominatedNodeName": null})));
            }
        }
        ops.extend(failure(pod, preemption.message, Some(&preemption.node), now));
        ops
    }

    fn advance(&mut self, examined: usize) {
        let nodes = self.snapshot.order().len().max(1);
        self.snapshot.start = (self.snapshot.start + examined) % nodes;
    }

    /// The writes for a pod failed: it goes back, its room with it.
    pub fn failed(&mut self, key: &Key, now: Instant) {
        if let Some(assumed) = self.assumed.remove(key) {
            self.snapshot.forget(&assumed.info.uid);
            self.on_gone(&assumed.info);
            self.queue.update(assumed.info, false);
        }
        self.queue.back_off(key, now);
    }

    /// Takes in a change of the world.
    pub fn observe(&mut self, change: &Change) {
        match change.latest() {
            Object::Pod(_) => self.observe_pod(change),
            Object::Node(_) => self.observe_node(change),
            Object::Namespace(n) => {
                let name = crate::key::name(&n.metadata).to_owned();
                match &change.new {
                    Some(_) => self.snapshot.namespaces.insert(name, n.metadata.labels.clone().unwrap_or_default()),
                    None => self.snapshot.namespaces.remove(&name),
                };
                self.queue.wake(&[Plugin::InterPodAffinity], |_, _| true);
            }
            Object::Service(s) => {
                let selector = s.spec.as_ref().and_then(|s| s.selector.clone()).unwrap_or_default();
                set(&mut self.snapshot.groups.services, change, selector);
            }
            Object::ReplicaSet(r) => {
                let selector = r.spec.as_ref().map(|s| Selector::new(Some(&s.selector)));
                self.set_owner("ReplicaSet", change, selector);
            }
            Object::StatefulSet(s) => {
                let selector = s.spec.as_ref().map(|s| Selector::new(Some(&s.selector)));
                self.set_owner("StatefulSet", change, selector);
            }
            Object::PodDisruptionBudget(b) => set(&mut self.snapshot.budgets, change, b.clone()),
            _ => self.observe_storage(change),
        }
    }

    fn set_owner(&mut self, kind: &str, change: &Change, selector: Option<Selector>) {
        let key = (kind.to_owned(), change.key.clone());
        match selector.filter(|_| change.new.is_some()) {
            Some(selector) => self.snapshot.groups.owners.insert(key, selector),
            None => self.snapshot.groups.owners.remove(&key),
        };
    }

    fn observe_storage(&mut self, change: &Change) {
        let storage = &mut self.snapshot.storage;
        let name = change.key.name.to_string();
        match change.latest() {
            Object::PersistentVolumeClaim(c) => {
                set(&mut storage.claims, change, c.clone());
                let waiting = self.assumed.iter().filter(|(k, a)| {
                    a.claims_until.is_some()
                        && k.namespace == change.key.namespace
                        && a.info.claims.iter().any(|c| *c.name == name)
                });
                self.recheck.extend(waiting.map(|(k, _)| k.clone()));
            }
            Object::PersistentVolume(v) => set_named(&mut storage.volumes, change, name, v.clone()),
            Object::StorageClass(c) => set_named(&mut storage.classes, change, name, c.clone()),
            Object::CSINode(n) => set_named(&mut storage.csi_nodes, change, name, n.clone()),
            Object::CSIDriver(d) => set_named(&mut storage.csi_drivers, change, name, d.clone()),
            Object::VolumeAttachment(a) => set_named(&mut storage.attachments, change, name, a.clone()),
            Object::CSIStorageCapacity(c) => set(&mut storage.capacities, change, c.clone()),
            _ => return,
        }
        self.queue.wake(&VOLUMES, |_, _| true);
    }

    fn observe_node(&mut self, change: &Change) {
        let Some(Object::Node(node)) = &change.new else {
            self.snapshot.remove_node(&change.key.name);
            self.queue.wake(&[Plugin::PodTopologySpread], |_, _| true);
            return;
        };
        let before = self.snapshot.slot(&change.key.name).map(|slot| self.snapshot.node(slot).clone());
        self.snapshot.set_node(node.clone());
        let Some(slot) = self.snapshot.slot(&change.key.name) else { return };
        let after = self.snapshot.node(slot);
        let unchanged = before.as_ref().is_some_and(|b| {
            b.labels == after.labels
                && b.taints == after.taints
                && b.unschedulable == after.unschedulable
                && b.allocatable == after.allocatable
        });
        if unchanged {
            return;
        }
        // Spread and affinity depend on more than this node; the others can say by themselves whether it could do.
        self.queue.wake(&ALL, |pod, by| {
            let fits = |want: i64, have: i64| want <= have;
            let roomy = fits(pod.requests.milli_cpu, after.allocatable.milli_cpu)
                && fits(pod.requests.memory, after.allocatable.memory)
                && fits(pod.requests.ephemeral_storage, after.allocatable.ephemeral_storage)
                && pod.requests.scalars.iter().all(|(n, w)| fits(*w, after.allocatable.scalar(n)));
            ALL.iter().filter(|p| by.contains(**p)).any(|plugin| match plugin {
                Plugin::NodeUnschedulable => !after.unschedulable,
                Plugin::TaintToleration => pod.untolerated(&after.taints).is_none(),
                Plugin::NodeAffinity => pod.demand.matches(&after.name, &after.labels),
                Plugin::NodeResources => roomy,
                Plugin::NodeName
                | Plugin::NodePorts
                | Plugin::VolumeRestrictions
                | Plugin::VolumeLimits
                | Plugin::VolumeBinding
                | Plugin::VolumeZone
                | Plugin::PodTopologySpread
                | Plugin::InterPodAffinity => true,
            })
        });
    }

    fn observe_pod(&mut self, change: &Change) {
        let old = pod_of(&change.old);
        let new = pod_of(&change.new).filter(|p| !finished(p));
        let Some(pod) = new else {
            if let Some(old) = old {
                self.drop_pod(&change.key, old);
            }
            return;
        };
        // A pod that was deleted and made again under its name between two looks.
        if let Some(old) = old.filter(|o| o.metadata.uid != pod.metadata.uid) {
            self.drop_pod(&change.key, old);
        }
        if old.is_some_and(|old| same_to_us(old, pod)) && !self.assumed.contains_key(&change.key) {
            return;
        }
        let info = Arc::new(PodInfo::new(pod.clone()));
        match node_of(pod) {
            Some(node) => {
                let assumed = self.assumed.remove(&change.key).is_some();
                let known = assumed || old.is_some_and(|o| node_of(o).is_some());
                let moved = !known || old.is_some_and(|o| o.metadata.labels != pod.metadata.labels);
                let freed = old.is_some_and(|o| node_of(o).is_some() && shrank(o, pod));
                self.queue.remove(&change.key);
                self.snapshot.nominate(&info, None);
                self.snapshot.place(info.clone(), node);
                if moved {
                    self.on_placed(&info);
                }
                if freed {
                    self.on_gone(&info);
                }
            }
            None if self.assumed.contains_key(&change.key) => {
                if info.terminating {
                    self.drop_pod(&change.key, pod);
                }
            }
            None if info.terminating
                || info.spec().and_then(|s| s.scheduler_name.as_deref()).is_some_and(|n| n != NAME) =>
            {
                self.queue.remove(&change.key);
            }
            None => self.observe_pending(old, info),
        }
    }

    fn observe_pending(&mut self, old: Option<&Arc<Pod>>, info: Arc<PodInfo>) {
        let hoped = |p: &Pod| p.status.as_ref().and_then(|s| s.nominated_node_name.clone()).unwrap_or_default();
        let hope_changed = old.is_some_and(|o| !hoped(o).is_empty() && hoped(o) != hoped(&info.pod));
        let changed = old.is_none_or(|o| o.spec != info.pod.spec || o.metadata.labels != info.pod.metadata.labels);
        self.snapshot.nominate(&info, info.nominated_node());
        let priority = info.priority;
        self.queue.update(info, changed);
        if hope_changed {
            self.queue.wake(&ALL, |pod, _| pod.priority <= priority);
        }
    }

    fn drop_pod(&mut self, key: &Key, pod: &Arc<Pod>) {
        let info = Arc::new(PodInfo::new(pod.clone()));
        self.queue.remove(key);
        self.assumed.remove(key);
        self.recheck.remove(key);
        self.snapshot.nominate(&info, None);
        let placed = self.snapshot.forget(&info.uid);
        if placed || info.nominated_node().is_some() {
            self.on_gone(&info);
        }
    }

    /// Company can help pods that want some or that must keep their distance even.
    fn on_placed(&mut self, placed: &Arc<PodInfo>) {
        let snapshot = &self.snapshot;
        let namespace = snapshot.namespace_labels(&placed.key.namespace);
        self.queue.wake(&[Plugin::InterPodAffinity, Plugin::PodTopologySpread], |pod, _| {
            pod.affinity.iter().any(|t| t.matches(&placed.key.namespace, namespace, &placed.labels))
                || pod.hard_spread.iter().any(|c| c.selector.matches(&placed.labels))
        });
    }

    fn on_gone(&mut self, _gone: &Arc<PodInfo>) {
        let freed = [
            Plugin::NodeResources,
            Plugin::NodePorts,
            Plugin::VolumeRestrictions,
            Plugin::VolumeLimits,
            Plugin::PodTopologySpread,
            Plugin::InterPodAffinity,
        ];
        self.queue.wake(&freed, |_, _| true);
    }
}

fn set<T>(map: &mut BTreeMap<Key, T>, change: &Change, value: T) {
    match change.new {
        Some(_) => map.insert(change.key.clone(), value),
        None => map.remove(&change.key),
    };
}

fn set_named<T>(map: &mut BTreeMap<String, T>, change: &Change, name: String, value: T) {
    match change.new {
        Some(_) => map.insert(name, value),
        None => map.remove(&name),
    };
}

fn pod_of(object: &Option<Object>) -> Option<&Arc<Pod>> {
    match object {
        Some(Object::Pod(pod)) => Some(pod),
        _ => None,
    }
}

/// Whether a pod on its node changed in nothing that anybody here looks at: most changes of a status are of that kind.
fn same_to_us(old: &Pod, new: &Pod) -> bool {
    let gist = |pod: &'_ Pod| {
        let status = pod.status.as_ref();
        (status.and_then(|s| s.start_time.clone()), pod.metadata.deletion_timestamp.clone())
    };
    let sizes = |pod: &Pod| {
        let of = |list: &Option<Vec<ContainerStatus>>| {
            let sizes = list.iter().flatten().map(|c| (c.resources.clone(), c.allocated_resources.clone()));
            sizes.collect::<Vec<_>>()
        };
        let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let resizing = conditions.filter(|c| c.type_.starts_with("PodResize")).cloned().collect::<Vec<_>>();
        (pod.status.as_ref().map(|s| (of(&s.container_statuses), of(&s.init_container_statuses))), resizing)
    };
    node_of(old).is_some()
        && !finished(old)
        && old.metadata.uid == new.metadata.uid
        && old.metadata.labels == new.metadata.labels
        && gist(old) == gist(new)
        && old.spec == new.spec
        && sizes(old) == sizes(new)
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|n| !n.is_empty())
}

fn finished(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).is_some_and(|p| p == "Succeeded" || p == "Failed")
}

/// A resize in place may have made room.
fn shrank(old: &Pod, new: &Pod) -> bool {
    let (before, after) = (crate::resources::pod_requests(old), crate::resources::pod_requests(new));
    after.milli_cpu < before.milli_cpu || after.memory < before.memory
}

fn reserve(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> PersistentVolume {
    let mut reserved = volume.clone();
    let spec = reserved.spec.get_or_insert_default();
    spec.claim_ref = Some(ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("PersistentVolumeClaim".into()),
        name: claim.metadata.name.clone(),
        namespace: claim.metadata.namespace.clone(),
        uid: claim.metadata.uid.clone(),
        resource_version: claim.metadata.resource_version.clone(),
        ..ObjectReference::default()
    });
    reserved.metadata.annotations.get_or_insert_default().insert(BOUND_BY_CONTROLLER.into(), "yes".into());
    reserved
}

fn patch_status(key: &Key, status: Value) -> Op {
    let body = json!({"status": status});
    Op::Patch { kind: Kind::Pod, key: key.clone(), subresource: "status", style: Style::Strategic, body }
}

fn bind(pod: &PodInfo, node: &str) -> Vec<Op> {
    let message = format!("Successfully assigned {} to {node}", pod.key);
    vec![
        Op::Bind { pod: pod.key.clone(), uid: pod.uid.clone(), node: node.into() },
        Op::Event(Event::normal(
            &Object::Pod(pod.pod.clone()),
            Source::Scheduler { action: "Binding" },
            "Scheduled",
            message,
        )),
    ]
}

fn evict(pod: &PodInfo, victim: &PodInfo, node: &str, now: Timestamp) -> Vec<Op> {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "observedGeneration": victim.pod.metadata.generation,
        "message": format!("{NAME}: preempting to accommodate a higher priority pod"),
        "lastProbeTime": null, "lastTransitionTime": wire(now)});
    let object = Object::Pod(victim.pod.clone());
    let message = format!("Preempted by pod {} on node {node}", pod.uid);
    vec![
        patch_status(&victim.key, json!({"conditions": [condition]})),
        Op::delete(&object),
        Op::Event(Event::normal(&object, Source::Scheduler { action: "Preempting" }, "Preempted", message)),
    ]
}

/// Tells the pod why, unless it knows.
fn failure(pod: &PodInfo, message: String, nominated: Option<&str>, now: Timestamp) -> Vec<Op> {
    let conditions = pod.pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let before = conditions.iter().find(|c| c.type_ == "PodScheduled");
    let told = before.is_some_and(|c| {
        c.status == "False" && c.reason.as_deref() == Some("Unschedulable") && c.message.as_deref() == Some(&message)
    });
    let renominated = nominated.filter(|n| *n != pod.nominated_node().unwrap_or_default());
    let mut note = message.clone();
    // The longest note the events API takes.
    if note.len() > 1024 {
        let mut end = 1020;
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push_str(" ...");
    }
    let source = Source::Scheduler { action: "Scheduling" };
    let event = Event::warning(&Object::Pod(pod.pod.clone()), source, "FailedScheduling", note);
    let mut ops = Vec::new();
    if !told || renominated.is_some() {
        let mut status = json!({});
        if !told {
            let since = before.filter(|c| c.status == "False").and_then(|c| c.last_transition_time.clone());
            status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": message, "lastProbeTime": null, "lastTransitionTime": since.unwrap_or_else(|| wire(now)),
                "observedGeneration": pod.pod.metadata.generation}]);
        }
        if let Some(node) = renominated {
            status["nominatedNodeName"] = if node.is_empty() { Value::Null } else { json!(node) };
        }
        ops.push(patch_status(&pod.key, status));
    }
    if !told {
        ops.push(Op::Event(event));
    }
    ops
}
