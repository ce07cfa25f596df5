//! Soft constraints: enforced as hard ones first, then given up one at a time in a fixed order.

use karpenter_core::PodShape;
use karpenter_core::pod::{Weighted, WhenUnsatisfiable};
use karpenter_core::settings::PreferencePolicy;
use karpenter_core::taints::{Effect, Toleration, TolerationOperator};

/// The shape a pod is first tried in: heaviest preferences first, or none at all where they are ignored.
pub(crate) fn unrelaxed(shape: &PodShape, policy: PreferencePolicy) -> PodShape {
    let mut shape = shape.clone();
    match policy {
        PreferencePolicy::Respect => {
            sort_by_weight(&mut shape.preferred_node_affinity);
            sort_by_weight(&mut shape.preferred_pod_affinity);
            sort_by_weight(&mut shape.preferred_pod_anti_affinity);
        }
        PreferencePolicy::Ignore => {
            shape.preferred_node_affinity.clear();
            shape.preferred_pod_affinity.clear();
            shape.preferred_pod_anti_affinity.clear();
            shape.spread.retain(|spread| spread.when == WhenUnsatisfiable::DoNotSchedule);
        }
    }
    shape
}

/// Stable, so that equal weights keep the order they are listed in.
fn sort_by_weight<T>(terms: &mut [Weighted<T>]) {
    terms.sort_by_key(|term| std::cmp::Reverse(term.weight));
}

/// Gives up one constraint; `false` when nothing is left to give up. `soft_taints`: some pool or node carries a
/// `PreferNoSchedule` taint, so that tolerating them all can help.
pub(crate) fn relax(shape: &mut PodShape, soft_taints: bool) -> bool {
    if shape.required_node_affinity.len() > 1 {
        shape.required_node_affinity.remove(0);
    } else if !shape.preferred_pod_affinity.is_empty() {
        shape.preferred_pod_affinity.remove(0);
    } else if !shape.preferred_pod_anti_affinity.is_empty() {
        shape.preferred_pod_anti_affinity.remove(0);
    } else if !shape.preferred_node_affinity.is_empty() {
        shape.preferred_node_affinity.remove(0);
    } else if let Some(at) = shape.spread.iter().position(|spread| spread.when == WhenUnsatisfiable::ScheduleAnyway) {
        shape.spread.swap_remove(at);
    } else if soft_taints && !tolerates_every_preference(shape) {
        shape.tolerations.push(Toleration::of_every_preference());
    } else {
        return false;
    }
    true
}

fn tolerates_every_preference(shape: &PodShape) -> bool {
    shape.tolerations.iter().any(|toleration| {
        toleration.key.is_empty()
            && toleration.operator == TolerationOperator::Exists
            && toleration.effect.is_none_or(|effect| effect == Effect::PreferNoSchedule)
    })
}

#[cfg(test)]
mod tests;
