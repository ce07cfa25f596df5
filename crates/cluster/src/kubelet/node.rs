//! What a kubelet does for its node: registers it, keeps its status true, renews its lease, tells its storage drivers.

use super::fleet::{Host, Pressure};
use super::{Heartbeats, Settings};
use crate::clock::{later, micro, until, wire};
use crate::key::{Key, uid};
use crate::op::{Event, Op, Source, Step, Style};
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use std::time::Duration;

pub const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: i32 = 40;
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// An unchanged status is written again this often.
const REPORT_EVERY: Duration = Duration::from_secs(300);

pub fn step(host: &mut Host, settings: &Settings, world: &World, now: Timestamp) -> Step {
    let key = Key::cluster(&host.machine.name);
    let Some(node) = world.nodes.get(&key) else {
        // A node that was deleted does not come back before its machine is started anew.
        return if host.registered.is_some() { Step::done() } else { Step::ops(vec![register(host, now)]) };
    };
    let (registered, id) = match &host.registered {
        Some((at, id)) => (*at, id.clone()),
        None => {
            let created = node.metadata.creation_timestamp.as_ref().map_or(now, |t| t.0);
            host.registered = Some((created, uid(&node.metadata).into()));
            (created, uid(&node.metadata).into())
        }
    };
    if uid(&node.metadata) != id {
        return Step::done(); // A node of our name that is not ours.
    }
    let mut step = Step::done();
    let heartbeat_due =
        settings.heartbeats == Heartbeats::Written && last_report(node).is_none_or(|t| later(t, REPORT_EVERY) <= now);
    let wanted = status(host, registered, now);
    if heartbeat_due || differs(node, &wanted) {
        step.ops.extend(report(host, node, wanted));
    }
    step.ops.extend(csi_node(host, node, registered, world, now));
    step.ops.extend(renew(host, node, settings, world, now));
    let moments = [host.machine.ready_delay, host.machine.device_delay, host.machine.csi_delay];
    let next = moments.into_iter().map(|d| later(registered, d)).filter(|t| *t > now).min();
    let beat = (settings.heartbeats == Heartbeats::Written).then_some(RENEW_EVERY);
    step.again(next.map(|t| until(now, t))).again(beat)
}

fn register(host: &Host, now: Timestamp) -> Op {
    let machine = &host.machine;
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": machine.name, "labels": machine.labels, "annotations": machine.annotations},
        "spec": {"taints": machine.taints},
        "status": status(host, now, now),
    });
    if machine.ready_delay.is_zero() {
        // It will say that it is ready in its first report, not while it introduces itself.
        node["status"]["conditions"] = conditions(host, false, now);
    }
    if !machine.provider_id.is_empty() {
        node["spec"]["providerID"] = json!(machine.provider_id);
    }
    Op::Create(Kind::Node.decode(&node.to_string()).expect("a node made here is a node"))
}

fn status(host: &Host, registered: Timestamp, now: Timestamp) -> Value {
    let machine = &host.machine;
    let (mut capacity, mut allocatable) = (machine.capacity.clone(), machine.allocatable.clone());
    if later(registered, machine.device_delay) <= now {
        capacity.extend(machine.devices.clone());
        allocatable.extend(machine.devices.clone());
    }
    let ready = later(registered, machine.ready_delay) <= now;
    json!({
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": conditions(host, ready, now),
        "addresses": [
            {"type": "InternalIP", "address": machine.internal_ip},
            {"type": "Hostname", "address": machine.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": machine.name, "systemUUID": machine.name, "bootID": machine.name,
            "kernelVersion": "6.12.0", "osImage": machine.os_image, "containerRuntimeVersion": "containerd://2.1.0",
            "kubeletVersion": machine.kubelet_version, "kubeProxyVersion": "",
            "operatingSystem": machine.operating_system, "architecture": machine.architecture,
        },
    })
}

fn conditions(host: &Host, ready: bool, now: Timestamp) -> Value {
    let time = wire(now);
    let one = |kind: &str, on: bool, reason: &str, message: &str| {
        json!({"type": kind, "status": if on { "True" } else { "False" }, "reason": reason, "message": message,
            "lastHeartbeatTime": time, "lastTransitionTime": time})
    };
    let mut all: Vec<Value> = Pressure::ALL
        .into_iter()
        .map(|pressure| match (pressure, host.pressures.contains(&pressure)) {
            (Pressure::Memory, false) => {
                one("MemoryPressure", false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available")
            }
            (Pressure::Memory, true) => {
                one("MemoryPressure", true, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available")
            }
            (Pressure::Disk, false) => {
                one("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure")
            }
            (Pressure::Disk, true) => one("DiskPressure", true, "KubeletHasDiskPressure", "kubelet has disk pressure"),
            (Pressure::Pid, false) => {
                one("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available")
            }
            (Pressure::Pid, true) => {
                one("PIDPressure", true, "KubeletHasInsufficientPID", "kubelet has insufficient PID available")
            }
        })
        .collect();
    all.push(if ready {
        one("Ready", true, "KubeletReady", "kubelet is posting ready status")
    } else {
        let why = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network \
                   plugin returns error: cni plugin not initialized";
        one("Ready", false, "KubeletNotReady", why)
    });
    Value::Array(all)
}

/// Whether the node's status says something else, heartbeats aside.
fn differs(node: &Node, wanted: &Value) -> bool {
    let Some(status) = &node.status else { return true };
    let same_list = |have: &Option<std::collections::BTreeMap<String, _>>, key: &str| {
        serde_json::to_value(have).is_ok_and(|v| v == wanted[key])
    };
    let same_conditions = wanted["conditions"].as_array().into_iter().flatten().all(|w| {
        status
            .conditions
            .iter()
            .flatten()
            .any(|c| w["type"] == c.type_ && w["status"] == c.status && w["reason"] == json!(c.reason))
    });
    !same_conditions || !same_list(&status.capacity, "capacity") || !same_list(&status.allocatable, "allocatable")
}

fn last_report(node: &Node) -> Option<Timestamp> {
    let mut conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.find(|c| c.type_ == "Ready")?.last_heartbeat_time.as_ref().map(|t| t.0)
}

fn report(host: &Host, node: &Node, mut wanted: Value) -> Vec<Op> {
    let mut ops = Vec::new();
    let have = |kind: &Value| node.status.iter().flat_map(|s| s.conditions.iter().flatten()).find(|c| *kind == c.type_);
    let mut became_ready = false;
    for condition in wanted["conditions"].as_array_mut().into_iter().flatten() {
        let before = have(&condition["type"]);
        match before.filter(|c| condition["status"] == c.status) {
            Some(same) => condition["lastTransitionTime"] = json!(same.last_transition_time),
            None => became_ready |= condition["type"] == "Ready" && condition["status"] == "True",
        }
    }
    let key = Key::cluster(&host.machine.name);
    ops.push(Op::Patch {
        kind: Kind::Node,
        key,
        subresource: "status",
        style: Style::Strategic,
        body: json!({"status": wanted}),
    });
    if became_ready {
        let object =
            Kind::Node.decode(&json!({"metadata": {"name": host.machine.name, "uid": host.machine.name}}).to_string());
        if let Ok(object) = object {
            let source = Source::Kubelet { node: host.machine.name.clone() };
            let message = format!("Node {} status is now: NodeReady", host.machine.name);
            ops.push(Op::Event(Event::normal(&object, source, "NodeReady", message)));
        }
    }
    ops
}

fn csi_node(host: &Host, node: &Node, registered: Timestamp, world: &World, now: Timestamp) -> Option<Op> {
    if host.machine.csi_drivers.is_empty() || later(registered, host.machine.csi_delay) > now {
        return None;
    }
    if world.csi_nodes.get(&Key::cluster(&host.machine.name)).is_some() {
        return None;
    }
    let driver = |d: &super::machine::CsiDriver| {
        let mut driver = json!({"name": d.name, "nodeID": host.machine.name, "topologyKeys": d.topology_keys});
        if let Some(limit) = d.limit {
            driver["allocatable"] = json!({"count": limit});
        }
        driver
    };
    let object = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": host.machine.name, "ownerReferences": [owner(node)]},
        "spec": {"drivers": host.machine.csi_drivers.iter().map(driver).collect::<Vec<_>>()},
    });
    Some(Op::Create(Kind::CSINode.decode(&object.to_string()).expect("a CSINode made here is one")))
}

fn owner(node: &Node) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid})
}

fn renew(host: &mut Host, node: &Node, settings: &Settings, world: &World, now: Timestamp) -> Option<Op> {
    let key = Key::new(LEASE_NAMESPACE, &host.machine.name);
    let Some(lease) = world.leases.get(&key) else {
        if host.last_renewal.is_some_and(|t| later(t, Duration::from_secs(1)) > now) {
            return None; // Its creation is on the way.
        }
        host.last_renewal = Some(now);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": &*key.name, "namespace": &*key.namespace, "ownerReferences": [owner(node)]},
            "spec": {"holderIdentity": &*key.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micro(now)},
        });
        return Some(Op::Create(Kind::Lease.decode(&lease.to_string()).expect("a lease made here is one")));
    };
    if settings.heartbeats == Heartbeats::Folded {
        return None;
    }
    let renewed = lease.spec.as_ref().and_then(|s| s.renew_time.as_ref()).map(|t| t.0);
    if renewed.is_some_and(|t| later(t, RENEW_EVERY) > now) {
        return None;
    }
    Some(renewal(lease, now))
}

fn renewal(lease: &Lease, at: Timestamp) -> Op {
    let mut lease = lease.clone();
    lease.spec.get_or_insert_default().renew_time = Some(micro(at));
    Op::Update(Object::from(lease))
}

/// The renewal a kubelet would have written last, had its renewals not been folded.
pub fn final_renewal(host: &Host, world: &World, now: Timestamp) -> Vec<Op> {
    let key = Key::new(LEASE_NAMESPACE, &host.machine.name);
    let Some(lease) = world.leases.get(&key) else { return Vec::new() };
    let Some(first) = lease.spec.as_ref().and_then(|s| s.renew_time.as_ref()).map(|t| t.0) else { return Vec::new() };
    let beats = until(first, now).as_secs() / RENEW_EVERY.as_secs();
    if beats == 0 {
        return Vec::new();
    }
    vec![renewal(lease, later(first, RENEW_EVERY * beats as u32))]
}
