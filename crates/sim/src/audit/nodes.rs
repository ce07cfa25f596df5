//! Whether a NodePool can do without another node at the moment it is set apart, from the objects themselves.
//!
//! What was decided was decided a moment before: what others did to nodes within [`LATELY`] does not count against it. What
//! the controllers set apart themselves always does.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_api::labels::DISRUPTED_TAINT;
use karpenter_disruption::Budget;
use karpenter_verify::allowed_disruptions;
use kube::Client;
use serde_json::Value;

use crate::world::send;

/// A request may take half a minute, and is tried again.
const LATELY: Duration = Duration::from_secs(90);
const REASONS: [&str; 3] = ["Empty", "Drifted", "Underutilized"];
const POOL: &str = "karpenter.sh/nodepool";

pub(super) fn is_tainted(node: &Value) -> bool {
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.any(|taint| taint["key"] == DISRUPTED_TAINT && taint["effect"] == "NoSchedule")
}

pub(super) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Why the pool of a node that was just set apart has too few left.
pub(super) async fn over_budget(observer: &Client, node: &Value, now: Timestamp) -> Option<String> {
    let name = node["metadata"]["labels"][POOL].as_str()?;
    let pool = get(observer, &format!("/apis/karpenter.sh/v1/nodepools/{name}")).await?;
    let pool: NodePool = serde_json::from_value(pool).ok()?;
    let (nodes, claims) = (items(observer, "/api/v1/nodes").await?, items(observer, CLAIMS).await?);
    let mine = |object: &&Value| object["metadata"]["labels"][POOL] == name;
    let claims: Vec<&Value> = claims.iter().filter(mine).collect();
    let of = |node: &Value| claims.iter().find(|claim| claim["status"]["providerID"] == node["spec"]["providerID"]);
    let gone = nodes.iter().filter(mine).filter(|node| of(node).is_some_and(|claim| is_gone(node, claim, now))).count();
    let earlier = now.checked_sub(LATELY).ok()?;
    let allowed = |reason: &str, at: Timestamp| allowed_disruptions(&budgets(&pool), claims.len(), reason, at);
    let allowed = REASONS.iter().flat_map(|reason| [allowed(reason, now), allowed(reason, earlier)]).max()?;
    (gone > allowed).then(|| format!("{gone} of {} nodes of pool {name} are gone and {allowed} may be", claims.len()))
}

/// Whether it counts against budgets, and did when something may have been decided.
fn is_gone(node: &Value, claim: &Value, now: Timestamp) -> bool {
    let condition = |object: &Value, kind: &str, status: &str| {
        let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
        all.find(|one| one["type"] == kind && one["status"] == status).map(|one| one["lastTransitionTime"].clone())
    };
    if condition(claim, "InstanceTerminating", "True").is_some() {
        return false;
    }
    let long_ago = |time: &Value| {
        let time = time.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        time.is_some_and(|time| now.duration_since(time).unsigned_abs() > LATELY)
    };
    let ours = condition(claim, "DisruptionReason", "True").is_some();
    let leaving = [node, claim].into_iter().filter(|object| is_deleting(object));
    let left = leaving.map(|object| &object["metadata"]["deletionTimestamp"]).any(long_ago);
    let unready = ["False", "Unknown"].iter().find_map(|status| condition(node, "Ready", status));
    is_tainted(node) && (ours || !is_deleting(node)) || left || unready.is_some_and(|since| long_ago(&since))
}

fn budgets(pool: &NodePool) -> Vec<Budget> {
    let of = |budget: &karpenter_api::nodepool::Budget| Budget {
        reasons: budget.reasons.clone(),
        nodes: budget.nodes.clone(),
        schedule: budget.schedule.clone(),
        duration: budget.duration.as_ref().map(|duration| duration.to_std()),
    };
    pool.spec.disruption.budgets.iter().map(of).collect()
}

async fn get(observer: &Client, path: &str) -> Option<Value> {
    send(observer, "GET", path, "application/json", &Value::Null).await.ok()
}

async fn items(observer: &Client, path: &str) -> Option<Vec<Value>> {
    get(observer, path).await?["items"].as_array_mut().map(std::mem::take)
}

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_did_lately_does_not_count_and_what_we_did_does() {
        let now: Timestamp = "2026-01-05T12:00:00Z".parse().unwrap();
        let (lately, before) = ("2026-01-05T11:59:00Z", "2026-01-05T11:50:00Z");
        let tainted = json!({"taints": [{"key": DISRUPTED_TAINT, "effect": "NoSchedule"}]});
        let ready = |status: &str, since: &str| json!({"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]});
        let claim = |kind: &str| json!({"metadata": {}, "status": {"conditions": [{"type": kind, "status": "True"}]}});
        let plain = || claim("Launched");
        for (node, claim, want) in [
            (json!({"metadata": {}, "status": ready("True", before)}), plain(), false),
            (json!({"metadata": {}, "spec": tainted}), plain(), true),
            (json!({"metadata": {}, "spec": tainted}), claim("InstanceTerminating"), false),
            // Somebody deleted it a moment ago, and its drain has begun.
            (json!({"metadata": {"deletionTimestamp": lately}, "spec": tainted}), plain(), false),
            (json!({"metadata": {"deletionTimestamp": lately}, "spec": tainted}), claim("DisruptionReason"), true),
            (json!({"metadata": {"deletionTimestamp": before}, "spec": tainted}), plain(), true),
            (json!({"metadata": {}, "status": ready("Unknown", lately)}), plain(), false),
            (json!({"metadata": {}, "status": ready("False", before)}), plain(), true),
        ] {
            assert_eq!(is_gone(&node, &claim, now), want, "{node} {claim}");
        }
    }
}
