//! The pieces cases are made of.

use super::Dice;
use serde_json::{Value, json};

pub(super) const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
pub(super) const HOST: &str = "kubernetes.io/hostname";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) fn node(name: &str, zone: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, ZONE: zone, "disk": "ssd", "size": cpu}},
        "spec": {},
        "status": {
            "capacity": {"cpu": cpu, "memory": "16Gi", "pods": "20", "ephemeral-storage": "50Gi"},
            "allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "20", "ephemeral-storage": "50Gi"},
        },
    })
}

/// A pod that leaves without delay when it must, because nobody plays its kubelet.
pub(super) fn pod(name: &str, app: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.com/app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}],
        },
    })
}

pub(super) fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    // Bound pods need not tolerate what their node has become.
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    pod
}

pub(super) fn term(app: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
}

pub(super) fn require(pod: &mut Value, kind: &str, term: Value) {
    let terms = &mut pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"];
    match terms.as_array_mut() {
        Some(list) => list.push(term),
        None => *terms = json!([term]),
    }
}

/// Two to four nodes over the zones.
pub(super) fn some_nodes(dice: &mut Dice, id: usize) -> Vec<Value> {
    let count = 2 + dice.below(3);
    (0..count).map(|n| node(&format!("case-{id}-{n}"), ZONES[dice.below(3)], ["2", "4"][dice.below(2)])).collect()
}

pub(super) fn name(node: &Value) -> String {
    node["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn class(name: &str, provisioner: &str, late: bool) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": if late { "WaitForFirstConsumer" } else { "Immediate" }})
}

pub(super) fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}}}})
}

pub(super) fn volume(name: &str, class: &str, size: &str, zone: Option<&str>) -> Value {
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "disk.example.com", "volumeHandle": name}}});
    if let Some(zone) = zone {
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}});
    }
    volume
}

/// Ties a claim and a volume to each other, as if they had been bound before.
pub(super) fn tie(claim: &mut Value, volume: &mut Value) {
    claim["spec"]["volumeName"] = volume["metadata"]["name"].clone();
    volume["spec"]["claimRef"] = json!({"namespace": "default", "name": claim["metadata"]["name"]});
}

pub(super) fn mount(pod: &mut Value, claim: &str) {
    let volume = json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    match pod["spec"]["volumes"].as_array_mut() {
        Some(list) => list.push(volume),
        None => pod["spec"]["volumes"] = json!([volume]),
    }
}
