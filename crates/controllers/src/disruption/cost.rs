//! What evicting a pod costs, compared with others.

use karpenter_index::TrackedPod;

/// One, more for pods that should be deleted last or matter most, at most ten in either direction.
pub fn eviction_cost(pod: &TrackedPod) -> f64 {
    let mut cost = 1.0;
    if let Some(text) = &pod.deletion_cost {
        match text.parse::<f64>() {
            // All of an i32 makes 16.
            Ok(deletion) if !deletion.is_nan() => cost += deletion / f64::from(1 << 27),
            _ => tracing::error!(pod = %pod.pod.key(), cost = %text, "parsing pod-deletion-cost failed"),
        }
    }
    // Priorities go from -2147483648 to 1000000000.
    cost += f64::from(pod.pod.shape.priority) / f64::from(1 << 25);
    cost.clamp(-10.0, 10.0)
}
