//! PodDisruptionBudgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_core::world::DisruptionBudget;

use super::{selector, text};

pub fn disruption_budget(object: &PodDisruptionBudget) -> DisruptionBudget {
    let spec = object.spec.clone().unwrap_or_default();
    let none = |value: &IntOrString| match value {
        IntOrString::Int(count) => *count == 0,
        IntOrString::String(text) => text == "0%",
    };
    let all = |value: &IntOrString| matches!(value, IntOrString::String(text) if text == "100%");
    DisruptionBudget {
        namespace: text(object.metadata.namespace.as_deref()),
        name: text(object.metadata.name.as_deref()),
        selector: spec.selector.as_ref().map(selector),
        never_allows: spec.max_unavailable.as_ref().is_some_and(none) || spec.min_available.as_ref().is_some_and(all),
        disruptions_allowed: object.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0),
        always_allows_unready: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
    }
}
