//! Whether budgets forbid an eviction, from the pods themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_api::labels::TERMINATION_TIMESTAMP;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::time::Instant;

use crate::world::send;

/// The label that says which workload a pod is of.
pub(crate) const APP: &str = "app";
/// A budget's controller learns of a workload's new scale a moment after its user has asked for it.
const LEARNS: Duration = Duration::from_secs(10);

type Labels = BTreeMap<String, String>;

/// How many replicas users want of each workload, and wanted before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scales(BTreeMap<String, Scale>);

#[derive(Clone, Copy, Debug)]
struct Scale {
    since: Instant,
    before: u64,
    now: u64,
}

impl Scales {
    pub(crate) fn set(&mut self, app: &str, replicas: u64) {
        let before = self.0.get(app).map_or(replicas, |scale| scale.now);
        self.0.insert(app.to_owned(), Scale { since: Instant::now(), before, now: replicas });
    }

    /// Whether pods of it are being taken away because users want fewer: budgets have no say in that.
    fn shrinks(&self, app: &str) -> bool {
        self.0.get(app).is_some_and(|scale| scale.now < scale.before && scale.since.elapsed() < LEARNS)
    }

    /// As few as a budget's controller may believe in.
    fn least(&self, app: &str) -> u64 {
        let of = |scale: &Scale| {
            let learns = scale.since.elapsed() < LEARNS;
            if learns { scale.now.min(scale.before) } else { scale.now }
        };
        self.0.get(app).map_or(0, of)
    }
}

/// The labels of a pod that may not be evicted now, and why; `None` if it may.
pub(super) async fn forbidden(
    observer: &Client,
    scales: &Scales,
    namespace: &str,
    name: &str,
) -> Option<(Labels, String)> {
    let pod = Api::<Pod>::namespaced(observer.clone(), namespace).get_opt(name).await.ok()??;
    // Between this look and the eviction its ReplicaSet may have deleted it.
    if !is_running(&pod) || pod.labels().get(APP).is_some_and(|app| scales.shrinks(app)) {
        return None;
    }
    let budgets = budgets_of(observer, namespace, pod.labels()).await;
    // A pod that is broken serves nobody.
    let always = |budget: &PodDisruptionBudget| {
        budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref()) == Some("AlwaysAllow")
    };
    if let [one] = budgets.as_slice()
        && always(one)
        && !is_healthy(&pod)
    {
        return None;
    }
    // Pods fall ill before the budget's controller learns of it, and until then Kubernetes itself goes by the status.
    if let [one] = budgets.as_slice()
        && one.status.as_ref().is_some_and(|status| status.disruptions_allowed.unwrap_or(0) > 0)
    {
        return None;
    }
    let labels = pod.labels().clone();
    let why = short(observer, scales, namespace, &labels, name).await?;
    Some((labels, why))
}

/// Why pods with these labels cannot do without this one.
pub(super) async fn short(
    observer: &Client,
    scales: &Scales,
    namespace: &str,
    labels: &Labels,
    without: &str,
) -> Option<String> {
    let budgets = budgets_of(observer, namespace, labels).await;
    let budget = match budgets.as_slice() {
        [] => return None,
        [one] => one,
        // Kubernetes evicts no pod that several budgets are for.
        many => return Some(format!("{} budgets are for it", many.len())),
    };
    let selected = selector(budget)?;
    let query = selected.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    let pods = Api::<Pod>::namespaced(observer.clone(), namespace);
    let fellows = pods.list(&ListParams::default().labels(&query)).await.ok()?.items;
    let apps: BTreeSet<&str> = fellows.iter().filter_map(|pod| pod.labels().get(APP).map(String::as_str)).collect();
    let expected = apps.into_iter().map(|app| scales.least(app)).sum();
    let desired = desired(budget, expected)?;
    let others = fellows.iter().filter(|pod| pod.metadata.name.as_deref() != Some(without));
    let healthy = others.filter(|pod| is_healthy(pod)).count() as u64;
    let name = budget.name_any();
    (healthy < desired).then(|| format!("{healthy} would stay healthy and {name} wants {desired} of {expected}"))
}

/// How many of so many pods must be healthy.
fn desired(budget: &PodDisruptionBudget, expected: u64) -> Option<u64> {
    let spec = budget.spec.as_ref()?;
    let of = |amount: &IntOrString| match amount {
        IntOrString::Int(count) => u64::try_from(*count).ok(),
        IntOrString::String(text) => {
            let percent: u64 = text.strip_suffix('%')?.parse().ok()?;
            Some((expected * percent).div_ceil(100))
        }
    };
    match (&spec.min_available, &spec.max_unavailable) {
        (Some(least), _) => of(least),
        (None, Some(most)) => Some(expected.saturating_sub(of(most)?)),
        (None, None) => None,
    }
}

fn selector(budget: &PodDisruptionBudget) -> Option<&Labels> {
    budget.spec.as_ref()?.selector.as_ref()?.match_labels.as_ref()
}

async fn budgets_of(observer: &Client, namespace: &str, labels: &Labels) -> Vec<PodDisruptionBudget> {
    let all = Api::<PodDisruptionBudget>::namespaced(observer.clone(), namespace);
    let all = all.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let selects = |budget: &PodDisruptionBudget| {
        selector(budget).is_some_and(|selected| selected.iter().all(|(key, value)| labels.get(key) == Some(value)))
    };
    all.into_iter().filter(selects).collect()
}

/// Whether the pod's node has a deadline that leaves the pod no more than its grace period: then it is deleted.
pub(super) async fn is_due(observer: &Client, namespace: &str, name: &str, now: Timestamp) -> bool {
    let deadline = async {
        let pod = Api::<Pod>::namespaced(observer.clone(), namespace).get_opt(name).await.ok()??;
        let spec = pod.spec.as_ref()?;
        let claim = claim_of(observer, spec.node_name.as_deref()?).await?;
        let text = claim["metadata"]["annotations"][TERMINATION_TIMESTAMP].as_str()?.to_owned();
        let grace = Duration::from_secs(spec.termination_grace_period_seconds.unwrap_or(0).max(0).unsigned_abs());
        text.parse::<Timestamp>().ok()?.checked_sub(grace).ok()
    };
    deadline.await.is_some_and(|deadline| now >= deadline)
}

async fn claim_of(observer: &Client, node: &str) -> Option<Value> {
    let mut claims = send(observer, "GET", CLAIMS, "application/json", &Value::Null).await.ok()?;
    let claims = claims["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    claims.into_iter().find(|claim| claim["status"]["nodeName"] == node)
}

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// Before it runs, and after it has, a pod counts for no budget.
fn is_running(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

fn is_healthy(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    is_running(pod) && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_budget_wants_is_counted_as_kubernetes_counts() {
        for (spec, expected, want) in [
            (json!({"minAvailable": 2}), 8, Some(2)),
            (json!({"minAvailable": "50%"}), 7, Some(4)),
            (json!({"maxUnavailable": 1}), 7, Some(6)),
            (json!({"maxUnavailable": "25%"}), 7, Some(5)),
            (json!({"maxUnavailable": 0}), 7, Some(7)),
            (json!({"maxUnavailable": 9}), 7, Some(0)),
            (json!({}), 7, None),
        ] {
            let budget = serde_json::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
            assert_eq!(desired(&budget, expected), want, "{spec}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_scale_counts_once_it_can_be_known() {
        let mut scales = Scales::default();
        scales.set("web", 4);
        scales.set("web", 8);
        assert_eq!(scales.least("web"), 4);
        tokio::time::advance(LEARNS).await;
        assert_eq!(scales.least("web"), 8);
        assert!(!scales.shrinks("web"));
        scales.set("web", 2);
        assert_eq!((scales.least("web"), scales.least("other")), (2, 0));
        assert!(scales.shrinks("web") && !scales.shrinks("other"));
    }
}
