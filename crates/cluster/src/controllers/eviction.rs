//! Taints that execute: pods that do not tolerate them leave, at once or after a while.

use super::replicas::{is_finished, is_terminating, node_of};
use crate::clock::{later, until, wire};
use crate::key::Key;
use crate::op::{Event, Op, Source, Step, Style};
use crate::scheduler::pod::tolerates;
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Taint, Toleration};
use serde_json::json;
use std::time::Duration;

const SOURCE: Source = Source::Controller("taint-eviction-controller");

pub fn step(world: &World, key: &Key, now: Timestamp) -> Step {
    let Some(pod) = world.pods.get(key).filter(|p| !is_terminating(p) && !is_finished(p)) else { return Step::done() };
    let Some(node) = world.nodes.get(&Key::cluster(node_of(pod))) else { return Step::done() };
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten()).filter(|t| t.effect == "NoExecute");
    let no_tolerations = Vec::new();
    let tolerations = pod.spec.as_ref().and_then(|s| s.tolerations.as_ref()).unwrap_or(&no_tolerations);
    let due = taints.filter_map(|t| leaves_at(t, tolerations, now)).min();
    match due {
        None => Step::done(),
        Some(at) if at > now => Step::wait(until(now, at)),
        Some(_) => {
            let object = Object::Pod(pod.clone());
            let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": wire(now),
                "observedGeneration": pod.metadata.generation});
            let body = json!({"status": {"conditions": [condition]}});
            let message = format!("Marking for deletion Pod {key}");
            Step::ops(vec![
                Op::Event(Event::normal(&object, SOURCE, "TaintManagerEviction", message)),
                Op::Patch { kind: Kind::Pod, key: key.clone(), subresource: "status", style: Style::Strategic, body },
                Op::delete(&object),
            ])
        }
    }
}

/// When a taint makes a pod leave; `None` if it tolerates it for good.
fn leaves_at(taint: &Taint, tolerations: &[Toleration], now: Timestamp) -> Option<Timestamp> {
    let matching: Vec<&Toleration> = tolerations.iter().filter(|t| tolerates(t, taint)).collect();
    if matching.is_empty() {
        return Some(now);
    }
    // The shortest patience counts; a toleration without one is patient for ever.
    let seconds = matching.iter().filter_map(|t| t.toleration_seconds).min()?;
    let since = taint.time_added.as_ref().map_or(now, |t| t.0);
    Some(later(since, Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
}
