//! Who must look when something changes.

use super::queue::Queue;
use super::task::Task;
use crate::cluster::Parts;
use crate::controllers::podgc::QUARANTINE;
use crate::controllers::replicas::node_of;
use crate::key::{Key, controller_of};
use crate::kubelet::Fleet;
use crate::selector::Selector;
use crate::world::{Change, Kind, Object, World};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

/// The kinds the chosen parts need.
pub fn kinds(parts: &Parts) -> Vec<Kind> {
    let workloads = [
        Kind::Deployment,
        Kind::ReplicaSet,
        Kind::StatefulSet,
        Kind::DaemonSet,
        Kind::Job,
        Kind::CronJob,
        Kind::ControllerRevision,
    ];
    let needed = |kind: &Kind| match kind {
        Kind::Namespace | Kind::Node | Kind::Pod | Kind::PersistentVolume | Kind::PersistentVolumeClaim => true,
        Kind::Service => parts.scheduler || parts.workloads,
        Kind::ReplicaSet | Kind::StatefulSet => parts.scheduler || parts.workloads || parts.disruption,
        Kind::Deployment => parts.workloads || parts.disruption,
        Kind::PodDisruptionBudget => parts.scheduler || parts.disruption,
        Kind::ServiceAccount | Kind::ConfigMap => parts.namespaces,
        Kind::EndpointSlice => parts.workloads,
        Kind::Lease => parts.nodes || parts.kubelets,
        Kind::CSIDriver | Kind::CSINode | Kind::CSIStorageCapacity | Kind::StorageClass | Kind::VolumeAttachment => {
            true
        }
        other => parts.workloads && workloads.contains(other),
    };
    Kind::ALL.iter().copied().filter(needed).collect()
}

/// Puts everything that a change concerns on the queue.
pub fn affected(world: &World, fleet: &Fleet, parts: &Parts, change: &Change, queue: &mut Queue<Task>) {
    let key = &change.key;
    let route = Route { world, fleet, parts, change };
    match change.latest() {
        Object::Pod(_) => route.pod(queue),
        Object::Node(_) => route.node(queue),
        Object::Namespace(_) => {
            if parts.namespaces {
                queue.push(Task::Namespace(key.clone()));
            }
        }
        Object::ServiceAccount(_) | Object::ConfigMap(_) => {
            if parts.namespaces {
                queue.push(Task::Namespace(Key::cluster(&key.namespace)));
            }
        }
        Object::Service(_) => {
            if parts.workloads {
                queue.push(Task::Endpoints(key.clone()));
            }
        }
        Object::EndpointSlice(slice) => route.owner(&slice.metadata, queue),
        Object::Deployment(_) => {
            if parts.workloads {
                queue.push(Task::Deployment(key.clone()));
            }
            route.budgets_of_namespace(queue);
        }
        Object::ReplicaSet(set) => {
            if parts.workloads {
                queue.push(Task::ReplicaSet(key.clone()));
                route.owner(&set.metadata, queue);
                if controller_of(&set.metadata).is_none() {
                    world
                        .deployments
                        .in_namespace(&key.namespace)
                        .for_each(|(k, _)| queue.push(Task::Deployment(k.clone())));
                }
            }
        }
        Object::StatefulSet(_) => {
            if parts.workloads {
                queue.push(Task::StatefulSet(key.clone()));
            }
            route.budgets_of_namespace(queue);
        }
        Object::DaemonSet(_) => {
            if parts.workloads {
                queue.push(Task::DaemonSet(key.clone()));
            }
        }
        Object::ControllerRevision(revision) => route.owner(&revision.metadata, queue),
        Object::Job(job) => {
            if parts.workloads {
                queue.push(Task::Job(key.clone()));
                route.owner(&job.metadata, queue);
            }
        }
        Object::CronJob(_) => {
            if parts.workloads {
                queue.push(Task::CronJob(key.clone()));
            }
        }
        Object::PodDisruptionBudget(_) => {
            if parts.disruption {
                queue.push(Task::Budget(key.clone()));
            }
        }
        Object::Lease(_) => {
            if parts.nodes && &*key.namespace == crate::kubelet::node::LEASE_NAMESPACE {
                queue.push(Task::Node(Key::cluster(&key.name)));
            }
        }
        Object::PersistentVolumeClaim(claim) => {
            if parts.storage {
                queue.push(Task::Claim(key.clone()));
                if let Some(volume) = claim.spec.as_ref().and_then(|s| s.volume_name.as_ref()) {
                    queue.push(Task::Volume(Key::cluster(volume)));
                }
            }
            route.users_of_claim(queue);
            if change.new.is_none() {
                route.stateful_sets_of_namespace(queue);
            }
        }
        Object::PersistentVolume(volume) => {
            if parts.storage {
                queue.push(Task::Volume(key.clone()));
                let reference = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
                match reference {
                    Some(r) => queue.push(Task::Claim(Key::new(
                        r.namespace.as_deref().unwrap_or_default(),
                        r.name.as_deref().unwrap_or_default(),
                    ))),
                    None => route.unbound_claims(queue),
                }
            }
        }
        Object::StorageClass(_) => {
            if parts.storage {
                route.unbound_claims(queue);
            }
        }
        Object::VolumeAttachment(attachment) => {
            if parts.storage {
                queue.push(Task::Attachment(key.clone()));
                if let Some(volume) =
                    attachment.spec.source.persistent_volume_name.as_ref().filter(|_| change.new.is_none())
                {
                    queue.push(Task::Volume(Key::cluster(volume)));
                }
                queue.push(Task::Attach(attachment.spec.node_name.as_str().into()));
            }
            if parts.kubelets {
                world.pods_on(&attachment.spec.node_name).for_each(|p| queue.push(Task::Run(Key::of(&p.metadata))));
            }
        }
        Object::CSIDriver(_) | Object::CSINode(_) | Object::CSIStorageCapacity(_) => {}
    }
}

struct Route<'a> {
    world: &'a World,
    fleet: &'a Fleet,
    parts: &'a Parts,
    change: &'a Change,
}

impl Route<'_> {
    fn owner(&self, meta: &ObjectMeta, queue: &mut Queue<Task>) {
        let Some(owner) = controller_of(meta).filter(|_| self.parts.workloads) else { return };
        let key = self.change.key.sibling(&owner.name);
        match owner.kind.as_str() {
            "ReplicaSet" => queue.push(Task::ReplicaSet(key)),
            "Deployment" => queue.push(Task::Deployment(key)),
            "StatefulSet" => queue.push(Task::StatefulSet(key)),
            "DaemonSet" => queue.push(Task::DaemonSet(key)),
            "Job" => queue.push(Task::Job(key)),
            "CronJob" => queue.push(Task::CronJob(key)),
            "Service" => queue.push(Task::Endpoints(key)),
            _ => {}
        }
    }

    fn pod(&self, queue: &mut Queue<Task>) {
        let key = &self.change.key;
        let sides: Vec<&Arc<Pod>> =
            [&self.change.old, &self.change.new].into_iter().flatten().filter_map(as_pod).collect();
        for pod in &sides {
            self.owner(&pod.metadata, queue);
        }
        if self.parts.workloads && sides.iter().any(|p| controller_of(&p.metadata).is_none()) {
            self.adopters(queue);
        }
        let relevant = self.visible_change(&sides);
        if relevant {
            self.selectors(&sides, queue);
        }
        let Some(pod) = self.change.new.as_ref().and_then(as_pod) else {
            if self.parts.kubelets {
                queue.push(Task::Run(key.clone()));
            }
            self.volumes_of(sides.first(), queue);
            return;
        };
        let node = node_of(pod);
        if node.is_empty() {
            if pod.metadata.deletion_timestamp.is_some() && self.parts.nodes {
                queue.push(Task::Unscheduled(key.clone()));
            }
        } else {
            if self.parts.kubelets && self.fleet.host(node).is_some() {
                queue.push(Task::Run(key.clone()));
            }
            let placed = self.change.old.as_ref().and_then(as_pod).is_none_or(|old| node_of(old).is_empty());
            if self.parts.nodes && placed {
                queue.push(Task::Eviction(key.clone()));
                if self.world.nodes.get(&Key::cluster(node)).is_none() {
                    queue.push_at(Task::Orphans(node.into()), Instant::now() + QUARANTINE);
                }
            }
        }
        let has_claims = pod
            .spec
            .iter()
            .flat_map(|s| s.volumes.iter().flatten())
            .any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some());
        if has_claims && self.parts.storage {
            queue.push(Task::Ephemeral(key.clone()));
            if !node.is_empty() {
                queue.push(Task::Attach(node.into()));
            }
            if pod.metadata.deletion_timestamp.is_some() || crate::controllers::replicas::is_finished(pod) {
                self.volumes_of(Some(&pod), queue);
            }
        }
    }

    /// Whether services and budgets could care: most status changes are of no interest to them.
    fn visible_change(&self, sides: &[&Arc<Pod>]) -> bool {
        let [old, new] = sides else { return true };
        type Gist<'a> = (Option<&'a BTreeMap<String, String>>, bool, bool, Option<&'a str>, Option<&'a str>);
        fn gist(p: &Pod) -> Gist<'_> {
            let status = p.status.as_ref();
            let ready = crate::controllers::replicas::is_ready(p);
            let ip = status.and_then(|s| s.pod_ip.as_deref());
            let phase = status.and_then(|s| s.phase.as_deref());
            (p.metadata.labels.as_ref(), p.metadata.deletion_timestamp.is_some(), ready, ip, phase)
        }
        gist(old) != gist(new)
    }

    /// Services and budgets that select the pod as it was or is.
    fn selectors(&self, sides: &[&Arc<Pod>], queue: &mut Queue<Task>) {
        let namespace = &self.change.key.namespace;
        let labels: Vec<_> = sides.iter().map(|p| p.metadata.labels.clone().unwrap_or_default()).collect();
        if self.parts.workloads {
            for (key, service) in self.world.services.in_namespace(namespace) {
                let Some(selector) = service.spec.as_ref().and_then(|s| s.selector.as_ref()).filter(|s| !s.is_empty())
                else {
                    continue;
                };
                if labels.iter().any(|l| selector.iter().all(|(k, v)| l.get(k) == Some(v))) {
                    queue.push(Task::Endpoints(key.clone()));
                }
            }
        }
        if self.parts.disruption {
            for (key, budget) in self.world.budgets.in_namespace(namespace) {
                let selector = Selector::new(budget.spec.as_ref().and_then(|s| s.selector.as_ref()));
                if labels.iter().any(|l| selector.matches(l)) {
                    queue.push(Task::Budget(key.clone()));
                }
            }
        }
    }

    /// Controllers that may adopt a pod without one.
    fn adopters(&self, queue: &mut Queue<Task>) {
        let Some(pod) = self.change.new.as_ref().and_then(as_pod).filter(|p| controller_of(&p.metadata).is_none())
        else {
            return;
        };
        let (namespace, labels) = (&self.change.key.namespace, pod.metadata.labels.clone().unwrap_or_default());
        if labels.is_empty() {
            return;
        }
        for (key, set) in self.world.replica_sets.in_namespace(namespace) {
            if set.spec.as_ref().is_some_and(|s| Selector::new(Some(&s.selector)).matches(&labels)) {
                queue.push(Task::ReplicaSet(key.clone()));
            }
        }
        for (key, set) in self.world.stateful_sets.in_namespace(namespace) {
            if set.spec.as_ref().is_some_and(|s| Selector::new(Some(&s.selector)).matches(&labels)) {
                queue.push(Task::StatefulSet(key.clone()));
            }
        }
        for (key, set) in self.world.daemon_sets.in_namespace(namespace) {
            if set.spec.as_ref().is_some_and(|s| Selector::new(Some(&s.selector)).matches(&labels)) {
                queue.push(Task::DaemonSet(key.clone()));
            }
        }
    }

    fn volumes_of(&self, pod: Option<&&Arc<Pod>>, queue: &mut Queue<Task>) {
        let Some(pod) = pod.filter(|_| self.parts.storage) else { return };
        let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
        for volume in volumes {
            let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(c), _) => c.claim_name.clone(),
                (None, Some(_)) => format!("{}-{}", self.change.key.name, volume.name),
                (None, None) => continue,
            };
            queue.push(Task::Claim(self.change.key.sibling(&claim)));
            if !node_of(pod).is_empty() {
                queue.push(Task::Attach(node_of(pod).into()));
            }
        }
    }

    fn node(&self, queue: &mut Queue<Task>) {
        let key = &self.change.key;
        let name: Arc<str> = key.name.clone();
        if self.parts.kubelets {
            if self.fleet.host(&name).is_some() {
                queue.push(Task::Machine(name.clone()));
            }
            // A kubelet that has just registered has pods to look at.
            if self.change.old.is_none() {
                self.world.pods_on(&name).for_each(|p| queue.push(Task::Run(Key::of(&p.metadata))));
            }
        }
        let taints = |o: &Option<Object>| match o {
            Some(Object::Node(n)) => n.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default(),
            _ => Vec::new(),
        };
        if self.parts.nodes {
            queue.push(Task::Node(key.clone()));
            if taints(&self.change.old) != taints(&self.change.new) {
                self.world.pods_on(&name).for_each(|p| queue.push(Task::Eviction(Key::of(&p.metadata))));
            }
            if self.change.new.is_none() {
                queue.push_at(Task::Orphans(name.clone()), Instant::now() + QUARANTINE);
            }
        }
        let gist = |o: &Option<Object>| match o {
            Some(Object::Node(n)) => {
                Some((n.metadata.labels.clone(), n.spec.as_ref().map(|s| (s.taints.clone(), s.unschedulable))))
            }
            _ => None,
        };
        if self.parts.workloads && gist(&self.change.old) != gist(&self.change.new) {
            self.world.daemon_sets.keys().for_each(|k| queue.push(Task::DaemonSet(k.clone())));
        }
    }

    fn users_of_claim(&self, queue: &mut Queue<Task>) {
        if !self.parts.kubelets && !self.parts.storage {
            return;
        }
        let claim = &*self.change.key.name;
        let mut nodes: BTreeSet<String> = BTreeSet::new();
        for (key, pod) in self.world.pods.in_namespace(&self.change.key.namespace) {
            let uses = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten()).any(|v| {
                v.persistent_volume_claim.as_ref().is_some_and(|c| c.claim_name == claim)
                    || (v.ephemeral.is_some()
                        && claim.strip_suffix(&v.name).is_some_and(|p| p.strip_suffix('-') == Some(&*key.name)))
            });
            if !uses {
                continue;
            }
            if self.parts.kubelets {
                queue.push(Task::Run(key.clone()));
            }
            if self.parts.storage && self.change.new.is_none() {
                queue.push(Task::Ephemeral(key.clone()));
            }
            nodes.insert(node_of(pod).to_owned());
        }
        if self.parts.storage {
            nodes.iter().filter(|n| !n.is_empty()).for_each(|n| queue.push(Task::Attach(n.as_str().into())));
        }
    }

    fn unbound_claims(&self, queue: &mut Queue<Task>) {
        let unbound = self.world.claims.iter().filter(|(_, c)| !crate::scheduler::storage::fully_bound(c));
        unbound.for_each(|(key, _)| queue.push(Task::Claim(key.clone())));
    }

    fn budgets_of_namespace(&self, queue: &mut Queue<Task>) {
        let scaled = |o: &Option<Object>| match o {
            Some(Object::Deployment(d)) => d.spec.as_ref().and_then(|s| s.replicas),
            Some(Object::StatefulSet(s)) => s.spec.as_ref().and_then(|s| s.replicas),
            _ => None,
        };
        if self.parts.disruption && scaled(&self.change.old) != scaled(&self.change.new) {
            self.world
                .budgets
                .in_namespace(&self.change.key.namespace)
                .for_each(|(k, _)| queue.push(Task::Budget(k.clone())));
        }
    }

    fn stateful_sets_of_namespace(&self, queue: &mut Queue<Task>) {
        if self.parts.workloads {
            self.world
                .stateful_sets
                .in_namespace(&self.change.key.namespace)
                .for_each(|(k, _)| queue.push(Task::StatefulSet(k.clone())));
        }
    }
}

fn as_pod(object: &Object) -> Option<&Arc<Pod>> {
    match object {
        Object::Pod(pod) => Some(pod),
        _ => None,
    }
}
