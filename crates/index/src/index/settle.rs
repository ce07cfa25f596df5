//! What follows from a change: the maps that sit beside the stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{CONSOLIDATABLE, DRIFTED, INITIALIZED, INSTANCE_TERMINATING, READY, Status};
use karpenter_api::labels::DO_NOT_DISRUPT;
use karpenter_core::labels::NODEPOOL;
use karpenter_core::node::Stage;
use karpenter_core::resources::NODES;
use karpenter_core::{Quantity, Resources};

use super::{Planned, State, samples};
use crate::change::{Change, Pair, What};
use crate::key::Key;
use crate::kind::Kind;
use crate::machine::MachineId;
use crate::object::{Attachment, TrackedPod};
use crate::reduce::{self, Refused};
use crate::store::version;
use crate::unreadable::Unreadable;

/// Plans last for seconds: with a thousand pods asking, this is often enough to look whether one is over.
const ENDS_EVERY: SignedDuration = SignedDuration::from_millis(250);

impl State {
    /// Brings everything derived up to date.
    pub(super) fn settle(&mut self, change: &Change) {
        match &change.what {
            What::Pod(pair) => self.settle_pod(&change.key, pair),
            What::Node(pair) => {
                if is_protected(pair.old.as_deref()) != is_protected(pair.new.as_deref()) {
                    self.unsettled += 1;
                }
                let ids = self.machines.node(&change.key.name, pair.new.as_deref());
                self.refresh_all(ids);
                if pair.old.is_none() || pair.new.is_none() {
                    self.touch_pods_named(&change.key.name);
                }
            }
            What::NodeClaim(pair) => {
                let says = |claim: &Option<Arc<NodeClaim>>, kind: &str| {
                    claim.as_ref().is_some_and(|claim| claim.condition_status(kind) == Status::True)
                };
                // A node whose instance terminates leaves its place in the budget to the next one.
                let news = [CONSOLIDATABLE, DRIFTED, INSTANCE_TERMINATING];
                if news.iter().any(|kind| says(&pair.new, kind) && !says(&pair.old, kind)) {
                    self.unsettled += 1;
                }
                self.settle_claim(&change.key.name, pair.new.as_deref());
            }
            What::NodePool(pair) => {
                // From a pool that has become ready there is something to buy again.
                let offers = |pool: &Option<Arc<karpenter_api::NodePool>>| {
                    pool.as_ref().map(|pool| (pool.metadata.generation, pool.condition_status(READY)))
                };
                if offers(&pair.old) != offers(&pair.new) {
                    self.unsettled += 1;
                }
            }
            What::NodeClass(_) | What::NodeOverlay(_) => {}
            What::Other => self.settle_other(change.kind, &change.key),
        }
    }

    fn settle_other(&mut self, kind: Kind, key: &Key) {
        match kind {
            Kind::Namespace => self.dirty.namespaces = true,
            Kind::StorageClass => self.dirty.classes = true,
            Kind::Service => self.dirty.services = true,
            Kind::ReplicationController | Kind::ReplicaSet | Kind::StatefulSet => self.dirty.workloads = true,
            Kind::DaemonSet => self.dirty.daemon_sets = true,
            Kind::PodDisruptionBudget => {
                self.dirty.budgets = true;
                self.unsettled += 1;
            }
            Kind::PersistentVolume => {
                self.dirty.volumes.insert(key.clone());
            }
            Kind::PersistentVolumeClaim => {
                self.dirty.claims.insert(key.clone());
            }
            Kind::CSINode => {
                let ids = self.machines.of_node(&key.name).cloned().into_iter().collect();
                self.refresh_all(ids);
            }
            Kind::VolumeAttachment
            | Kind::PodTemplate
            | Kind::CapacityBuffer
            | Kind::NodeClass
            | Kind::NodeOverlay
            | Kind::NodePool
            | Kind::NodeClaim
            | Kind::Node
            | Kind::Pod => {}
        }
    }

    fn settle_pod(&mut self, key: &Key, pair: &Pair<TrackedPod>) {
        let node = |pod: &Option<Arc<TrackedPod>>| pod.as_ref().and_then(|pod| pod.pod.node.clone());
        let nominated = |pod: &Option<Arc<TrackedPod>>| {
            pod.as_ref().filter(|pod| pod.pod.node.is_none()).and_then(|pod| pod.pod.nominated_node.clone())
        };
        refile(&mut self.pods_on, key, node(&pair.old), node(&pair.new));
        refile(&mut self.nominated_to, key, nominated(&pair.old), nominated(&pair.new));
        let pins = |pod: &Option<Arc<TrackedPod>>| {
            pod.as_ref().filter(|pod| pod.pins_its_node()).and_then(|pod| pod.pod.node.clone())
        };
        refile(&mut self.pinned_on, key, pins(&pair.old), pins(&pair.new));
        let waits = |pod: &Arc<TrackedPod>| pod.pod.node.is_none() && !pod.pod.is_terminal() && !pod.pod.terminating;
        if pair.new.as_ref().is_some_and(waits) {
            self.unbound.insert(key.clone());
        } else {
            self.unbound.remove(key);
        }
        let terminal = |pod: &Option<Arc<TrackedPod>>| pod.as_ref().is_some_and(|pod| pod.pod.is_terminal());
        let protection =
            |pod: &Option<Arc<TrackedPod>>| pod.as_ref().and_then(|pod| pod.pod.shape.do_not_disrupt.clone());
        if node(&pair.old) != node(&pair.new)
            || pair.new.is_none()
            || terminal(&pair.old) != terminal(&pair.new)
            || protection(&pair.old) != protection(&pair.new)
            || pins(&pair.old) != pins(&pair.new)
        {
            self.unsettled += 1;
        }
        let keeps_plan = |uid: &str| {
            pair.new
                .as_ref()
                .is_some_and(|pod| *pod.pod.uid == *uid && pod.pod.node.is_none() && !pod.pod.is_terminal())
        };
        let plan = self.planned.get(key).map(|planned| planned.claim.clone());
        if self.planned.get(key).is_some_and(|planned| !keeps_plan(&planned.uid)) {
            self.unplan(key);
        }
        if let Some(bound) = node(&pair.new).filter(|_| node(&pair.old).is_none()) {
            let of_plan = plan.as_deref().and_then(|claim| self.machines.of_claim(claim));
            if (of_plan.is_none() || of_plan != self.machines.of_node(&bound)) && !self.swap(key, &bound, plan) {
                self.crowd_out(&bound);
            }
        }
        match &pair.new {
            Some(pod) => self.dirty.daemon_sets |= self.samples.see(&pod.pod),
            None => self.forget_orphaned_sample(pair.old.as_deref()),
        }
        self.dirty.pods.insert(key.clone());
        self.sweep_interner();
    }

    /// A pod may outlive its DaemonSet; then what is known of the set goes with the pod.
    fn forget_orphaned_sample(&mut self, pod: Option<&TrackedPod>) {
        for uid in pod.into_iter().flat_map(|tracked| samples::sets_of(&tracked.pod)) {
            if !self.daemon_sets.values().any(|set| set.uid == *uid) {
                self.samples.forget(uid);
            }
        }
    }

    fn settle_claim(&mut self, name: &Arc<str>, claim: Option<&NodeClaim>) {
        let kind = self.options.node_class;
        let ours = claim.filter(|claim| kind.is_kind_of(&claim.spec.node_class_ref));
        match ours.map(reduce::claim_provider_id) {
            Some(None) => self.unlaunched.insert(name.clone()),
            Some(Some(_)) | None => self.unlaunched.remove(name),
        };
        let ids = self.machines.claim(name, ours);
        self.refresh_all(ids);
        if ours.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()) {
            self.unplan_all(name);
        }
    }

    pub(crate) fn refresh_all(&mut self, ids: Vec<MachineId>) {
        for id in ids {
            self.refresh(&id);
        }
    }

    /// Makes a machine's reduced form anew from its objects, and everything that hangs on it.
    fn refresh(&mut self, id: &MachineId) {
        let (node, claim) = self.objects_of(id);
        let csi = node.as_ref().and_then(|node| self.csi_nodes.get(&Key::of(&node.metadata))).cloned();
        let read = reduce::read_node(node.as_deref(), claim.as_deref(), csi.as_deref());
        self.note_machine(node.as_deref(), claim.as_deref(), read.reading.refused());
        let reduced = read.value;
        if node.is_none() && claim.is_none() {
            self.marked.remove(id);
            self.nominated.remove(id);
        }
        let marked = self.marked.contains(id);
        let new = reduced.map(|mut node| {
            node.deleting |= marked;
            Arc::new(node)
        });
        let old = match &new {
            Some(node) => self.reduced.insert(id.clone(), node.clone()),
            None => self.reduced.remove(id),
        };
        self.count(old.as_deref(), new.as_deref());
        let face = |node: &Option<Arc<karpenter_core::Node>>| {
            node.as_ref().map(|node| (node.name.clone(), node.stage, node.deleting))
        };
        if face(&old) != face(&new) {
            self.unsettled += 1;
            self.touch_pods_of(id);
        }
        self.dirty.machines.insert(id.clone());
    }

    /// What of a machine's objects could not be read, or that all of it could.
    fn note_machine(&mut self, node: Option<&Node>, claim: Option<&NodeClaim>, refused: Option<&Refused>) {
        let (kind, metadata) = match (node, claim) {
            (Some(node), _) => (Kind::Node, &node.metadata),
            (None, Some(claim)) => (Kind::NodeClaim, &claim.metadata),
            (None, None) => return,
        };
        let key = Key::of(metadata);
        if self.unreadable.get(kind, &key).is_some_and(|one| !one.partly) {
            // Worse is known of it, and of a later version.
            return;
        }
        match refused {
            None => self.unreadable.mended(kind, &key),
            Some(refused) => {
                let (uid, at) = (metadata.uid.as_deref().unwrap_or_default(), version(metadata));
                self.unreadable.note(Unreadable::refused(kind, &key, uid, at, refused, true));
            }
        }
    }

    /// Pods speak of Nodes by name, whether they are there or not.
    fn touch_pods_named(&mut self, node: &str) {
        let keys = [self.pods_on.get(node), self.nominated_to.get(node)];
        self.dirty.pods.extend(keys.into_iter().flatten().flatten().cloned());
    }

    /// Pods are shown on machines by name and stage: when those change, so does what is shown of the pods.
    fn touch_pods_of(&mut self, id: &MachineId) {
        let members = self.machines.members(id);
        let nodes: Vec<Arc<str>> = members.iter().flat_map(|members| members.nodes.iter().cloned()).collect();
        let claims: Vec<Arc<str>> = members.iter().flat_map(|members| members.claims.iter().cloned()).collect();
        let on = nodes.iter().flat_map(|name| [self.pods_on.get(name), self.nominated_to.get(name)]);
        let planned = claims.iter().map(|name| self.planned_on.get(name));
        let keys: Vec<Key> = on.chain(planned).flatten().flatten().cloned().collect();
        self.dirty.pods.extend(keys);
    }

    /// A pool's usage is the sum of its machines that are not going away.
    fn count(&mut self, old: Option<&karpenter_core::Node>, new: Option<&karpenter_core::Node>) {
        let counted = |node: Option<&karpenter_core::Node>| -> Option<(Arc<str>, Resources)> {
            let node = node.filter(|node| !node.deleting && node.is_managed())?;
            let mut capacity = node.capacity.clone();
            capacity.set(NODES, Quantity::from_units(1));
            Some((node.labels.get(NODEPOOL)?.as_str().into(), capacity))
        };
        let (old, new) = (counted(old), counted(new));
        if old == new {
            return;
        }
        if let Some((pool, capacity)) = old
            && let Some(usage) = self.usage.get_mut(&pool)
        {
            for (name, quantity) in capacity.iter() {
                let left = usage.get(name) - quantity;
                usage.set(name, left);
            }
            usage.0.retain(|_, quantity| !quantity.is_zero());
            if usage.is_empty() {
                self.usage.remove(&pool);
            }
        }
        if let Some((pool, capacity)) = new {
            self.usage.entry(pool).or_default().add(&capacity);
        }
    }

    pub(crate) fn unplan(&mut self, key: &Key) {
        if let Some(planned) = self.planned.remove(key) {
            refile(&mut self.planned_on, key, Some(planned.claim), None);
            self.dirty.pods.insert(key.clone());
        }
    }

    pub(super) fn file_attachment(&mut self, key: &Key, old: Option<&Attachment>, new: Option<&Attachment>) {
        let node = |attachment: Option<&Attachment>| attachment.map(|attachment| attachment.node.clone());
        refile(&mut self.attached_to, key, node(old), node(new));
    }

    /// Whether a pod still has to find a place, or to leave the one it has.
    pub(crate) fn is_moving(&self, key: &Key, uid: &str) -> bool {
        let Some(tracked) = self.pods.get(key).filter(|pod| *pod.pod.uid == *uid && !pod.pod.is_terminal()) else {
            return false;
        };
        let machine = tracked.pod.node.as_deref().and_then(|name| self.machines.of_node(name));
        let stays =
            |id: &MachineId| !self.marked.contains(id) && self.reduced.get(id).is_some_and(|node| !node.deleting);
        !machine.is_some_and(stays)
    }

    /// Whether pods nominated to a machine count as being there: it is ours, coming, and not going away.
    pub(crate) fn is_coming(node: &karpenter_core::Node) -> bool {
        Self::is_ours_to_stay(node) && node.stage < Stage::Initialized
    }

    /// Whether pods planned for a machine count as being there, complete or not.
    pub(crate) fn is_ours_to_stay(node: &karpenter_core::Node) -> bool {
        node.is_managed() && !node.deleting
    }

    /// Plans whose machines have all been complete for a while are over: what is not bound by now waits for another
    /// place. A machine that is complete waits for the others of its plan, since under a spread its pods do.
    pub(crate) fn end_plans(&mut self, now: Timestamp) {
        if self.rounds.is_empty() || now < self.next_end {
            return;
        }
        self.next_end = now + ENDS_EVERY;
        let window = SignedDuration::try_from(self.options.plan_window).unwrap_or(SignedDuration::MAX);
        // By round: since when all are complete; nothing while one is coming.
        let mut complete: BTreeMap<u64, Option<Timestamp>> = BTreeMap::new();
        for (name, round) in &self.rounds {
            let Some(claim) = self.node_claims.get(&Key::cluster(name)) else { continue };
            let done = claim.condition(INITIALIZED).filter(|condition| condition.status == "True");
            let done = done.map(|condition| condition.last_transition_time.0);
            let so_far = complete.entry(*round).or_insert(done);
            *so_far = so_far.zip(done).map(|(a, b)| a.max(b));
        }
        let is_over = |since: &Option<Timestamp>| since.is_some_and(|since| now.duration_since(since) >= window);
        let over: BTreeSet<u64> =
            complete.iter().filter(|(_, since)| is_over(since)).map(|(round, _)| *round).collect();
        let ended: Vec<Arc<str>> =
            self.rounds.iter().filter(|(_, round)| over.contains(round)).map(|(name, _)| name.clone()).collect();
        for claim in ended {
            self.unplan_all(&claim);
        }
    }

    fn unplan_all(&mut self, claim: &str) {
        self.rounds.remove(claim);
        for key in self.planned_on.get(claim).cloned().unwrap_or_default() {
            self.unplan(&key);
        }
    }

    /// A pod went where one just like it was planned: that one takes its place in the plan, and all others keep theirs.
    fn swap(&mut self, bound: &Key, node: &str, plan: Option<Arc<str>>) -> bool {
        let (Some(plan), Some(pod)) = (plan, self.pods.get(bound)) else { return false };
        let Some(members) = self.machines.of_node(node).and_then(|id| self.machines.members(id)) else { return false };
        let alike = |key: &&Key| {
            let other = self.pods.get(key);
            other.is_some_and(|other| other.pod.shape == pod.pod.shape && other.pod.claims == pod.pod.claims)
        };
        let planned = members.claims.iter().filter_map(|claim| self.planned_on.get(claim)).flatten();
        let Some(other) = planned.into_iter().find(alike).cloned() else { return false };
        let Some(uid) = self.pods.get(&other).map(|pod| pod.pod.uid.clone()) else { return false };
        self.unplan(&other);
        self.planned.insert(other.clone(), Planned { uid, claim: plan.clone() });
        refile(&mut self.planned_on, &other, None, Some(plan));
        true
    }

    /// Somebody else took room on a machine that was planned for others: those that no longer fit wait for another place.
    fn crowd_out(&mut self, node: &str) {
        let Some(id) = self.machines.of_node(node).cloned() else { return };
        let Some(machine) = self.reduced.get(&id).cloned() else { return };
        let claims: Vec<Arc<str>> =
            self.machines.members(&id).map_or_else(Vec::new, |of| of.claims.iter().cloned().collect());
        let planned: Vec<Key> =
            claims.iter().filter_map(|claim| self.planned_on.get(claim)).flatten().cloned().collect();
        if planned.is_empty() {
            return;
        }
        let mut used = Resources::default();
        let bound = self.pods_on.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key));
        for pod in bound.filter(|pod| !pod.pod.is_terminal()) {
            used.add(&pod.pod.shape.requests);
        }
        for key in planned {
            let Some(pod) = self.pods.get(&key) else { continue };
            let mut with = used.clone();
            with.add(&pod.pod.shape.requests);
            if with.iter().all(|(name, amount)| amount <= machine.allocatable.get(name)) {
                used = with;
            } else {
                self.unplan(&key);
            }
        }
    }
}

fn is_protected(node: Option<&k8s_openapi::api::core::v1::Node>) -> bool {
    let annotations = node.and_then(|node| node.metadata.annotations.as_ref());
    annotations.and_then(|all| all.get(DO_NOT_DISRUPT)).is_some_and(|value| value == "true")
}

/// Moves a key from one drawer to another.
pub(super) fn refile(
    drawers: &mut BTreeMap<Arc<str>, BTreeSet<Key>>,
    key: &Key,
    from: Option<Arc<str>>,
    to: Option<Arc<str>>,
) {
    if from == to {
        return;
    }
    if let Some(from) = from
        && let Some(drawer) = drawers.get_mut(&from)
    {
        drawer.remove(key);
        if drawer.is_empty() {
            drawers.remove(&from);
        }
    }
    if let Some(to) = to {
        drawers.entry(to).or_default().insert(key.clone());
    }
}
