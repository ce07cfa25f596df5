//! When a pod last came to a node, left it or ended on it: the start of the quiet time.

use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::NodeClaim;
use karpenter_index::{Change, Key, Pair, TrackedPod};
use serde_json::json;

use crate::context::Context;
use crate::error::{Result, unless_gone};
use crate::reconciler::{Action, Reconciler};

/// Written at most so often for one claim: shorter than the wait before a command is validated, on purpose.
const THROTTLE: Duration = Duration::from_secs(10);

/// Keyed by NodeClaim.
#[derive(Debug, Default)]
pub struct PodEvents;

#[async_trait]
impl Reconciler for PodEvents {
    fn name(&self) -> &'static str {
        "nodeclaim.podevents"
    }

    /// Pods that were there when we started are not news: a restart must not start every quiet time anew.
    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        let Some(pair) = change.pod().filter(|pair| !change.initial && is_event(pair)) else { return Vec::new() };
        let node = pair.new.as_ref().and_then(|pod| pod.pod.node.clone());
        let Some(node) = node.and_then(|name| context.index.node(&name)) else { return Vec::new() };
        match context.index.claims_of_node(&node).as_slice() {
            [one] => vec![Key::of(&one.metadata)],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(claim) = context.index.node_claim(&key.name) else { return Ok(Action::Done) };
        let last = claim.status.as_ref().and_then(|status| status.last_pod_event_time.as_ref());
        let now = context.clock.now();
        let lately = last
            .is_some_and(|last| Duration::try_from(now.duration_since(last.0)).unwrap_or(Duration::ZERO) < THROTTLE);
        if lately || !context.index.is_managed(&claim) {
            return Ok(Action::Done);
        }
        let patch = json!({"status": {"lastPodEventTime": context.clock.wire()}});
        unless_gone(context.merge_status::<NodeClaim>(&key.name, &patch).await)?;
        Ok(Action::Done)
    }
}

/// A pod was bound, became terminal or began to terminate. Daemons come and go with the node.
fn is_event(pair: &Pair<TrackedPod>) -> bool {
    let Some(new) = pair.new.as_ref().filter(|pod| pod.pod.node.is_some() && !pod.pod.is_daemon()) else {
        return false;
    };
    let was = |test: &dyn Fn(&TrackedPod) -> bool| pair.old.as_ref().is_some_and(|old| test(old));
    let bound = !was(&|old| old.pod.node.is_some());
    let ended = new.pod.is_terminal() && !was(&|old| old.pod.is_terminal());
    let ending = new.pod.terminating && !was(&|old| old.pod.terminating);
    bound || ended || ending
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_index::{Interner, reduce};
    use serde_json::Value;

    use super::*;

    fn pod(node: &str, phase: &str, terminating: bool, owner: Value) -> Arc<TrackedPod> {
        let mut object = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "ownerReferences": [owner]},
            "spec": {"containers": []}, "status": {"phase": phase}});
        if !node.is_empty() {
            object["spec"]["nodeName"] = json!(node);
        }
        if terminating {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let object = serde_json::from_value(object).unwrap();
        Arc::new(reduce::tracked_pod(&object, &mut Interner::default()).unwrap())
    }

    #[test]
    fn pods_that_come_end_or_leave_are_events_and_daemons_are_not() {
        // covers: DIS-CONSAFTER-01
        let owner = |kind: &str| {
            let version = if kind == "Node" { "v1" } else { "apps/v1" };
            json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "o"})
        };
        let of = |kind: &str, node: &str, phase: &str, terminating: bool| pod(node, phase, terminating, owner(kind));
        let set = "ReplicaSet";
        for (old, new, want) in [
            (Some(of(set, "", "Pending", false)), Some(of(set, "a", "Pending", false)), true),
            (None, Some(of("Node", "a", "Running", false)), true),
            (Some(of(set, "a", "Pending", false)), Some(of(set, "a", "Running", false)), false),
            (Some(of(set, "a", "Running", false)), Some(of(set, "a", "Succeeded", false)), true),
            (Some(of(set, "a", "Running", false)), Some(of(set, "a", "Running", true)), true),
            (Some(of(set, "a", "Running", true)), Some(of(set, "a", "Running", true)), false),
            (Some(of(set, "a", "Running", true)), None, false),
            (None, Some(of(set, "", "Pending", false)), false),
            (Some(of("DaemonSet", "", "Pending", false)), Some(of("DaemonSet", "a", "Pending", false)), false),
        ] {
            let pair = Pair { old, new };
            assert_eq!(is_event(&pair), want, "{pair:?}");
        }
    }
}
