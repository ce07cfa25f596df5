//! Setting nodes apart before they go, and taking that back.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join};
use k8s_openapi::api::core::v1::{Node, Taint};
use karpenter_api::NodeClaim;
use karpenter_api::conditions;
use karpenter_api::labels::DISRUPTED_TAINT;
use serde_json::json;

use super::claim_conditions::version;
use crate::context::Context;
use crate::error::{Result, unless_gone};
use crate::write::{Written, locked};

/// A write that loses a race is tried again so often, each time after five times as long.
const ATTEMPTS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// No new pods, and a word why. An object that is gone is fine.
pub(super) async fn set_apart(context: &Context, node: &str, claim: &str, reason: &'static str) -> Result<()> {
    let (tainted, reasoned) = join(
        persist(&|from| Box::pin(taint(context, node, true, from))),
        persist(&|from| Box::pin(give_reason(context, claim, Some(reason), from))),
    )
    .await;
    tainted.and(reasoned)
}

/// As if nothing had been.
pub(super) async fn restore(context: &Context, node: &str, claim: &str) -> Result<()> {
    let (untainted, cleared) = join(
        persist(&|from| Box::pin(taint(context, node, false, from))),
        persist(&|from| Box::pin(give_reason(context, claim, None, from))),
    )
    .await;
    untainted.and(cleared)
}

/// Where an object is looked up before it is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// What the watch has told, which is nearly always what the server has.
    Index,
    Server,
}

/// Each attempt but the first reads the object anew.
async fn persist<'a>(attempt: &(dyn Fn(From) -> BoxFuture<'a, Result<()>> + Send + Sync)) -> Result<()> {
    let (mut wait, mut from) = (FIRST_WAIT, From::Index);
    for _ in 1..ATTEMPTS {
        match attempt(from).await {
            Ok(()) => return Ok(()),
            Err(error) => tracing::debug!(%error, "trying again"),
        }
        tokio::time::sleep(wait).await;
        (wait, from) = (wait * 5, From::Server);
    }
    attempt(from).await
}

async fn or_read<T: Written>(context: &Context, name: &str, known: Option<Arc<T>>) -> Result<Option<Arc<T>>> {
    match known {
        Some(known) => Ok(Some(known)),
        None => Ok(context.read::<T>(name).await?.map(Arc::new)),
    }
}

async fn taint(context: &Context, name: &str, wanted: bool, from: From) -> Result<()> {
    let known = context.index.node(name).filter(|_| from == From::Index);
    let Some(node) = or_read(context, name, known).await? else { return Ok(()) };
    let Some(taints) = new_taints(&node, wanted) else { return Ok(()) };
    let patch = locked(json!({"spec": {"taints": taints}}), node.metadata.resource_version.as_deref());
    unless_gone(context.merge::<Node>(name, &patch).await).map(|_| ())
}

async fn give_reason(context: &Context, name: &str, reason: Option<&str>, from: From) -> Result<()> {
    let known = context.index.node_claim(name).filter(|_| from == From::Index);
    let Some(claim) = or_read(context, name, known).await? else { return Ok(()) };
    let mut changed = NodeClaim::clone(&claim);
    let mut conditions = changed.conditions_at(context.clock.now());
    let differs = match reason {
        Some(reason) => conditions.set_true_because(conditions::DISRUPTION_REASON, reason, reason),
        None => conditions.clear(conditions::DISRUPTION_REASON),
    };
    if !differs {
        return Ok(());
    }
    let list = changed.status.as_ref().and_then(|status| status.conditions.as_ref());
    let patch = locked(json!({"status": {"conditions": list}}), version(&claim));
    unless_gone(context.merge_status::<NodeClaim>(name, &patch).await).map(|_| ())
}

pub(super) fn is_tainted(node: &Node) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(is_ours)
}

fn is_ours(taint: &Taint) -> bool {
    taint.key == DISRUPTED_TAINT && taint.effect == "NoSchedule"
}

/// The node's taints as they should be, if that is not how they are. One that is deleting keeps its taint.
fn new_taints(node: &Node, wanted: bool) -> Option<Vec<Taint>> {
    let deleting = node.metadata.deletion_timestamp.is_some();
    if is_tainted(node) == wanted || deleting && is_tainted(node) {
        return None;
    }
    let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    if wanted {
        taints.push(Taint { key: DISRUPTED_TAINT.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() });
    } else {
        taints.retain(|taint| !is_ours(taint));
    }
    Some(taints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_taints_stay_and_a_deleting_node_keeps_ours() {
        // covers: DIS-QUEUE-07
        let node = |taints: &[&str], deleting: bool| -> Node {
            let taints: Vec<_> = taints.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
            let mut node: Node = serde_json::from_value(json!({"metadata": {}, "spec": {"taints": taints}})).unwrap();
            node.metadata.deletion_timestamp = deleting.then(|| crate::clock::wire(jiff::Timestamp::UNIX_EPOCH));
            node
        };
        let keys = |node: &Node, wanted| -> Option<Vec<String>> {
            new_taints(node, wanted).map(|taints| taints.into_iter().map(|taint| taint.key).collect())
        };
        assert_eq!(keys(&node(&["a"], false), true), Some(vec!["a".into(), DISRUPTED_TAINT.into()]));
        assert_eq!(keys(&node(&["a", DISRUPTED_TAINT], false), true), None);
        assert_eq!(keys(&node(&["a", DISRUPTED_TAINT], false), false), Some(vec!["a".into()]));
        assert_eq!(keys(&node(&["a"], false), false), None);
        assert_eq!(keys(&node(&[DISRUPTED_TAINT], true), false), None);
    }
}
