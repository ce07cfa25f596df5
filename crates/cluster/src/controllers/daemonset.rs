//! DaemonSets: one pod on every node that will have it.

use super::replicas::{self, is_available, is_finished, is_ready, is_terminating, node_of, scaled};
use super::revisions::{self, hash_of};
use crate::key::Key;
use crate::op::{Event, Op, Source, Step};
use crate::scheduler::PodInfo;
use crate::selector::Selector;
use crate::world::{Object, World};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SOURCE: Source = Source::Controller("daemonset-controller");
const REVISION: &str = "controller-revision-hash";

pub fn step(world: &World, key: &Key, now: Timestamp) -> Step {
    let Some(set) = world.daemon_sets.get(key) else { return Step::done() };
    let Some(spec) = &set.spec else { return Step::done() };
    if set.metadata.deletion_timestamp.is_some() {
        return Step::done();
    }
    let object = Object::DaemonSet(set.clone());
    let data = revisions::data(&spec.template);
    let history = revisions::history(world, &object, &data);
    let collisions = set.status.as_ref().and_then(|s| s.collision_count).unwrap_or(0);
    let labels = json!(spec.template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default());
    if let Some(record) = revisions::record(&object, &history, &data, &labels, collisions) {
        return Step::ops(vec![record]);
    }
    let Some(current) = &history.current else { return Step::done() };
    let claimed = replicas::claim_pods(world, &object, &Selector::new(Some(&spec.selector)));
    let mut view = View {
        world,
        set,
        spec,
        hash: hash_of(current),
        template: PodInfo::new(Arc::new(with_daemon_tolerations(replicas::pod_from(&spec.template, &object)))),
        object,
        pods: BTreeMap::new(),
        now,
        ops: claimed.ops,
    };
    for pod in claimed.pods {
        view.pods.entry(target(&pod)).or_default().push(pod);
    }
    view.manage();
    view.roll();
    let status = view.status(collisions);
    if set.status.as_ref() != Some(&status) {
        let mut updated = (**set).clone();
        updated.status = Some(status);
        view.ops.push(Op::UpdateStatus(Object::from(updated)));
    }
    let mut in_use: Vec<String> = view.pods.values().flatten().map(|p| revision_of(p)).collect();
    in_use.push(view.hash.clone());
    view.ops.extend(revisions::prune(&history, &in_use, spec.revision_history_limit.unwrap_or(10)));
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let soon = view
        .pods
        .values()
        .flatten()
        .filter(|_| min_ready > 0)
        .filter_map(|p| replicas::available_in(p, min_ready, now))
        .filter(|d| !d.is_zero())
        .min();
    Step::ops(view.ops).again(soon)
}

struct View<'a> {
    world: &'a World,
    set: &'a Arc<DaemonSet>,
    spec: &'a DaemonSetSpec,
    object: Object,
    hash: String,
    /// A pod of the set, as far as taints and selectors are concerned.
    template: PodInfo,
    pods: BTreeMap<String, Vec<Arc<Pod>>>,
    now: Timestamp,
    ops: Vec<Op>,
}

/// The node a pod is on or meant for.
fn target(pod: &Pod) -> String {
    if !node_of(pod).is_empty() {
        return node_of(pod).to_owned();
    }
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref()?.node_affinity.as_ref());
    let terms = affinity
        .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
        .map(|r| &r.node_selector_terms);
    let fields = terms.into_iter().flatten().flat_map(|t| t.match_fields.iter().flatten());
    let mut names = fields.filter(|f| f.key == "metadata.name").flat_map(|f| f.values.iter().flatten());
    names.next().cloned().unwrap_or_default()
}

fn revision_of(pod: &Pod) -> String {
    pod.metadata.labels.as_ref().and_then(|l| l.get(REVISION)).cloned().unwrap_or_default()
}

/// Daemons run where ordinary pods are kept away for the node's own troubles.
fn with_daemon_tolerations(mut pod: Pod) -> Pod {
    let host_network = pod.spec.as_ref().is_some_and(|s| s.host_network == Some(true));
    let tolerations = pod.spec.get_or_insert_default().tolerations.get_or_insert_default();
    let mut wanted = vec![
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if host_network {
        wanted.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    for (key, effect) in wanted {
        let have = tolerations.iter().any(|t| {
            t.key.as_deref() == Some(key)
                && t.effect.as_deref() == Some(effect)
                && t.operator.as_deref() == Some("Exists")
        });
        if !have {
            let toleration = json!({"key": key, "effect": effect, "operator": "Exists"});
            tolerations.push(serde_json::from_value(toleration).expect("a toleration made here is one"));
        }
    }
    pod
}

impl View<'_> {
    fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.world.nodes.values()
    }

    /// Whether the node should have a pod, and whether one that is there may stay.
    fn wanted_on(&self, node: &Node) -> (bool, bool) {
        let empty = BTreeMap::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
        if !self.template.demand.matches(crate::key::name(&node.metadata), labels) {
            return (false, false);
        }
        let no_taints = Vec::new();
        let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref()).unwrap_or(&no_taints);
        let untolerated =
            |effect: &str| taints.iter().any(|t: &Taint| t.effect == effect && !self.template.tolerates(t));
        (!untolerated("NoExecute") && !untolerated("NoSchedule"), !untolerated("NoExecute"))
    }

    fn manage(&mut self) {
        let mut create = Vec::new();
        let mut delete = Vec::new();
        let mut known = BTreeSet::new();
        for node in self.nodes() {
            let name = crate::key::name(&node.metadata);
            known.insert(name.to_owned());
            let (should_run, may_stay) = self.wanted_on(node);
            let here = self.pods.get(name).map(Vec::as_slice).unwrap_or_default();
            if should_run && here.is_empty() {
                create.push(name.to_owned());
                continue;
            }
            if !may_stay {
                delete.extend(here.iter().filter(|p| !is_terminating(p)).cloned());
                continue;
            }
            let mut living: Vec<&Arc<Pod>> = here.iter().filter(|p| !is_terminating(p)).collect();
            // A failed pod makes way for its successor.
            delete.extend(living.iter().filter(|p| is_finished(p)).map(|p| (*p).clone()));
            living.retain(|p| !is_finished(p));
            let surging = self.surge() > 0;
            if living.len() > 1 && !surging {
                living.sort_by_key(|p| (replicas::created(&p.metadata), p.metadata.name.clone()));
                delete.extend(living[1..].iter().map(|p| (*p).clone()));
            }
        }
        // Pods of nodes that are gone are the garbage collector's, unless they never got there.
        for (_, pods) in self.pods.iter().filter(|(n, _)| !known.contains(*n)) {
            delete.extend(pods.iter().filter(|p| node_of(p).is_empty() && !is_terminating(p)).cloned());
        }
        for node in create {
            self.create(&node);
        }
        for pod in delete {
            self.delete(&pod);
        }
    }

    fn surge(&self) -> i32 {
        let rolling = self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        rolling.and_then(|r| r.max_surge.as_ref()).map_or(0, |m| scaled(m, self.desired(), true))
    }

    fn desired(&self) -> i32 {
        i32::try_from(self.nodes().filter(|n| self.wanted_on(n).0).count()).unwrap_or(i32::MAX)
    }

    /// Replaces pods of older revisions as far as the strategy allows.
    fn roll(&mut self) {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
            return;
        }
        let desired = self.desired();
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        let surge = self.surge();
        let default = IntOrString::Int(1);
        let configured = scaled(rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&default), desired, true);
        let most = if surge == 0 { configured.max(1) } else { configured };
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        let available = |p: &Pod| is_available(p, min_ready, self.now) && !is_terminating(p);
        let mut unavailable = 0;
        let (mut replace, mut second) = (Vec::new(), Vec::new());
        let mut surging = 0;
        for node in self.nodes().filter(|n| self.wanted_on(n).0) {
            let name = crate::key::name(&node.metadata);
            let here: Vec<&Arc<Pod>> =
                self.pods.get(name).into_iter().flatten().filter(|p| !is_terminating(p) && !is_finished(p)).collect();
            let old = here.iter().find(|p| revision_of(p) != self.hash);
            let new = here.iter().find(|p| revision_of(p) == self.hash);
            if !here.iter().any(|p| available(p)) {
                unavailable += 1;
            }
            match (old, new) {
                (Some(old), None) if surge > 0 => second.push((name.to_owned(), available(old), (*old).clone())),
                (Some(old), None) => replace.push((!available(old), (*old).clone())),
                (Some(old), Some(new)) => {
                    surging += 1;
                    if available(new) {
                        replace.push((true, (*old).clone()));
                    }
                }
                (None, _) => {}
            }
        }
        for (node, up, old) in second {
            if !up {
                self.delete(&old);
            } else if surging < surge {
                surging += 1;
                self.create(&node);
            }
        }
        replace.sort_by_key(|(free, _)| !free);
        for (free, pod) in replace {
            if free || unavailable < most {
                unavailable += i32::from(!free);
                self.delete(&pod);
            }
        }
    }

    fn create(&mut self, node: &str) {
        let mut pod = with_daemon_tolerations(replicas::pod_from(&self.spec.template, &self.object));
        pod.metadata.labels.get_or_insert_default().insert(REVISION.into(), self.hash.clone());
        let spec = pod.spec.get_or_insert_default();
        let mut affinity = serde_json::to_value(&spec.affinity).unwrap_or(Value::Null);
        pin(&mut affinity, node);
        spec.affinity = serde_json::from_value(affinity).ok();
        let event = Event::normal(&self.object, SOURCE, "SuccessfulCreate", "Created pod: {}".into());
        self.ops.push(Op::CreateAndTell(Object::from(pod), event));
    }

    fn delete(&mut self, pod: &Arc<Pod>) {
        self.ops.push(Op::delete(&Object::Pod(pod.clone())));
        let message = format!("Deleted pod: {}", crate::key::name(&pod.metadata));
        self.ops.push(Op::Event(Event::normal(&self.object, SOURCE, "SuccessfulDelete", message)));
    }

    fn status(&self, collisions: i32) -> DaemonSetStatus {
        let mut status = DaemonSetStatus {
            observed_generation: self.set.metadata.generation,
            collision_count: (collisions > 0).then_some(collisions),
            conditions: self.set.status.as_ref().and_then(|s| s.conditions.clone()),
            ..DaemonSetStatus::default()
        };
        let (mut updated, mut available) = (0, 0);
        for node in self.nodes() {
            let (should_run, _) = self.wanted_on(node);
            let here = self.pods.get(crate::key::name(&node.metadata)).map(Vec::as_slice).unwrap_or_default();
            let alive = || here.iter().filter(|p| !is_terminating(p));
            if !should_run {
                status.number_misscheduled += i32::from(!here.is_empty());
                continue;
            }
            status.desired_number_scheduled += 1;
            status.current_number_scheduled += i32::from(!here.is_empty());
            status.number_ready += i32::from(alive().any(|p| is_ready(p)));
            available +=
                i32::from(alive().any(|p| is_available(p, self.spec.min_ready_seconds.unwrap_or(0), self.now)));
            updated += i32::from(alive().any(|p| revision_of(p) == self.hash));
        }
        let some = |n: i32| (n > 0).then_some(n);
        status.updated_number_scheduled = some(updated);
        status.number_available = some(available);
        status.number_unavailable = some(status.desired_number_scheduled - available);
        status
    }
}

/// Ties a pod to a node by name, in every term, so that the scheduler and not we decide when.
fn pin(affinity: &mut Value, node: &str) {
    let field = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    if affinity.is_null() {
        *affinity = json!({});
    }
    let required = &mut affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    match required.as_array_mut().filter(|terms| !terms.is_empty()) {
        Some(terms) => terms.iter_mut().for_each(|t| t["matchFields"] = field.clone()),
        None => *required = json!([{"matchFields": field}]),
    }
}
