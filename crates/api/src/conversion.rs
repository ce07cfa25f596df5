//! v1beta1 and v1, in both directions, as pure functions over raw objects.
//!
//! ```text
//!   v1beta1 ──mapping──▶ v1 ◀──remembered (one annotation)     to_v1
//!   v1 ──mapping──▶ v1beta1 ──▶ what the way back would lose   to_v1beta1
//! ```
//!
//! Each kind has a plain mapping. What v1beta1 has no place for is not listed anywhere: the way back is tried, compared
//! with the original, and the difference is kept as a JSON merge patch in an annotation. So a field that v1 gains
//! tomorrow survives as well. A remembered part is given up once somebody changes, through v1beta1, what it stands for.

mod ec2nodeclass;
mod memory;
mod pool_and_claim;
mod review;

use serde_json::{Map, Value};

use crate::kind::Kind;

pub use review::{pools_wanted, review};

/// The kinds that v1beta1 had.
pub const KINDS: [Kind; 3] = [Kind::NodePool, Kind::NodeClaim, Kind::EC2NodeClass];
pub const V1BETA1: &str = "v1beta1";

/// The kubelet object of v1beta1, as JSON, on v1 pools and claims; wins over that of the node class.
pub const KUBELET: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
/// The node class reference as it was written in v1beta1, as JSON.
pub const NODE_CLASS_REFERENCE: &str = "compatibility.karpenter.sh/v1beta1-nodeclass-reference";
/// The version of an image alias, on v1beta1 classes.
pub const ALIAS_VERSION: &str = "compatibility.karpenter.k8s.aws/v1-alias-version";
/// What was put in the place of Ubuntu, on v1 classes.
pub const UBUNTU: &str = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu";
/// Says that an object has been rewritten as v1.
pub const MIGRATED: &str = "karpenter.sh/stored-version-migrated";
/// What v1beta1 has no place for: a JSON merge patch over the v1 object.
pub const V1_ONLY: &str = "compatibility.karpenter.sh/v1-only-fields";

/// The `expireAfter` of a NodePool, by name: v1beta1 claims have none of their own.
pub type ExpiryOfPool<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The kind and whether it is v1beta1, if it is an object that is converted here.
pub fn convertible(object: &Value) -> Option<(Kind, bool)> {
    let (api_version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    KINDS.into_iter().find(|k| k.as_str() == kind).and_then(|kind| match api_version {
        given if given == kind.api_version() => Some((kind, false)),
        given if given == v1beta1_of(kind) => Some((kind, true)),
        _ => None,
    })
}

/// `group/v1beta1`.
pub fn v1beta1_of(kind: Kind) -> String {
    format!("{}/{V1BETA1}", kind.group_version().0)
}

/// A v1beta1 object as v1. An object that is v1 already stays as it is.
pub fn to_v1(kind: Kind, object: &Value, expiry: ExpiryOfPool<'_>) -> Value {
    if text(object, "apiVersion") == kind.api_version() {
        return object.clone();
    }
    let remembered = annotation(object, V1_ONLY).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let mut bare = object.clone();
    remove_annotation(&mut bare, V1_ONLY);
    let plain = up(kind, &bare, expiry);
    match remembered {
        Some(patch) => memory::recall(&plain, &patch, |candidate| still_shows(kind, candidate, &bare)),
        None => plain,
    }
}

/// A v1 object as v1beta1. An object that is v1beta1 already stays as it is.
pub fn to_v1beta1(kind: Kind, object: &Value) -> Value {
    if text(object, "apiVersion") == v1beta1_of(kind) {
        return object.clone();
    }
    let mut shown = down(kind, object);
    let back = up(kind, &shown, &|_| None);
    if let Some(patch) = memory::difference(&back, object) {
        set_annotation(&mut shown, V1_ONLY, &patch.to_string());
    }
    shown
}

/// Whether a v1 object still looks like this in v1beta1, so that nobody has changed what is hidden in it.
fn still_shows(kind: Kind, candidate: &Value, shown: &Value) -> bool {
    let again = down(kind, candidate);
    let annotations =
        |object: &Value| object.pointer("/metadata/annotations").cloned().unwrap_or_else(|| Map::new().into());
    ["spec", "status"].iter().all(|part| again.get(*part) == shown.get(*part))
        && annotations(&again) == annotations(shown)
}

fn up(kind: Kind, object: &Value, expiry: ExpiryOfPool<'_>) -> Value {
    let mut out = object.clone();
    out["apiVersion"] = kind.api_version().into();
    match kind {
        Kind::NodePool => pool_and_claim::pool_up(&mut out),
        Kind::NodeClaim => pool_and_claim::claim_up(&mut out, expiry),
        Kind::EC2NodeClass => ec2nodeclass::up(&mut out),
        Kind::NodeOverlay | Kind::CapacityBuffer => {}
    }
    out
}

fn down(kind: Kind, object: &Value) -> Value {
    let mut out = object.clone();
    out["apiVersion"] = v1beta1_of(kind).into();
    match kind {
        Kind::NodePool => pool_and_claim::pool_down(&mut out),
        Kind::NodeClaim => pool_and_claim::claim_down(&mut out),
        Kind::EC2NodeClass => ec2nodeclass::down(&mut out),
        Kind::NodeOverlay | Kind::CapacityBuffer => {}
    }
    remove_annotation(&mut out, MIGRATED);
    out
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

fn set_annotation(object: &mut Value, key: &str, value: &str) {
    if let Some(metadata) = child(object, "metadata")
        && let Some(annotations) = metadata.entry("annotations").or_insert_with(|| Map::new().into()).as_object_mut()
    {
        annotations.insert(key.to_owned(), value.into());
    }
}

/// Takes an annotation away, and the map with its last one.
fn remove_annotation(object: &mut Value, key: &str) -> Option<String> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let removed = annotations.shift_remove(key)?;
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
    removed.as_str().map(str::to_owned)
}

/// The object in a field, made if there is nothing.
fn child<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    object.as_object_mut()?.entry(field).or_insert_with(|| Map::new().into()).as_object_mut()
}

/// The object in a field, if there is one.
fn existing<'a>(object: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    object.pointer_mut(pointer)?.as_object_mut()
}

#[cfg(test)]
mod tests;
