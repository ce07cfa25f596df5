//! Facts about pods that every workload controller asks for.

use crate::clock::{later, until};
use crate::key::{Key, uid};
use crate::op::{Op, Style};
use crate::selector::Selector;
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Counts as one of its owner's replicas.
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

pub fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == kind)
}

pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|c| c.status == "True")
}

pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    condition(pod, "Ready").filter(|c| c.status == "True")?.last_transition_time.as_ref().map(|t| t.0)
}

/// Ready for at least this long.
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod) && (min_ready_seconds <= 0 || available_in(pod, min_ready_seconds, now).is_some_and(|d| d.is_zero()))
}

/// How long until a ready pod is available.
pub fn available_in(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let wait = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
    ready_since(pod).map(|since| until(now, later(since, wait)))
}

pub fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}

pub fn created(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(Timestamp::MIN, |t| t.0)
}

/// The reference by which an object controls what it makes.
pub fn controller_ref(owner: &Object) -> OwnerReference {
    OwnerReference {
        api_version: owner.kind().api_version().into(),
        kind: owner.kind().name().into(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod from a template: named after its owner by the server unless it is given a name.
pub fn pod_from(template: &PodTemplateSpec, owner: &Object) -> Pod {
    let from = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace: owner.meta().namespace.clone(),
            generate_name: owner.meta().name.as_ref().map(|n| prefix(n)),
            labels: from.labels,
            annotations: from.annotations,
            finalizers: from.finalizers,
            owner_references: Some(vec![controller_ref(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// A generated name must have room for its suffix.
fn prefix(owner: &str) -> String {
    let mut end = owner.len().min(57);
    while !owner.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-", &owner[..end])
}

/// The pods an object has, after adopting and releasing; and the writes for those.
pub struct Claimed {
    pub pods: Vec<Arc<Pod>>,
    pub ops: Vec<Op>,
}

/// Pods the owner controls and selects; orphans it selects are adopted, pods it no longer selects are let go.
pub fn claim_pods(world: &World, owner: &Object, selector: &Selector) -> Claimed {
    let mut claimed = Claimed { pods: Vec::new(), ops: Vec::new() };
    let leaving = owner.meta().deletion_timestamp.is_some();
    let labels = |pod: &Pod| pod.metadata.labels.clone().unwrap_or_default();
    for pod in world.pods_of(uid(owner.meta())) {
        if selector.matches(&labels(pod)) {
            claimed.pods.push(pod.clone());
        } else if !leaving && !is_terminating(pod) {
            claimed.ops.push(release(&Object::Pod(pod.clone()), uid(owner.meta())));
        }
    }
    if leaving {
        return claimed;
    }
    for key in world.orphans(Kind::Pod, crate::key::namespace(owner.meta())) {
        let Some(pod) = world.pods.get(key).filter(|p| is_active(p)) else { continue };
        if !selector.is_empty() && selector.matches(&labels(pod)) {
            claimed.ops.push(adopt(&Object::Pod(pod.clone()), owner));
            claimed.pods.push(pod.clone());
        }
    }
    claimed
}

pub fn adopt(object: &Object, owner: &Object) -> Op {
    let body = json!({"metadata": {"uid": object.meta().uid, "ownerReferences": [controller_ref(owner)]}});
    patch_meta(object, body)
}

fn release(object: &Object, owner: &str) -> Op {
    let body = json!({"metadata": {"uid": object.meta().uid, "ownerReferences": [{"$patch": "delete", "uid": owner}]}});
    patch_meta(object, body)
}

fn patch_meta(object: &Object, body: serde_json::Value) -> Op {
    Op::Patch { kind: object.kind(), key: Key::of(object.meta()), subresource: "", style: Style::Strategic, body }
}

/// "25%" of a total, rounded as asked, or a plain number.
pub fn scaled(value: &k8s_openapi::apimachinery::pkg::util::intstr::IntOrString, total: i32, up: bool) -> i32 {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    match value {
        IntOrString::Int(n) => *n,
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let product = percent * i64::from(total);
            let rounded = if up { (product + 99) / 100 } else { product / 100 };
            i32::try_from(rounded).unwrap_or(i32::MAX)
        }
    }
}
