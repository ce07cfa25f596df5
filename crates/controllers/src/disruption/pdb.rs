//! Whether PodDisruptionBudgets let a pod go right now.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::Pod;
use karpenter_core::world::DisruptionBudget;

use crate::pods::PodFacts;

/// The budgets that hold a pod: all of them when there are several, for the API refuses that, or the one that allows no
/// disruption. Each pod is judged alone, and one that would not be evicted is never held.
pub fn blocking(facts: &PodFacts, pod: &Pod, budgets: &[Arc<DisruptionBudget>], now: Timestamp) -> Option<Vec<String>> {
    if !facts.is_evictable(now) {
        return None;
    }
    let concerns = |budget: &&Arc<DisruptionBudget>| {
        budget.namespace == pod.namespace
            && budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.shape.labels))
    };
    let matching: Vec<_> = budgets.iter().filter(concerns).collect();
    let holds = match matching.as_slice() {
        [] => false,
        [one] => one.disruptions_allowed <= 0 && !(one.always_allows_unready && pod.unready),
        _ => true,
    };
    holds.then(|| matching.iter().map(|budget| format!("{}/{}", budget.namespace, budget.name)).collect())
}
