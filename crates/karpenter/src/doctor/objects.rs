//! The cluster in KUBECONFIG: what its node classes and pools say of themselves.

use karpenter_api::{EC2NodeClass, NodePool};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::Value;

use super::{Finding, Verdict};

pub(super) async fn examine() -> Vec<Finding> {
    let client = match Client::try_default().await {
        Ok(client) => client,
        Err(error) => {
            let advice = "set KUBECONFIG, or look at the account alone with --account-only";
            return vec![Finding::bad("Kubernetes", Verdict::Lacking, error.to_string(), advice)];
        }
    };
    let mut findings = Vec::new();
    match Api::<EC2NodeClass>::all(client.clone()).list(&kube::api::ListParams::default()).await {
        Ok(list) => findings.extend(judge("EC2NodeClass", &list.items)),
        Err(error) => findings.push(unreadable("EC2NodeClass", &error)),
    }
    match Api::<NodePool>::all(client).list(&kube::api::ListParams::default()).await {
        Ok(list) => findings.extend(judge("NodePool", &list.items)),
        Err(error) => findings.push(unreadable("NodePool", &error)),
    }
    findings
}

fn unreadable(kind: &str, error: &kube::Error) -> Finding {
    let advice = "are the CustomResourceDefinitions there? karpenter crds | kubectl apply --server-side -f -";
    Finding::bad(kind, Verdict::Broken, error.to_string(), advice)
}

/// One finding for each object: its first condition that does not hold, other than Ready, which only sums them up.
fn judge<K: Serialize>(kind: &str, all: &[K]) -> Vec<Finding> {
    if all.is_empty() {
        return vec![Finding::bad(kind, Verdict::Lacking, "there is none", "without one no node is launched")];
    }
    all.iter().filter_map(|object| serde_json::to_value(object).ok()).map(|object| judge_one(kind, &object)).collect()
}

pub(super) fn judge_one(kind: &str, object: &Value) -> Finding {
    let subject = format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or_default());
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let of = |wanted: &str| conditions.iter().find(|condition| condition["type"] == wanted);
    let Some(ready) = of("Ready") else {
        let advice = "the controller has not looked at it: does it run, and is it the leader?";
        return Finding::bad(subject, Verdict::Broken, "it has no conditions", advice);
    };
    if ready["status"] == "True" {
        return Finding::good(subject, "ready");
    }
    let failing = conditions.iter().filter(|condition| condition["type"] != "Ready" && condition["status"] == "False");
    let cause = failing.clone().next().unwrap_or(ready);
    let text = |field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    let kind = text("type");
    let seen = format!("{kind} is {}: {} {}", text("status"), text("reason"), text("message"));
    Finding::bad(subject, Verdict::Broken, seen.trim_end(), remedy(&kind))
}

/// By condition: where to look.
fn remedy(condition: &str) -> &'static str {
    match condition {
        "SubnetsReady" => "no subnet matches spec.subnetSelectorTerms: check tags and ids against the region",
        "SecurityGroupsReady" => "no group matches spec.securityGroupSelectorTerms: check tags, names and ids",
        "AMIsReady" => "no image matches spec.amiSelectorTerms: check alias, owner, tags and architecture",
        "InstanceProfileReady" => "check that spec.role exists, and that the controller may pass it",
        "CapacityReservationsReady" => "check spec.capacityReservationSelectorTerms, and the permission to search",
        "PlacementGroupReady" => "check spec.placementGroupSelectorTerms, and the permission to search",
        "ValidationSucceeded" => "EC2 would refuse a launch: the message names what it refused",
        "NodeClassReady" => "its node class is not ready, or there is none of that name",
        "NodeRegistrationHealthy" => {
            "nodes are launched and do not join: see their console output and the access entry"
        }
        _ => "the message says what is wrong with it",
    }
}
