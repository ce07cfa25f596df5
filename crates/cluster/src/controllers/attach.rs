//! Attaching volumes to the nodes whose pods use them, and detaching them afterwards.

use super::replicas::is_finished;
use crate::clock::{later, until};
use crate::key::{Key, name};
use crate::op::{Op, Step, Style};
use crate::scheduler::storage::volume_name;
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the simulated storage takes for either.
const TAKES: Duration = Duration::from_secs(2);

/// Drivers say whether their volumes are attached at all; one that says nothing wants them to be.
pub fn needs_attachment(world: &World, driver: &str) -> bool {
    world.csi_drivers.get(&Key::cluster(driver)).is_none_or(|d| d.spec.attach_required != Some(false))
}

fn attachment_name(volume: &str, driver: &str, node: &str) -> String {
    let draw = |n| crate::chance::draw(n, &[volume, driver, node]);
    format!("csi-{:016x}{:016x}{:016x}{:016x}", draw(1), draw(2), draw(3), draw(4))
}

/// What should be attached to a node, by attachment name: volume and driver.
fn wanted(world: &World, node: &str) -> BTreeMap<String, (String, String)> {
    let mut wanted = BTreeMap::new();
    for pod in world.pods_on(node).filter(|p| !is_finished(p)) {
        let key = Key::of(&pod.metadata);
        for volume in pod.spec.iter().flat_map(|s| s.volumes.iter().flatten()) {
            let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(c), _) => c.claim_name.clone(),
                (None, Some(_)) => format!("{}-{}", key.name, volume.name),
                (None, None) => continue,
            };
            let Some(claim) = world.claims.get(&key.sibling(&claim)) else { continue };
            let Some(bound) = world.volumes.get(&Key::cluster(volume_name(claim))) else { continue };
            let Some(csi) = bound.spec.as_ref().and_then(|s| s.csi.as_ref()) else { continue };
            if needs_attachment(world, &csi.driver) {
                let volume = name(&bound.metadata).to_owned();
                wanted.insert(attachment_name(&volume, &csi.driver, node), (volume, csi.driver.clone()));
            }
        }
    }
    wanted
}

pub fn step_node(world: &World, node: &str) -> Step {
    let wanted = wanted(world, node);
    let mut ops = Vec::new();
    for (name, (volume, driver)) in &wanted {
        if world.attachments.get(&Key::cluster(name)).is_some() {
            continue;
        }
        let attachment = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": name, "finalizers": [finalizer(driver)]},
            "spec": {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
        });
        ops.push(Op::Create(
            Kind::VolumeAttachment.decode(&attachment.to_string()).expect("an attachment made here is one"),
        ));
    }
    let extra =
        world.attachments.values().filter(|a| a.spec.node_name == node && a.metadata.deletion_timestamp.is_none());
    for attachment in extra.filter(|a| !wanted.contains_key(name(&a.metadata))) {
        ops.push(Op::delete(&Object::VolumeAttachment(attachment.clone())));
    }
    Step::ops(ops)
}

fn finalizer(driver: &str) -> String {
    format!("external-attacher/{}", driver.replace('.', "-"))
}

/// Plays the driver's attacher.
pub fn step_attachment(world: &World, key: &Key, now: Timestamp) -> Step {
    let Some(attachment) = world.attachments.get(key) else { return Step::done() };
    let finalizer = finalizer(&attachment.spec.attacher);
    if let Some(leaving) = &attachment.metadata.deletion_timestamp {
        if !attachment.metadata.finalizers.iter().flatten().any(|f| *f == finalizer) {
            return Step::done();
        }
        let due = later(leaving.0, TAKES);
        if due > now {
            return Step::wait(until(now, due));
        }
        let body = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [finalizer]}});
        return Step::ops(vec![Op::Patch {
            kind: Kind::VolumeAttachment,
            key: key.clone(),
            subresource: "",
            style: Style::Strategic,
            body,
        }]);
    }
    if attachment.status.as_ref().is_some_and(|s| s.attached) {
        return Step::done();
    }
    let due = later(super::replicas::created(&attachment.metadata), TAKES);
    if due > now {
        return Step::wait(until(now, due));
    }
    let body = json!({"status": {"attached": true}});
    Step::ops(vec![Op::Patch {
        kind: Kind::VolumeAttachment,
        key: key.clone(),
        subresource: "status",
        style: Style::Merge,
        body,
    }])
}
