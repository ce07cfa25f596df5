//! Capacity buffers: room for pods that do not exist yet.
//!
//! ```text
//!   CapacityBuffer ──resolve──▶ what one chunk looks like, how many ──▶ virtual pods ──▶ every simulation
//!                                                                             │
//!                                        Provisioning: does it fit? ◀── plan ─┘──▶ the nodes they are at home on
//! ```
//!
//! A virtual pod never exists anywhere but in a world: it waits like any other when nodes are planned, and once it has
//! found room it counts as running there when nodes are taken away. So a node that only holds a buffer is not empty, and
//! one that goes must leave its buffer a place elsewhere.

mod controller;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use karpenter_api::conditions::find;
use karpenter_api::{CapacityBuffer, Condition, Time};
use karpenter_core::plan::{NewNode, Plan};
use karpenter_core::pod::{Owner, Phase};
use karpenter_core::{Node, Pod, World};
use karpenter_index::Key;

pub use controller::CapacityBuffers;
pub(crate) use controller::report;
pub use resolve::{size, virtual_pod};

pub const READY: &str = "ReadyForProvisioning";
pub const PROVISIONING: &str = "Provisioning";

const KIND: &str = "CapacityBuffer";

/// The virtual pods of all buffers, and where they were last at home.
#[derive(Debug, Default)]
pub struct Buffers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pods: BTreeMap<Key, Arc<[Pod]>>,
    /// By uid of the pod: the claim of a node or, for one without, its name.
    homes: BTreeMap<Arc<str>, Arc<str>>,
}

impl State {
    /// Pods that are no more have no home.
    fn forget(&mut self) {
        let known: BTreeSet<&str> = self.pods.values().flat_map(|pods| pods.iter()).map(|pod| &*pod.uid).collect();
        self.homes.retain(|uid, _| known.contains(&**uid));
    }
}

/// The buffer a pod belongs to. Real pods belong to none: nobody else owns pods this way.
pub fn buffer_of(pod: &Pod) -> Option<Key> {
    let owner = pod.owners.iter().find(|owner| &*owner.kind == KIND && !owner.controller)?;
    Some(Key { namespace: pod.namespace.clone(), name: owner.name.clone() })
}

/// What marks a virtual pod.
pub(crate) fn owner(buffer: &CapacityBuffer) -> Owner {
    let text = |text: &Option<String>| -> Arc<str> { text.as_deref().unwrap_or_default().into() };
    Owner {
        api_version: "autoscaling.x-k8s.io/v1beta1".into(),
        kind: KIND.into(),
        name: text(&buffer.metadata.name),
        uid: text(&buffer.metadata.uid),
        controller: false,
    }
}

impl Buffers {
    pub fn put(&self, buffer: Key, pods: Vec<Pod>) {
        let mut state = self.lock();
        state.pods.insert(buffer, pods.into());
        state.forget();
    }

    pub fn remove(&self, buffer: &Key) {
        let mut state = self.lock();
        state.pods.remove(buffer);
        state.forget();
    }

    /// The world with all virtual pods waiting.
    pub fn waiting(&self, world: Arc<World>) -> Arc<World> {
        self.join(world, |pod| pod)
    }

    /// The world with virtual pods running where they are at home, and the others waiting.
    pub fn at_home(&self, world: Arc<World>) -> Arc<World> {
        let homes = self.lock().homes.clone();
        let nodes: BTreeMap<Arc<str>, Arc<str>> = world
            .nodes
            .iter()
            .filter(|node| node.has_node && !node.deleting)
            .map(|node| (node.claim.clone().unwrap_or_else(|| node.name.clone()), node.name.clone()))
            .collect();
        self.join(world, |pod| match homes.get(&pod.uid).and_then(|home| nodes.get(home)) {
            Some(node) => Pod { phase: Phase::Running, node: Some(node.clone()), scheduled_reason: None, ..pod },
            None => pod,
        })
    }

    /// Whether a virtual pod is at home on the node.
    pub fn holds(&self, node: &Node) -> bool {
        let home = node.claim.as_ref().unwrap_or(&node.name);
        self.lock().homes.values().any(|held| held == home)
    }

    fn join(&self, world: Arc<World>, as_seen: impl Fn(Pod) -> Pod) -> Arc<World> {
        let pods = self.lock().pods.clone();
        if pods.values().all(|pods| pods.is_empty()) {
            return world;
        }
        let mut joined = World::clone(&world);
        joined.pods.extend(pods.values().flat_map(|pods| pods.iter().cloned()).map(as_seen));
        Arc::new(joined)
    }

    /// Where a pass found room for virtual pods, as a whole: what it does not tell of has no home any more. Answers
    /// whether anything changed.
    pub fn settle(&self, world: &World, plan: &Plan) -> bool {
        let mut homes = BTreeMap::new();
        for (node, pods) in &plan.existing {
            let node = &world.nodes[*node];
            let home = node.claim.clone().unwrap_or_else(|| node.name.clone());
            let ours = pods.iter().map(|pod| &world.pods[*pod]).filter(|pod| buffer_of(pod).is_some());
            homes.extend(ours.map(|pod| (pod.uid.clone(), home.clone())));
        }
        let mut state = self.lock();
        let changed = state.homes != homes;
        state.homes = homes;
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a buffer's pods in a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub existing: usize,
    pub new: usize,
    pub failed: usize,
}

/// By buffer. One that had no pods in the pass is not in it.
pub fn outcomes(world: &World, plan: &Plan) -> BTreeMap<Key, Outcome> {
    let mut all: BTreeMap<Key, Outcome> = BTreeMap::new();
    let mut count = |pods: &mut dyn Iterator<Item = usize>, add: fn(&mut Outcome)| {
        for buffer in pods.filter_map(|pod| buffer_of(&world.pods[pod])) {
            add(all.entry(buffer).or_default());
        }
    };
    count(&mut plan.existing.values().flatten().copied(), |outcome| outcome.existing += 1);
    count(&mut plan.new_nodes.iter().flat_map(|node| &node.pods).copied(), |outcome| outcome.new += 1);
    count(&mut plan.left_over.iter().chain(&plan.ignored).map(|left| left.pod), |outcome| outcome.failed += 1);
    all
}

/// The plan as far as pods are concerned that exist. New nodes stay as large as they were planned.
pub fn without_virtual(world: &World, mut plan: Plan) -> Plan {
    if world.pods.last().is_none_or(|pod| buffer_of(pod).is_none()) {
        // They are always the last.
        return plan;
    }
    let is_real = |pod: &usize| buffer_of(&world.pods[*pod]).is_none();
    plan.existing.values_mut().for_each(|pods| pods.retain(is_real));
    plan.existing.retain(|_, pods| !pods.is_empty());
    plan.new_nodes.iter_mut().for_each(|node| node.pods.retain(is_real));
    plan.left_over.retain(|left| is_real(&left.pod));
    plan.ignored.retain(|left| is_real(&left.pod));
    plan
}

/// A new node with the pods that exist.
pub(crate) fn real_pods(world: &World, node: &NewNode) -> Vec<usize> {
    node.pods.iter().copied().filter(|pod| buffer_of(&world.pods[*pod]).is_none()).collect()
}

/// Sets a condition; its time moves with its status alone. Answers whether anything changed.
pub(crate) fn set_condition(
    buffer: &mut CapacityBuffer,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let generation = buffer.metadata.generation;
    let all = buffer.status.get_or_insert_default().conditions.get_or_insert_default();
    let status = if status { "True" } else { "False" };
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let before = all.iter().position(|condition| condition.type_ == kind);
    let since = before.map(|at| &all[at]).filter(|before| before.status == status);
    let condition = Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: since.map_or(now, |before| before.last_transition_time.clone()),
    };
    match before {
        Some(at) if all[at] == condition => false,
        Some(at) => {
            all[at] = condition;
            true
        }
        None => {
            all.push(condition);
            true
        }
    }
}

pub(crate) fn is_ready(buffer: &CapacityBuffer) -> bool {
    let conditions = buffer.status.as_ref().and_then(|status| status.conditions.as_ref());
    find(conditions, READY).is_some_and(|condition| condition.status == "True")
}

/// Whether the buffer is there: status, reason and message. Nothing, if the pass does not tell.
pub fn provisioning(buffer: &CapacityBuffer, outcome: Option<Outcome>) -> Option<(bool, &'static str, String)> {
    if !is_ready(buffer) {
        return Some((false, "NotReadyForProvisioning", "Buffer is not ReadyForProvisioning".to_owned()));
    }
    let replicas = buffer.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
    let wanted = usize::try_from(replicas).unwrap_or(0);
    if wanted == 0 {
        return Some((false, "BufferEmpty", "Buffer has zero desired replicas".to_owned()));
    }
    let Outcome { existing, new, failed } = outcome?;
    if new > 0 || failed > 0 {
        let message = format!("{new}/{wanted} virtual pods required new capacity, {failed} failed");
        return Some((false, "RequiresNewCapacity", message));
    }
    (existing == wanted)
        .then(|| (true, "FitsExistingCapacity", format!("All {wanted} virtual pods fit on existing capacity")))
}

#[cfg(test)]
mod tests;
