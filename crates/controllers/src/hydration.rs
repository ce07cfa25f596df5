//! Hydration: claims and Nodes made by older versions get the label by which we know them as ours.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_index::{Change, Key};
use serde_json::json;

use crate::context::Context;
use crate::error::{Result, unless_gone};
use crate::ownership::{Matches, claim_provider_id, node_class_label};
use crate::reconciler::{Action, Reconciler};

/// The label as a patch body, if it is missing or different.
pub fn missing_label(claim: &NodeClaim, present: Option<&BTreeMap<String, String>>) -> Option<serde_json::Value> {
    let class = &claim.spec.node_class_ref;
    let key = node_class_label(&class.group, &class.kind);
    let is_there = present.and_then(|labels| labels.get(&key)) == Some(&class.name);
    (!is_there).then(|| json!({"metadata": {"labels": {key: class.name}}}))
}

/// The controller `nodeclaim.hydration`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimHydration;

#[async_trait]
impl Reconciler for ClaimHydration {
    fn name(&self) -> &'static str {
        "nodeclaim.hydration"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        let new = change.node_claim().and_then(|claims| claims.new.as_ref());
        let lacks = new.filter(|claim| missing_label(claim, claim.metadata.labels.as_ref()).is_some());
        lacks.map(|_| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let claim = context.index.node_claim(&key.name).filter(|claim| context.index.is_managed(claim));
        if let Some(body) = claim.and_then(|claim| missing_label(&claim, claim.metadata.labels.as_ref())) {
            unless_gone(context.merge::<NodeClaim>(&key.name, &body).await)?;
        }
        Ok(Action::Done)
    }
}

/// The controller `node.hydration`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeHydration;

#[async_trait]
impl Reconciler for NodeHydration {
    fn name(&self) -> &'static str {
        "node.hydration"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        if change.node().is_some_and(|nodes| nodes.new.is_some()) {
            return vec![change.key.clone()];
        }
        let claim = change.node_claim().and_then(|claims| claims.new.as_ref());
        let nodes = claim.and_then(|claim| claim_provider_id(claim)).map(|id| context.index.nodes_of(id));
        nodes.into_iter().flatten().map(|node| Key::of(&node.metadata)).collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(node) = context.index.node(&key.name) else {
            return Ok(Action::Done);
        };
        let found: Matches<Arc<NodeClaim>> = context.index.claims_of_node(&node).into_iter().collect();
        let claim = found.one().filter(|claim| context.index.is_managed(claim));
        if let Some(body) = claim.and_then(|claim| missing_label(&claim, node.metadata.labels.as_ref())) {
            unless_gone(context.merge::<Node>(&key.name, &body).await)?;
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_is_given_where_it_is_missing_or_different() {
        // covers: LC-HYD-01, LC-HYD-02
        let mut claim = NodeClaim::default();
        claim.spec.node_class_ref.group = "karpenter.k8s.aws".into();
        claim.spec.node_class_ref.kind = "EC2NodeClass".into();
        claim.spec.node_class_ref.name = "default".into();
        let key = "karpenter.k8s.aws/ec2nodeclass";
        let labels = |value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let body = json!({"metadata": {"labels": {key: "default"}}});
        assert_eq!(missing_label(&claim, None), Some(body.clone()));
        assert_eq!(missing_label(&claim, Some(&labels("other"))), Some(body));
        assert_eq!(missing_label(&claim, Some(&labels("default"))), None);
    }
}
