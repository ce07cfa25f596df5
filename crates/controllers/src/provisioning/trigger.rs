//! Who opens a batch: pods that wait, and nodes whose pods will.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::labels::DISRUPTED_TAINT;
use karpenter_index::{Change, Key};

use super::PROVISIONER;
use crate::context::Context;
use crate::error::Result;
use crate::reconciler::{Action, Reconciler, singleton};

/// As long as something waits it opens batches again: a pass that succeeded may not have been enough.
const AGAIN: Duration = Duration::from_secs(10);

impl Context {
    /// Opens a batch for a pod or node, or adds it to the open one.
    pub fn trigger_provisioning(&self, uid: &str) {
        if self.batcher.trigger(uid) {
            self.wake(PROVISIONER, singleton());
        }
    }

    /// As [`Context::trigger_provisioning`], when pods lose their node: no waiting for company.
    pub fn trigger_provisioning_now(&self, uid: &str) {
        self.batcher.trigger_now(uid);
        self.wake(PROVISIONER, singleton());
    }
}

/// Every provisionable pod, for as long as it is one.
#[derive(Debug, Default)]
pub struct PodTrigger;

#[async_trait]
impl Reconciler for PodTrigger {
    fn name(&self) -> &'static str {
        "provisioner.trigger.pod"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        let pod = change.pod().and_then(|pair| pair.new.as_ref());
        let waits = pod.is_some_and(|pod| context.index.is_provisionable(&pod.pod));
        if waits { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(tracked) = context.index.pod(key) else { return Ok(Action::Done) };
        if !context.index.is_provisionable(&tracked.pod) {
            return Ok(Action::Done);
        }
        let now = context.clock.now();
        context.metrics.pods.acknowledged(key, now);
        // A pod that has its place in a plan needs no other, until the plan is over.
        context.index.end_plans(now);
        if context.index.planned_claim(key).is_none() {
            context.trigger_provisioning(&tracked.pod.uid);
        }
        Ok(Action::After(AGAIN))
    }
}

/// Every node with the disruption taint: pods on it that still need room get it.
#[derive(Debug, Default)]
pub struct NodeTrigger;

#[async_trait]
impl Reconciler for NodeTrigger {
    fn name(&self) -> &'static str {
        "provisioner.trigger.node"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        let node = change.node().and_then(|pair| pair.new.as_ref());
        if node.is_some_and(|node| is_disrupted(node)) { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(node) = context.index.node(&key.name).filter(|node| is_disrupted(node)) else {
            return Ok(Action::Done);
        };
        context.trigger_provisioning(node.metadata.uid.as_deref().unwrap_or_default());
        Ok(Action::After(AGAIN))
    }
}

/// Key and effect decide, the value does not.
fn is_disrupted(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == DISRUPTED_TAINT && taint.effect == "NoSchedule")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disruption_taint_is_known_by_key_and_effect() {
        let node = |key: &str, value: &str, effect: &str| -> Node {
            let taint = serde_json::json!({"key": key, "value": value, "effect": effect});
            serde_json::from_value(serde_json::json!({"metadata": {"name": "n"}, "spec": {"taints": [taint]}})).unwrap()
        };
        assert!(is_disrupted(&node("karpenter.sh/disrupted", "", "NoSchedule")));
        assert!(is_disrupted(&node("karpenter.sh/disrupted", "whatever", "NoSchedule")));
        assert!(!is_disrupted(&node("karpenter.sh/disrupted", "", "NoExecute")));
        assert!(!is_disrupted(&node("other", "", "NoSchedule")));
        assert!(!is_disrupted(&Node::default()));
    }
}
