//! Claims for volumes that live and die with their pod.

use super::replicas::{controller_ref, is_finished, is_terminating};
use crate::key::Key;
use crate::op::{Op, Step};
use crate::world::{Object, World};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub fn step(world: &World, key: &Key) -> Step {
    let Some(pod) = world.pods.get(key).filter(|p| !is_terminating(p) && !is_finished(p)) else { return Step::done() };
    let owner = Object::Pod(pod.clone());
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    let mut ops = Vec::new();
    for volume in volumes {
        let Some(template) = volume.ephemeral.as_ref().and_then(|e| e.volume_claim_template.as_ref()) else { continue };
        let name = format!("{}-{}", key.name, volume.name);
        if world.claims.get(&key.sibling(&name)).is_some() {
            continue;
        }
        let from = template.metadata.clone().unwrap_or_default();
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(key.namespace.to_string()),
                labels: from.labels,
                annotations: from.annotations,
                owner_references: Some(vec![controller_ref(&owner)]),
                ..ObjectMeta::default()
            },
            spec: Some(template.spec.clone()),
            status: None,
        };
        ops.push(Op::Create(Object::from(claim)));
    }
    Step::ops(ops)
}
