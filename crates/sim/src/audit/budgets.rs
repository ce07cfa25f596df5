//! Whether a budget forbids an eviction, from the pods themselves.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

/// The label that says which workload a pod is of. Workloads have at most one budget, under the same name.
pub(crate) const APP: &str = "app";

/// The workload of a pod that may not be evicted now, and why; `None` if it may.
pub(super) async fn forbidden(observer: &Client, namespace: &str, name: &str) -> Option<(String, String)> {
    let pod = Api::<Pod>::namespaced(observer.clone(), namespace).get_opt(name).await.ok()??;
    let app = pod.labels().get(APP).filter(|_| is_running(&pod))?;
    let why = short(observer, namespace, app, name).await?;
    Some((app.clone(), why))
}

/// Why a workload cannot do without this pod.
pub(super) async fn short(observer: &Client, namespace: &str, app: &str, without: &str) -> Option<String> {
    let budgets = Api::<PodDisruptionBudget>::namespaced(observer.clone(), namespace);
    let budget = budgets.get_opt(app).await.ok()??;
    let Some(IntOrString::Int(least)) = budget.spec?.min_available else { return None };
    let pods = Api::<Pod>::namespaced(observer.clone(), namespace);
    let fellows = pods.list(&ListParams::default().labels(&format!("{APP}={app}"))).await.ok()?;
    let others = fellows.items.iter().filter(|pod| pod.metadata.name.as_deref() != Some(without));
    let healthy = others.filter(|pod| is_healthy(pod)).count();
    let least = usize::try_from(least).unwrap_or(0);
    (healthy < least).then(|| format!("{healthy} would stay healthy and {app} wants {least}"))
}

/// Before it runs, and after it has, a pod counts for no budget.
fn is_running(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

fn is_healthy(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    is_running(pod) && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
