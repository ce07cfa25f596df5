//! What deciders ask, and what they tell: marks, nominations and plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PodTemplate};
use karpenter_api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use karpenter_core::Resources;
use karpenter_core::labels::Vocabulary;
use karpenter_core::storage::{Volume, VolumeClaim};
use karpenter_core::world::DisruptionBudget;

use super::settle::refile;
use super::{Index, Nominated, Planned, State};
use crate::key::Key;
use crate::kind::Kind;
use crate::machine::{Machine, MachineId};
use crate::object::{Attachment, NodeClass, TrackedPod};
use crate::reduce;

impl Index {
    pub fn node_claim(&self, name: &str) -> Option<Arc<NodeClaim>> {
        self.state().node_claims.get(&Key::cluster(name)).cloned()
    }

    /// By name; all of them, also those of other providers.
    pub fn node_claims(&self) -> Vec<Arc<NodeClaim>> {
        self.state().node_claims.values().cloned().collect()
    }

    /// Whether a NodeClaim's class is of the kind our provider serves. Others get no attention at all.
    pub fn is_managed(&self, claim: &NodeClaim) -> bool {
        self.state().options.node_class.is_kind_of(&claim.spec.node_class_ref)
    }

    /// As [`Index::is_managed`], for pools.
    pub fn is_managed_pool(&self, pool: &NodePool) -> bool {
        self.state().options.node_class.is_kind_of(&pool.spec.template.spec.node_class_ref)
    }

    /// Which keys mean something to us.
    pub fn vocabulary(&self) -> Arc<Vocabulary> {
        self.state().options.vocabulary.clone()
    }

    pub fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.state().nodes.get(&Key::cluster(name)).cloned()
    }

    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.state().nodes.values().cloned().collect()
    }

    /// The Nodes of a machine: none, one, or several, which is somebody's mistake. An empty id matches nothing.
    pub fn nodes_of(&self, provider_id: &str) -> Vec<Arc<Node>> {
        let state = self.state();
        let members = state.machines.members(&MachineId::Provider(provider_id.into()));
        let names = members.into_iter().filter(|_| !provider_id.is_empty()).flat_map(|members| &members.nodes);
        names.filter_map(|name| state.nodes.get(&Key::cluster(name)).cloned()).collect()
    }

    /// The managed NodeClaims of a machine: none, one or several.
    pub fn claims_of(&self, provider_id: &str) -> Vec<Arc<NodeClaim>> {
        let state = self.state();
        let members = state.machines.members(&MachineId::Provider(provider_id.into()));
        let names = members.into_iter().filter(|_| !provider_id.is_empty()).flat_map(|members| &members.claims);
        names.filter_map(|name| state.node_claims.get(&Key::cluster(name)).cloned()).collect()
    }

    /// The managed NodeClaims of a Node.
    pub fn claims_of_node(&self, node: &Node) -> Vec<Arc<NodeClaim>> {
        reduce::provider_id(node).map(|id| self.claims_of(id)).unwrap_or_default()
    }

    pub fn node_pool(&self, name: &str) -> Option<Arc<NodePool>> {
        self.state().node_pools.get(&Key::cluster(name)).cloned()
    }

    pub fn node_pools(&self) -> Vec<Arc<NodePool>> {
        self.state().node_pools.values().cloned().collect()
    }

    pub fn node_class(&self, name: &str) -> Option<Arc<NodeClass>> {
        self.state().node_classes.get(&Key::cluster(name)).cloned()
    }

    /// All of our provider's.
    pub fn node_classes(&self) -> Vec<Arc<NodeClass>> {
        self.state().node_classes.values().cloned().collect()
    }

    /// None, unless they are in force.
    pub fn capacity_buffers(&self) -> Vec<Arc<CapacityBuffer>> {
        self.state().buffers.values().cloned().collect()
    }

    pub fn capacity_buffer(&self, key: &Key) -> Option<Arc<CapacityBuffer>> {
        self.state().buffers.get(key).cloned()
    }

    pub fn pod_template(&self, key: &Key) -> Option<Arc<PodTemplate>> {
        self.state().pod_templates.get(key).cloned()
    }

    /// None, unless they are in force.
    pub fn node_overlays(&self) -> Vec<Arc<NodeOverlay>> {
        self.state().node_overlays.values().cloned().collect()
    }

    pub fn pod(&self, key: &Key) -> Option<Arc<TrackedPod>> {
        self.state().pods.get(key).cloned()
    }

    pub fn pods(&self) -> Vec<Arc<TrackedPod>> {
        self.state().pods.values().cloned().collect()
    }

    /// Every pod with `spec.nodeName` of this Node, by name, terminal ones included.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<TrackedPod>> {
        let state = self.state();
        let keys = state.pods_on.get(node).into_iter().flatten();
        keys.filter_map(|key| state.pods.get(key).cloned()).collect()
    }

    pub fn attachments_on(&self, node: &str) -> Vec<Arc<Attachment>> {
        let state = self.state();
        let keys = state.attached_to.get(node).into_iter().flatten();
        keys.filter_map(|key| state.attachments.get(key).cloned()).collect()
    }

    /// The budgets that select the pod, by name.
    pub fn budgets_of(&self, pod: &karpenter_core::Pod) -> Vec<Arc<DisruptionBudget>> {
        let selects = |budget: &DisruptionBudget| {
            budget.namespace == pod.namespace
                && budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.shape.labels))
        };
        self.state().budgets.values().filter(|budget| selects(budget)).cloned().collect()
    }

    pub fn volume_claim(&self, key: &Key) -> Option<Arc<VolumeClaim>> {
        self.state().volume_claims.get(key).cloned()
    }

    pub fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.state().volumes.get(&Key::cluster(name)).cloned()
    }

    /// Every machine, by id.
    pub fn machines(&self) -> Vec<Machine> {
        let state = self.state();
        state.machines.ids().map(|id| state.machine(id)).collect()
    }

    pub fn machine_count(&self) -> usize {
        self.state().reduced.len()
    }

    pub fn machine(&self, id: &MachineId) -> Option<Machine> {
        let state = self.state();
        state.machines.members(id)?;
        Some(state.machine(id))
    }

    pub fn machine_of_claim(&self, name: &str) -> Option<Machine> {
        let state = self.state();
        let id = state.machines.of_claim(name)?;
        Some(state.machine(id))
    }

    pub fn machine_of_node(&self, name: &str) -> Option<Machine> {
        let state = self.state();
        let id = state.machines.of_node(name)?;
        Some(state.machine(id))
    }

    /// The machine behind a node of a snapshot.
    pub fn machine_shown_as(&self, node: &karpenter_core::Node) -> Option<MachineId> {
        let state = self.state();
        let by_claim = node.claim.as_deref().and_then(|name| state.machines.of_claim(name));
        by_claim.or_else(|| state.machines.of_node(&node.name)).cloned()
    }

    /// Whether a pod waits for a node that kube-scheduler could not find. A nomination means that it preempts others
    /// and will be placed, unless it is to a node that is gone, going, or of ours and still coming.
    pub fn is_provisionable(&self, pod: &karpenter_core::Pod) -> bool {
        let preempts = || {
            let Some(name) = &pod.nominated_node else { return false };
            let state = self.state();
            let machine = state.machines.of_node(name).and_then(|id| state.reduced.get(id));
            machine.is_some_and(|machine| !machine.deleting && machine.is_initialized())
        };
        pod.scheduled_reason.as_deref() == Some("Unschedulable")
            && pod.node.is_none()
            && !pod.is_daemon()
            && !pod.is_node_owned()
            && !preempts()
    }

    /// What the pool's machines have together, `nodes` counting them; those on their way out do not count.
    pub fn pool_usage(&self, pool: &str) -> Resources {
        self.state().usage.get(pool).cloned().unwrap_or_default()
    }

    /// Whether decisions may be made: every kind has been listed, every Node was once in the picture, and no claim of
    /// ours is still without its machine.
    pub fn is_synced(&self) -> bool {
        let mut state = self.state();
        state.is_complete() && state.unlaunched.is_empty()
    }

    /// Every kind that is needed has been listed once.
    pub fn is_listed(&self) -> bool {
        self.state().is_listed()
    }

    pub fn has_listed(&self, kind: Kind) -> bool {
        self.state().listed.contains(&kind)
    }

    /// Names of managed claims without a provider id.
    pub fn unlaunched(&self) -> Vec<Arc<str>> {
        self.state().unlaunched.iter().cloned().collect()
    }

    /// A number that moves whenever consolidation may find something it did not find before.
    pub fn unsettled(&self) -> u64 {
        self.state().unsettled
    }

    /// Says that something outside the watched objects changed: prices, availability.
    pub fn unsettle(&self) {
        self.state().unsettled += 1;
    }

    /// A disruption command has chosen these machines: no target any more, and their pods need another place.
    pub fn mark(&self, ids: &[MachineId]) {
        let mut state = self.state();
        for id in ids {
            if state.machines.members(id).is_some() {
                state.marked.insert(id.clone());
            }
        }
        state.refresh_all(ids.to_vec());
    }

    /// The command is off. What else says that the machine is going away stays in force.
    pub fn unmark(&self, ids: &[MachineId]) {
        let mut state = self.state();
        for id in ids {
            state.marked.remove(id);
        }
        state.refresh_all(ids.to_vec());
    }

    pub fn is_marked(&self, id: &MachineId) -> bool {
        self.state().marked.contains(id)
    }

    /// Pods are about to come to this machine. Extends, never shortens.
    pub fn nominate(&self, id: &MachineId, until: Timestamp) {
        self.with_nominated(id, |nominated| nominated.firm = nominated.firm.max(until));
    }

    /// As [`Self::nominate`], for as long as these pods, or their successors, have no place yet.
    pub fn nominate_for(&self, id: &MachineId, until: Timestamp, pods: &[(Key, Arc<str>)]) {
        self.with_nominated(id, |nominated| {
            nominated.until = nominated.until.max(until);
            nominated.pods.extend(pods.iter().cloned());
        });
    }

    fn with_nominated(&self, id: &MachineId, change: impl FnOnce(&mut Nominated)) {
        let mut state = self.state();
        if state.machines.members(id).is_none() {
            return;
        }
        let new = || Nominated { firm: Timestamp::MIN, until: Timestamp::MIN, pods: BTreeMap::new() };
        let mut nominated = state.nominated.remove(id).unwrap_or_else(new);
        // Whoever has arrived is not waited for again: a machine that lives for weeks sees many.
        nominated.pods.retain(|key, uid| state.is_moving(key, uid));
        change(&mut nominated);
        state.nominated.insert(id.clone(), nominated);
    }

    /// Whether pods are still about to come: not once all of them have a place or are gone, and nobody waits for one.
    pub fn is_nominated(&self, id: &MachineId, now: Timestamp) -> bool {
        let state = self.state();
        let Some(nominated) = state.nominated.get(id) else { return false };
        let on_their_way =
            || !state.unbound.is_empty() || nominated.pods.iter().any(|(key, uid)| state.is_moving(key, uid));
        now < nominated.firm || (now < nominated.until && on_their_way())
    }

    /// What is planned from now on belongs together.
    pub fn begin_plan(&self) {
        self.state().round += 1;
    }

    /// Forgets plans that had their time: see [`crate::Options::plan_window`].
    pub fn end_plans(&self, now: Timestamp) {
        self.state().end_plans(now);
    }

    /// These pods are planned to run on the claim's machine. They count there until its plan is over.
    pub fn plan(&self, claim: &str, pods: &[(Key, Arc<str>)]) {
        let mut state = self.state();
        let claim: Arc<str> = claim.into();
        let round = state.round;
        state.rounds.insert(claim.clone(), round);
        for (key, uid) in pods {
            let holds = state.pods.get(key).is_some_and(|pod| pod.pod.uid == *uid && pod.pod.node.is_none());
            if !holds {
                continue;
            }
            state.unplan(key);
            state.planned.insert(key.clone(), Planned { uid: uid.clone(), claim: claim.clone() });
            refile(&mut state.planned_on, key, None, Some(claim.clone()));
            state.dirty.pods.insert(key.clone());
        }
    }

    /// The pods planned for a claim that still wait for a node.
    pub fn planned_for(&self, claim: &str) -> Vec<Arc<TrackedPod>> {
        let state = self.state();
        let keys = state.planned_on.get(claim).into_iter().flatten();
        keys.filter_map(|key| state.pods.get(key).cloned()).collect()
    }

    /// The claim a pod is planned for.
    pub fn planned_claim(&self, pod: &Key) -> Option<Arc<str>> {
        self.state().planned.get(pod).map(|planned| planned.claim.clone())
    }
}

impl State {
    fn is_listed(&self) -> bool {
        self.needed().iter().all(|kind| self.listed.contains(kind))
    }

    /// Once every Node of the cluster was known, later ones are learned of like everything else.
    pub(super) fn is_complete(&mut self) -> bool {
        if !self.complete && self.is_listed() {
            self.complete = self.nodes.values().all(|node| reduce::is_tracked(node));
        }
        self.complete
    }

    pub(super) fn objects_of(&self, id: &MachineId) -> (Option<Arc<Node>>, Option<Arc<NodeClaim>>) {
        let Some(members) = self.machines.members(id) else { return (None, None) };
        let node = members.nodes.first().and_then(|name| self.nodes.get(&Key::cluster(name)));
        let claim = members.claims.first().and_then(|name| self.node_claims.get(&Key::cluster(name)));
        (node.cloned(), claim.cloned())
    }

    fn machine(&self, id: &MachineId) -> Machine {
        let (node, claim) = self.objects_of(id);
        Machine {
            id: id.clone(),
            node,
            claim,
            reduced: self.reduced.get(id).cloned(),
            marked: self.marked.contains(id),
        }
    }
}
