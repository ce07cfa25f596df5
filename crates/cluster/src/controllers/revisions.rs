//! Names for versions of a template: the hash in `pod-template-hash`, and ControllerRevisions.

use crate::key::uid;
use crate::op::Op;
use crate::world::{Kind, Object, World};
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Value, json};
use std::sync::Arc;

/// No vowels and no look-alikes, so that no hash spells a word.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short name for a template. Upstream hashes a dump of its Go struct, which nobody else can; the length and the
/// letters are the same, and an existing ReplicaSet is found by comparing templates, never by this.
pub fn hash(template: &impl serde::Serialize, collisions: i32) -> String {
    let mut text = serde_json::to_string(template).unwrap_or_default();
    if collisions != 0 {
        text.push_str(&collisions.to_string());
    }
    let hash = text.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    safe(&hash.to_string())
}

fn safe(text: &str) -> String {
    text.bytes().map(|b| char::from(ALPHABET[usize::from(b) % ALPHABET.len()])).collect()
}

/// The history of a StatefulSet's or DaemonSet's template.
pub struct History {
    /// Oldest first.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// The revision of the template as it is.
    pub current: Option<Arc<ControllerRevision>>,
}

/// What a revision remembers: the template, as a patch that would bring it back.
pub fn data(template: &impl serde::Serialize) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

pub fn history(world: &World, owner: &Object, data: &Value) -> History {
    let owned = world.children(uid(owner.meta()), Kind::ControllerRevision).filter_map(|k| world.revisions.get(k));
    let mut revisions: Vec<_> = owned.cloned().collect();
    revisions.sort_by_key(|r| (r.revision, r.metadata.name.clone()));
    let current = revisions.iter().rev().find(|r| r.data.as_ref().is_some_and(|d| d.0 == *data)).cloned();
    History { revisions, current }
}

/// Makes the current template the latest revision, if it is not.
pub fn record(owner: &Object, history: &History, data: &Value, labels: &Value, collisions: i32) -> Option<Op> {
    let last = history.revisions.last().map_or(0, |r| r.revision);
    if let Some(current) = &history.current {
        if current.revision == last {
            return None;
        }
        // An undo: the old revision becomes the newest.
        let mut renewed = (**current).clone();
        renewed.revision = last + 1;
        return Some(Op::Update(Object::from(renewed)));
    }
    let hash = hash(data, collisions);
    let mut labels = labels.clone();
    labels["controller-revision-hash"] = json!(hash);
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": format!("{}-{hash}", crate::key::name(owner.meta())),
            "namespace": owner.meta().namespace,
            "labels": labels,
            "annotations": owner.meta().annotations,
            "ownerReferences": [super::replicas::controller_ref(owner)],
        },
        "data": data,
        "revision": last + 1,
    });
    let made = Kind::ControllerRevision.decode(&revision.to_string()).expect("a revision made here is one");
    Some(Op::Create(made))
}

/// The hash in a revision's name.
pub fn hash_of(revision: &ControllerRevision) -> String {
    let labels = revision.metadata.labels.as_ref();
    labels.and_then(|l| l.get("controller-revision-hash")).cloned().unwrap_or_default()
}

/// Deletes the oldest revisions nothing refers to any more.
pub fn prune(history: &History, in_use: &[String], limit: i32) -> Vec<Op> {
    let unused: Vec<_> = history
        .revisions
        .iter()
        .filter(|r| !in_use.iter().any(|n| Some(n) == r.metadata.name.as_ref() || *n == hash_of(r)))
        .collect();
    let extra = unused.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    unused.into_iter().take(extra).map(|r| Op::delete(&Object::ControllerRevision(r.clone()))).collect()
}
