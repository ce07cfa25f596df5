//! The life of nodes: silence makes a node unknown, its conditions become taints, and its pods stop counting as ready.

use super::replicas::{condition, is_terminating};
use crate::clock::{later, until, wire};
use crate::key::{Key, annotation};
use crate::kubelet::node::LEASE_NAMESPACE;
use crate::op::{Event, Op, Source, Step, Style};
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A node not heard of for so long is unknown.
const GRACE: Duration = Duration::from_secs(50);
const SOURCE: Source = Source::Controller("node-controller");

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const CACHE_SECONDS: &str = "node.alpha.kubernetes.io/ttl";
/// Up to so many nodes, so many seconds.
const CACHING: [(usize, u32); 4] = [(100, 0), (500, 15), (1000, 30), (2000, 60)];
/// Conditions, the status that is trouble, and the taint it means.
const CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

/// `alive` says that the node's kubelet is known to be well although its renewals are not written down.
pub fn step(world: &World, key: &Key, alive: bool, now: Timestamp) -> Step {
    // Also one that is being deleted: a finalizer may keep it for hours, and its kubelet may fall silent meanwhile.
    let Some(node) = world.nodes.get(key) else {
        return Step::done();
    };
    let mut step = Step::done();
    let welcome = welcome(world, node);
    if !welcome.is_empty() {
        return Step::ops(welcome); // What comes of it brings us back here, with the version that the rest goes by.
    }
    let mut status = status_of(node, "Ready").unwrap_or("Unknown").to_owned();
    if !alive {
        let silent_at = later(last_heard(world, node), GRACE);
        if silent_at > now {
            step.after = Some(until(now, silent_at));
        } else if status != "Unknown" || status_of(node, "Ready").is_none() {
            step.ops.push(unknown(node, now));
            "Unknown".clone_into(&mut status);
        }
    }
    if let Some(op) = taints(node, &status, now) {
        step.ops.push(op);
    }
    if status != "True" {
        step.ops.extend(pods_not_ready(world, key, node, now));
    }
    step
}

/// A node seen for the first time is told of, and told how long its kubelet may cache what it reads: the more nodes, the
/// longer.
fn welcome(world: &World, node: &Arc<Node>) -> Vec<Op> {
    if annotation(&node.metadata, CACHE_SECONDS).is_some() {
        return Vec::new();
    }
    let count = world.nodes.len();
    let seconds = CACHING.iter().find(|(most, _)| count <= *most).map_or(300, |(_, seconds)| *seconds);
    let body = json!({"metadata": {"annotations": {CACHE_SECONDS: seconds.to_string()}}});
    let key = Key::of(&node.metadata);
    let message = format!("Node {0} event: Registered Node {0} in Controller", key.name);
    vec![
        Op::Patch { kind: Kind::Node, key, subresource: "", style: Style::Strategic, body },
        Op::Event(Event::normal(&Object::Node(node.clone()), SOURCE, "RegisteredNode", message)),
    ]
}

fn status_of<'a>(node: &'a Node, kind: &str) -> Option<&'a str> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == kind).map(|c| c.status.as_str())
}

/// The latest sign of life: a lease renewal, a heartbeat, or that the node exists at all.
fn last_heard(world: &World, node: &Node) -> Timestamp {
    let lease = world.leases.get(&Key::new(LEASE_NAMESPACE, crate::key::name(&node.metadata)));
    let renewed = lease.and_then(|l| l.spec.as_ref()?.renew_time.as_ref()).map(|t| t.0);
    let beat = node
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten())
        .filter(|c| c.type_ == "Ready" && c.status != "Unknown")
        .filter_map(|c| c.last_heartbeat_time.as_ref())
        .map(|t| t.0)
        .max();
    let created = super::replicas::created(&node.metadata);
    renewed.into_iter().chain(beat).chain([created]).max().unwrap_or(created)
}

fn unknown(node: &Arc<Node>, now: Timestamp) -> Op {
    let kinds = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
    let conditions: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            let before = node.status.iter().flat_map(|s| s.conditions.iter().flatten()).find(|c| c.type_ == **kind);
            let (reason, message) = match before {
                Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
                None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
            };
            let heartbeat =
                before.and_then(|c| c.last_heartbeat_time.clone()).or_else(|| node.metadata.creation_timestamp.clone());
            json!({"type": kind, "status": "Unknown", "reason": reason, "message": message,
                "lastHeartbeatTime": heartbeat, "lastTransitionTime": wire(now)})
        })
        .collect();
    let body = json!({"status": {"conditions": conditions}});
    Op::Patch { kind: Kind::Node, key: Key::of(&node.metadata), subresource: "status", style: Style::Strategic, body }
}

/// Makes the taints this controller answers for what they should be; others are left alone.
fn taints(node: &Arc<Node>, ready: &str, now: Timestamp) -> Option<Op> {
    let no_taints = Vec::new();
    let have = node.spec.as_ref().and_then(|s| s.taints.as_ref()).unwrap_or(&no_taints);
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, trouble, key) in CONDITIONS {
        let status = if kind == "Ready" { Some(ready) } else { status_of(node, kind) };
        if status == Some(trouble) {
            wanted.push((key, "NoSchedule"));
            if kind == "Ready" {
                wanted.push((key, "NoExecute"));
            }
        }
    }
    if node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let ours = |t: &Taint| {
        let known = CONDITIONS.iter().any(|(_, _, key)| t.key == *key) || t.key == UNSCHEDULABLE;
        let executes = t.effect == "NoExecute" && (t.key == NOT_READY || t.key == UNREACHABLE);
        known && (t.effect == "NoSchedule" || executes)
    };
    let mut next: Vec<Taint> =
        have.iter().filter(|t| !ours(t) || wanted.contains(&(t.key.as_str(), t.effect.as_str()))).cloned().collect();
    for (key, effect) in wanted {
        if !next.iter().any(|t| t.key == key && t.effect == effect) {
            next.push(Taint { key: key.into(), effect: effect.into(), value: None, time_added: Some(wire(now)) });
        }
    }
    if next == *have {
        return None;
    }
    // Taints are one list to the server, so a change by somebody else must not be lost.
    let body = json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": next}});
    Some(Op::Patch { kind: Kind::Node, key: Key::of(&node.metadata), subresource: "", style: Style::Merge, body })
}

fn pods_not_ready(world: &World, key: &Key, node: &Arc<Node>, now: Timestamp) -> Vec<Op> {
    let mut ops = Vec::new();
    for pod in world.pods_on(&key.name) {
        let Some(ready) = condition(pod, "Ready").filter(|c| c.status == "True" && !is_terminating(pod)) else {
            continue;
        };
        let body = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": ready.reason,
            "message": ready.message, "lastTransitionTime": wire(now)}]}});
        ops.push(Op::Patch {
            kind: Kind::Pod,
            key: Key::of(&pod.metadata),
            subresource: "status",
            style: Style::Strategic,
            body,
        });
        let event = Event::warning(&Object::Pod(pod.clone()), SOURCE, "NodeNotReady", "Node is not ready".into());
        ops.push(Op::Event(event));
    }
    if !ops.is_empty() {
        let message = format!("Node {} status is now: NodeNotReady", key.name);
        ops.push(Op::Event(Event::normal(&Object::Node(node.clone()), SOURCE, "NodeNotReady", message)));
    }
    ops
}
