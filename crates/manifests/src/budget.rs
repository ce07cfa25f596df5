//! The status of PodDisruptionBudgets that nobody has computed yet.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_core::Pod;
use karpenter_core::pod::Phase;
use karpenter_core::world::DisruptionBudget;
use karpenter_index::{Fault, reduce};

/// The budget as the solver sees it; running pods count as healthy where the object has no status.
pub(crate) fn disruption_budget(object: &PodDisruptionBudget, pods: &[Pod]) -> Result<DisruptionBudget, Fault> {
    let mut budget = reduce::disruption_budget(object);
    let status = object.status.as_ref();
    let told = status
        .is_some_and(|status| status.observed_generation.unwrap_or(0) != 0 || status.expected_pods.unwrap_or(0) != 0);
    if told {
        return Ok(budget);
    }
    // An absent selector selects nothing, an empty one the whole namespace.
    let selected = |pod: &&Pod| {
        pod.namespace == budget.namespace && budget.selector.as_ref().is_some_and(|s| s.matches(&pod.shape.labels))
    };
    let (mut expected, mut healthy) = (0_i64, 0_i64);
    for pod in pods.iter().filter(selected) {
        expected += 1;
        healthy += i64::from(pod.phase == Phase::Running);
    }
    let spec = object.spec.clone().unwrap_or_default();
    let desired = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => expected - scaled(most, expected).ok_or_else(|| unreadable("spec.maxUnavailable"))?,
        (None, Some(least)) => scaled(least, expected).ok_or_else(|| unreadable("spec.minAvailable"))?,
        (None, None) => 0,
    };
    budget.disruptions_allowed = i32::try_from((healthy - desired.max(0)).max(0)).unwrap_or(i32::MAX);
    Ok(budget)
}

fn unreadable(field: &str) -> Fault {
    let message = "is neither a count nor a percentage".to_owned();
    Fault { field: field.to_owned(), message }
}

/// A count, or a percentage of `total` rounded up.
fn scaled(value: &IntOrString, total: i64) -> Option<i64> {
    match value {
        IntOrString::Int(count) => Some(i64::from(*count)),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            Some((percent * total + 99).div_euclid(100))
        }
    }
}
