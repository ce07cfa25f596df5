//! Claims and volumes: finding or making a volume for a claim, binding the two, and letting go of both.

use super::replicas::is_finished;
use crate::key::{Key, annotation, name, uid};
use crate::op::{Event, Op, Source, Step, Style};
use crate::scheduler::storage::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, NO_PROVISIONER, SELECTED_NODE, Storage, class_of, fully_bound, volume_name,
};
use crate::scheduler::volumes::{matching_volume, reserved_for};
use crate::world::{Kind, Object, World};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const SOURCE: Source = Source::Controller("persistentvolume-controller");

pub fn step_claim(world: &World, storage: &Storage, key: &Key) -> Step {
    let Some(claim) = world.claims.get(key) else { return Step::done() };
    if claim.metadata.deletion_timestamp.is_some() {
        let held = claim.metadata.finalizers.iter().flatten().any(|f| f == CLAIM_PROTECTION);
        return if held && !in_use(world, key) {
            Step::ops(vec![unprotect(Kind::PersistentVolumeClaim, key, CLAIM_PROTECTION)])
        } else {
            Step::done()
        };
    }
    if !volume_name(claim).is_empty() {
        let Some(volume) = world.volumes.get(&Key::cluster(volume_name(claim))) else {
            return if fully_bound(claim) { set_claim_phase(claim, "Lost") } else { set_claim_phase(claim, "Pending") };
        };
        let free = volume.spec.as_ref().is_some_and(|s| s.claim_ref.is_none());
        if free || reserved_for(volume, claim) {
            return bind(volume, claim);
        }
        return set_claim_phase(claim, if fully_bound(claim) { "Lost" } else { "Pending" });
    }
    if let Some(volume) = storage.volumes.values().find(|v| reserved_for(v, claim)) {
        return bind(volume, claim);
    }
    let class = storage.classes.get(class_of(claim));
    let late = storage.waits_for_consumer(claim).unwrap_or(false);
    let selected = annotation(&claim.metadata, SELECTED_NODE);
    if !late && let Some(volume) = matching_volume(storage, claim, None, &BTreeSet::new()) {
        return bind(&volume, claim);
    }
    if late && selected.is_none() {
        let mut step = set_claim_phase(claim, "Pending");
        if !step.ops.is_empty() {
            let message = "waiting for first consumer to be created before binding".to_owned();
            step.ops.push(Op::Event(Event::normal(
                &Object::PersistentVolumeClaim(claim.clone()),
                SOURCE,
                "WaitForFirstConsumer",
                message,
            )));
        }
        return step;
    }
    match class.filter(|c| !c.provisioner.is_empty() && c.provisioner != NO_PROVISIONER) {
        Some(class) => provision(world, claim, class, selected),
        None => set_claim_phase(claim, "Pending"),
    }
}

fn in_use(world: &World, key: &Key) -> bool {
    let users = world.pods.in_namespace(&key.namespace).map(|(_, p)| p).filter(|p| !is_finished(p));
    users.into_iter().any(|p| {
        p.spec.iter().flat_map(|s| s.volumes.iter().flatten()).any(|v| {
            v.persistent_volume_claim.as_ref().is_some_and(|c| c.claim_name == *key.name)
                || (v.ephemeral.is_some() && format!("{}-{}", name(&p.metadata), v.name) == *key.name)
        })
    })
}

fn unprotect(kind: Kind, key: &Key, finalizer: &str) -> Op {
    let body = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [finalizer]}});
    Op::Patch { kind, key: key.clone(), subresource: "", style: Style::Strategic, body }
}

fn set_claim_phase(claim: &Arc<PersistentVolumeClaim>, phase: &str) -> Step {
    if claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some(phase) {
        return Step::done();
    }
    Step::ops(vec![merge(
        Kind::PersistentVolumeClaim,
        &Key::of(&claim.metadata),
        "status",
        json!({"status": {"phase": phase}}),
    )])
}

fn merge(kind: Kind, key: &Key, subresource: &'static str, body: Value) -> Op {
    Op::Patch { kind, key: key.clone(), subresource, style: Style::Merge, body }
}

/// Ties volume and claim to each other, step by step and each step only if it is missing.
fn bind(volume: &Arc<PersistentVolume>, claim: &Arc<PersistentVolumeClaim>) -> Step {
    let mut ops = Vec::new();
    let (volume_key, claim_key) = (Key::of(&volume.metadata), Key::of(&claim.metadata));
    let spec = volume.spec.clone().unwrap_or_default();
    if spec.claim_ref.as_ref().and_then(|r| r.uid.as_deref()) != Some(uid(&claim.metadata)) {
        let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": &*claim_key.name,
            "namespace": &*claim_key.namespace, "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version});
        let body = json!({"spec": {"claimRef": reference}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}});
        ops.push(merge(Kind::PersistentVolume, &volume_key, "", body));
    }
    if volume.status.as_ref().and_then(|s| s.phase.as_deref()) != Some("Bound") {
        ops.push(merge(Kind::PersistentVolume, &volume_key, "status", json!({"status": {"phase": "Bound"}})));
    }
    if !fully_bound(claim) {
        let mut annotations = json!({BIND_COMPLETED: "yes"});
        if volume_name(claim).is_empty() {
            annotations[BOUND_BY_CONTROLLER] = json!("yes");
        }
        let body = json!({"spec": {"volumeName": &*volume_key.name}, "metadata": {"annotations": annotations}});
        ops.push(merge(Kind::PersistentVolumeClaim, &claim_key, "", body));
    }
    if claim.status.as_ref().and_then(|s| s.phase.as_deref()) != Some("Bound") {
        let body = json!({"status": {"phase": "Bound", "accessModes": spec.access_modes, "capacity": spec.capacity}});
        ops.push(merge(Kind::PersistentVolumeClaim, &claim_key, "status", body));
    }
    Step::ops(ops)
}

/// Plays the external provisioner: a volume of the size asked for, where the pod will be.
fn provision(world: &World, claim: &Arc<PersistentVolumeClaim>, class: &StorageClass, selected: Option<&str>) -> Step {
    let volume = format!("pvc-{}", uid(&claim.metadata));
    let spec = claim.spec.clone().unwrap_or_default();
    let requested = spec.resources.as_ref().and_then(|r| r.requests.as_ref()).and_then(|r| r.get("storage"));
    let claim_ref = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim.metadata.name,
        "namespace": claim.metadata.namespace, "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version});
    let mut made = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": volume, "annotations": {PROVISIONED_BY: class.provisioner}},
        "spec": {
            "capacity": {"storage": requested.map_or("1Gi".to_owned(), |q| q.0.clone())},
            "accessModes": spec.access_modes,
            "persistentVolumeReclaimPolicy": class.reclaim_policy.clone().unwrap_or_else(|| "Delete".into()),
            "storageClassName": class.metadata.name,
            "volumeMode": spec.volume_mode.clone().unwrap_or_else(|| "Filesystem".into()),
            "mountOptions": class.mount_options,
            "claimRef": claim_ref,
            "csi": {
                "driver": class.provisioner,
                "volumeHandle": format!("vol-{:016x}", crate::chance::draw(4, &[&volume])),
                "fsType": class.parameters.as_ref().and_then(|p| p.get("csi.storage.k8s.io/fstype")).cloned().unwrap_or_else(|| "ext4".into()),
            },
        },
    });
    if let Some(terms) = topology(world, class, selected) {
        made["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    let Ok(object) = Kind::PersistentVolume.decode(&made.to_string()) else { return Step::done() };
    if world.volumes.get(&Key::cluster(&volume)).is_some() {
        return Step::done();
    }
    let message = format!("Successfully provisioned volume {volume}");
    let event = Event::normal(
        &Object::PersistentVolumeClaim(claim.clone()),
        Source::Controller("external-provisioner"),
        "ProvisioningSucceeded",
        message,
    );
    let mut ops = set_claim_phase(claim, "Pending").ops;
    ops.extend([Op::Create(object), Op::Event(event)]);
    Step::ops(ops)
}

/// Where the volume can be used: the selected node's domain, else whatever the class allows.
fn topology(world: &World, class: &StorageClass, selected: Option<&str>) -> Option<Value> {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let expression = |key: &str, values: Vec<String>| json!({"key": key, "operator": "In", "values": values});
    if let Some(node) = selected.and_then(|n| world.nodes.get(&Key::cluster(n))) {
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let csi = world.csi_nodes.get(&Key::cluster(name(&node.metadata)));
        let driver = csi.and_then(|c| c.spec.drivers.iter().find(|d| d.name == class.provisioner));
        let keys =
            driver.and_then(|d| d.topology_keys.clone()).filter(|k| !k.is_empty()).unwrap_or_else(|| vec![ZONE.into()]);
        let expressions: Vec<Value> =
            keys.iter().filter_map(|k| labels.get(k).map(|v| expression(k, vec![v.clone()]))).collect();
        return (!expressions.is_empty()).then(|| json!([{"matchExpressions": expressions}]));
    }
    let terms = class.allowed_topologies.as_ref().filter(|t| !t.is_empty())?;
    let term = |t: &k8s_openapi::api::core::v1::TopologySelectorTerm| {
        let all: Vec<Value> = t
            .match_label_expressions
            .iter()
            .flatten()
            .map(|e| expression(&e.key, e.values.iter().take(1).cloned().collect()))
            .collect();
        json!({"matchExpressions": all})
    };
    Some(Value::Array(terms.iter().take(1).map(term).collect()))
}

pub fn step_volume(world: &World, key: &Key) -> Step {
    let Some(volume) = world.volumes.get(key) else { return Step::done() };
    let spec = volume.spec.clone().unwrap_or_default();
    let phase = volume.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
    let claim = spec.claim_ref.as_ref().and_then(|r| {
        let key = Key::new(r.namespace.as_deref().unwrap_or_default(), r.name.as_deref().unwrap_or_default());
        world.claims.get(&key).filter(|c| r.uid.is_none() || r.uid == c.metadata.uid)
    });
    let set_phase = |to: &str| {
        if phase == to {
            Step::done()
        } else {
            Step::ops(vec![merge(Kind::PersistentVolume, key, "status", json!({"status": {"phase": to}}))])
        }
    };
    if volume.metadata.deletion_timestamp.is_some() {
        let held = volume.metadata.finalizers.iter().flatten().any(|f| f == VOLUME_PROTECTION);
        return if held && claim.is_none() {
            Step::ops(vec![unprotect(Kind::PersistentVolume, key, VOLUME_PROTECTION)])
        } else {
            Step::done()
        };
    }
    match (&spec.claim_ref, claim) {
        (None, _) => set_phase("Available"),
        (Some(reference), None) if reference.uid.is_none() => set_phase("Available"),
        (Some(_), Some(_)) => Step::done(),
        (Some(_), None) => {
            let mut step = set_phase("Released");
            let attached =
                world.attachments.values().any(|a| a.spec.source.persistent_volume_name.as_deref() == Some(&*key.name));
            if spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete") && !attached {
                step.ops.push(Op::delete(&Object::PersistentVolume(volume.clone())));
            }
            step
        }
    }
}
