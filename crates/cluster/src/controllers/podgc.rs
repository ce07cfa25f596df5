//! Pods nobody looks after any more.

use super::replicas::{is_finished, is_terminating};
use crate::clock::wire;
use crate::key::Key;
use crate::op::{Op, Step, Style};
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;

/// A node that is missing for so long is gone, not late.
pub const QUARANTINE: Duration = Duration::from_secs(40);

/// The pods of a node that does not exist.
pub fn orphaned(world: &World, node: &str, now: Timestamp) -> Step {
    if world.nodes.get(&Key::cluster(node)).is_some() {
        return Step::done();
    }
    let mut ops = Vec::new();
    for pod in world.pods_on(node) {
        if !is_finished(pod) {
            let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists", "lastTransitionTime": wire(now), "observedGeneration": pod.metadata.generation});
            let body = json!({"status": {"phase": "Failed", "conditions": [condition]}});
            ops.push(Op::Patch {
                kind: Kind::Pod,
                key: Key::of(&pod.metadata),
                subresource: "status",
                style: Style::Strategic,
                body,
            });
        }
        let mut delete = Op::delete(&Object::Pod(pod.clone()));
        if let Op::Delete { grace_seconds, .. } = &mut delete {
            *grace_seconds = Some(0);
        }
        ops.push(delete);
    }
    Step::ops(ops)
}

/// A pod that is to go and was never anywhere.
pub fn unscheduled(world: &World, key: &Key) -> Step {
    let leaving = world.pods.get(key).filter(|p| is_terminating(p) && super::replicas::node_of(p).is_empty());
    let Some(pod) = leaving else { return Step::done() };
    let mut delete = Op::delete(&Object::Pod(pod.clone()));
    if let Op::Delete { grace_seconds, .. } = &mut delete {
        *grace_seconds = Some(0);
    }
    Step::ops(vec![delete])
}
