//! Registration: a launched machine's Node becomes ours. Everything is written in one patch, so that no half-registered
//! Node is ever seen.

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_api::NodeClaim;
use karpenter_api::labels::{DO_NOT_SYNC_TAINTS, REGISTERED, TERMINATION_FINALIZER, UNREGISTERED_TAINT};

/// Whether the Node joined without the taint that keeps pods off it until now. It is registered all the same.
pub fn lacks_unregistered_taint(node: &Node) -> bool {
    !has_label(node, REGISTERED) && !is_closed(node)
}

/// Gives the Node what its claim says: finalizer, owner, taints, annotations, labels.
pub fn sync(claim: &NodeClaim, node: &mut Node) {
    let finalizers = node.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == TERMINATION_FINALIZER) {
        finalizers.push(TERMINATION_FINALIZER.to_owned());
    }
    own(claim, node);
    // With the label, somebody else sees to the taints.
    if node.metadata.labels.as_ref().and_then(|all| all.get(DO_NOT_SYNC_TAINTS)).is_none_or(|value| value != "true") {
        let present = node.spec.get_or_insert_default().taints.get_or_insert_default();
        for taint in claim.spec.taints.iter().chain(&claim.spec.startup_taints).flatten() {
            if !present.iter().any(|other| matches(other, taint)) {
                present.push(taint.clone());
            }
        }
    }
    let annotations = claim.metadata.annotations.clone().unwrap_or_default();
    node.metadata.annotations.get_or_insert_default().extend(annotations);
    node.metadata.labels.get_or_insert_default().extend(claim.metadata.labels.clone().unwrap_or_default());
}

/// Whether pods are kept off the Node because it is not registered.
pub fn is_closed(node: &Node) -> bool {
    taints(node).iter().any(is_unregistered)
}

/// Opens the Node.
pub fn open(node: &mut Node) {
    if let Some(taints) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        taints.retain(|taint| !is_unregistered(taint));
    }
}

/// Opens the Node, which is registered from now on.
pub fn complete(node: &mut Node) {
    open(node);
    node.metadata.labels.get_or_insert_default().insert(REGISTERED.to_owned(), "true".to_owned());
}

fn own(claim: &NodeClaim, node: &mut Node) {
    let reference = OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodeClaim".to_owned(),
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    let owners = node.metadata.owner_references.get_or_insert_default();
    let same = |other: &OwnerReference| {
        (&other.api_version, &other.kind, &other.uid) == (&reference.api_version, &reference.kind, &reference.uid)
    };
    if !owners.iter().any(same) {
        owners.push(reference);
    }
}

pub(crate) fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

pub(crate) fn has_label(node: &Node, key: &str) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key))
}

/// Taints are one and the same when key and effect are.
pub(crate) fn matches(a: &Taint, b: &Taint) -> bool {
    (&a.key, &a.effect) == (&b.key, &b.effect)
}

fn is_unregistered(taint: &Taint) -> bool {
    taint.key == UNREGISTERED_TAINT && taint.effect == "NoExecute"
}

#[cfg(test)]
mod tests;
