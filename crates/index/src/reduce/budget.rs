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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_never_allows_anything_is_known_by_its_spec() {
        // covers: LC-POD-18
        for (spec, never) in [
            (serde_json::json!({"maxUnavailable": 0}), true),
            (serde_json::json!({"maxUnavailable": "0%"}), true),
            (serde_json::json!({"minAvailable": "100%"}), true),
            (serde_json::json!({"maxUnavailable": 1}), false),
            (serde_json::json!({"maxUnavailable": "1%"}), false),
            (serde_json::json!({"minAvailable": 3}), false),
            (serde_json::json!({"minAvailable": "99%"}), false),
            (serde_json::json!({"minAvailable": 0}), false),
        ] {
            // Three pods, of which none may go just now.
            let status = serde_json::json!({"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3,
                "expectedPods": 3});
            let object =
                serde_json::json!({"metadata": {"name": "b", "namespace": "n"}, "spec": spec, "status": status});
            let budget = disruption_budget(&serde_json::from_value(object).unwrap());
            assert_eq!((budget.never_allows, budget.disruptions_allowed), (never, 0), "{spec}");
        }
    }
}
