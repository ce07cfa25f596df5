//! What is ours, and what belongs together.

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_core::labels::NODEPOOL;
use karpenter_provider::NodeClassKind;

/// A Node is ours when it carries the label of a node class we know, whatever its value.
pub fn is_managed_node(node: &Node, kinds: &[NodeClassKind]) -> bool {
    let labels = node.metadata.labels.as_ref();
    kinds.iter().any(|known| labels.is_some_and(|all| all.contains_key(&node_class_label(known.group, known.kind))))
}

/// The label under which claims and Nodes name their node class.
pub fn node_class_label(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

/// The provider id of a Node or claim; an empty one matches nothing.
pub fn node_provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty())
}

/// The pool a claim was made for.
pub fn pool_of(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.labels.as_ref()?.get(NODEPOOL).map(String::as_str)
}

pub fn claim_provider_id(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).filter(|id| !id.is_empty())
}

/// How many objects share a provider id. Several is never resolved by picking one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matches<T> {
    None,
    One(T),
    Several,
}

impl<T> Matches<T> {
    pub fn one(self) -> Option<T> {
        match self {
            Self::One(object) => Some(object),
            Self::None | Self::Several => None,
        }
    }
}

impl<T> FromIterator<T> for Matches<T> {
    fn from_iter<I: IntoIterator<Item = T>>(objects: I) -> Self {
        let mut objects = objects.into_iter();
        match (objects.next(), objects.next()) {
            (None, _) => Self::None,
            (Some(object), None) => Self::One(object),
            (Some(_), Some(_)) => Self::Several,
        }
    }
}

#[cfg(test)]
mod tests;
