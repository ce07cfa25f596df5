//! ReplicaSets: as many pods as asked for.

use super::replicas::{
    self, available_in, claim_pods, created, is_active, is_available, is_ready, node_of, ready_since,
};
use crate::key::{Key, annotation, uid};
use crate::op::{Event, Op, Source, Step};
use crate::selector::Selector;
use crate::world::{Object, World};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many pods are made or removed in one go.
const BURST: usize = 500;
const SOURCE: Source = Source::Controller("replicaset-controller");

pub fn step(world: &World, key: &Key, now: Timestamp) -> Step {
    let Some(set) = world.replica_sets.get(key) else { return Step::done() };
    let Some(spec) = &set.spec else { return Step::done() };
    let object = Object::ReplicaSet(set.clone());
    let selector = Selector::new(Some(&spec.selector));
    let claimed = claim_pods(world, &object, &selector);
    let mut step = Step::ops(claimed.ops);
    let (active, rest): (Vec<_>, Vec<_>) = claimed.pods.into_iter().partition(|p| is_active(p));
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    if set.metadata.deletion_timestamp.is_none() {
        if active.len() < wanted {
            step.ops.extend(create(set, &object, (wanted - active.len()).min(BURST)));
        } else if active.len() > wanted {
            step.ops.extend(delete(world, set, &object, &active, (active.len() - wanted).min(BURST)));
        }
    }
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let terminating = rest.iter().filter(|p| replicas::is_terminating(p) && !replicas::is_finished(p)).count();
    let status = status(set, &active, terminating, now);
    if set.status.as_ref() != Some(&status) {
        let mut updated = (**set).clone();
        updated.status = Some(status);
        // The status comes last: it must not keep pods from being made.
        step.ops.push(Op::UpdateStatus(Object::from(updated)));
    }
    let soon = active.iter().filter(|p| min_ready > 0 && is_ready(p)).filter_map(|p| available_in(p, min_ready, now));
    let soon = soon.filter(|d| !d.is_zero()).min();
    step.again(soon)
}

fn create(set: &ReplicaSet, object: &Object, count: usize) -> Vec<Op> {
    let Some(template) = set.spec.as_ref().and_then(|s| s.template.as_ref()) else { return Vec::new() };
    let event = Event::normal(object, SOURCE, "SuccessfulCreate", "Created pod: {}".into());
    let pod = Object::from(replicas::pod_from(template, object));
    vec![Op::CreateAndTell(pod, event); count]
}

/// Removes first what is missed least.
fn delete(world: &World, set: &ReplicaSet, object: &Object, active: &[Arc<Pod>], count: usize) -> Vec<Op> {
    let crowding = crowding(world, set, active);
    let mut pods: Vec<&Arc<Pod>> = active.iter().collect();
    pods.sort_by_cached_key(|pod| {
        let crowd = crowding.get(node_of(pod)).copied().unwrap_or(0);
        let cost: i32 = annotation(&pod.metadata, "controller.kubernetes.io/pod-deletion-cost")
            .and_then(|c| c.parse().ok())
            .unwrap_or(0);
        let phase = match replicas::phase(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let restarts: i32 = pod
            .status
            .iter()
            .flat_map(|s| s.container_statuses.iter().flatten())
            .map(|s| s.restart_count)
            .max()
            .unwrap_or(0);
        (
            (!node_of(pod).is_empty(), phase, is_ready(pod), cost),
            (
                Reverse(crowd),
                Reverse(age(ready_since(pod))),
                Reverse(restarts),
                Reverse(age(Some(created(&pod.metadata)))),
            ),
            Reverse(uid(&pod.metadata).to_owned()),
        )
    });
    let mut ops = Vec::new();
    for pod in pods.into_iter().take(count) {
        ops.push(Op::delete(&Object::Pod(pod.clone())));
        let message = format!("Deleted pod: {}", crate::key::name(&pod.metadata));
        ops.push(Op::Event(Event::normal(object, SOURCE, "SuccessfulDelete", message)));
    }
    ops
}

/// Younger is worth less, but a little younger is not: times are compared by their order of magnitude upstream; whole
/// seconds, as the wire has them, come close enough.
fn age(time: Option<Timestamp>) -> i64 {
    time.map_or(i64::MAX, |t| t.as_second())
}

/// How many pods of the set and of its siblings share a node: where there are more, one is missed less.
fn crowding(world: &World, set: &ReplicaSet, active: &[Arc<Pod>]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let owner = crate::key::controller_of(&set.metadata).map(|o| o.uid.clone());
    let siblings: Vec<Arc<Pod>> = match owner {
        Some(owner) => {
            let sets = world.children(&owner, crate::world::Kind::ReplicaSet).filter_map(|k| world.replica_sets.get(k));
            sets.flat_map(|s| world.pods_of(uid(&s.metadata)).cloned().collect::<Vec<_>>())
                .filter(|p| is_active(p))
                .collect()
        }
        None => active.to_vec(),
    };
    for pod in siblings.iter().filter(|p| !node_of(p).is_empty()) {
        *counts.entry(node_of(pod).to_owned()).or_default() += 1;
    }
    counts
}

fn status(set: &ReplicaSet, active: &[Arc<Pod>], terminating: usize, now: Timestamp) -> ReplicaSetStatus {
    let spec = set.spec.as_ref();
    let min_ready = spec.and_then(|s| s.min_ready_seconds).unwrap_or(0);
    let labels = spec.and_then(|s| s.template.as_ref()?.metadata.as_ref()?.labels.as_ref());
    let template = labels.map(Selector::from_labels).unwrap_or(Selector::All(Vec::new()));
    let count =
        |test: &dyn Fn(&Pod) -> bool| i32::try_from(active.iter().filter(|p| test(p)).count()).unwrap_or(i32::MAX);
    let some = |n: i32| (n > 0).then_some(n);
    ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: some(count(&|p| {
            template.matches(p.metadata.labels.as_ref().unwrap_or(&BTreeMap::new()))
        })),
        ready_replicas: some(count(&is_ready)),
        available_replicas: some(count(&|p| is_available(p, min_ready, now))),
        terminating_replicas: Some(i32::try_from(terminating).unwrap_or(i32::MAX)),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|s| s.conditions.clone()),
    }
}
