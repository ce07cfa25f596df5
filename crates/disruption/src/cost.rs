//! What evicting a pod costs, compared with others.

use karpenter_core::Pod;

/// What draining any node costs, whatever runs on it.
pub const BASE: f64 = 1.0;

/// One, more for pods that should be deleted last or matter most, at most ten in either direction. A deletion cost that
/// is no number counts for nothing.
pub fn eviction(pod: &Pod) -> f64 {
    let deletion = pod.deletion_cost.as_deref().and_then(|text| text.parse::<f64>().ok());
    // All of an i32 makes 16.
    let deletion = deletion.filter(|cost| !cost.is_nan()).unwrap_or(0.0) / f64::from(1 << 27);
    // Priorities go from -2147483648 to 1000000000.
    let priority = f64::from(pod.shape.priority) / f64::from(1 << 25);
    (1.0 + deletion + priority).clamp(-10.0, 10.0)
}

/// [`BASE`] and what moving these pods costs. A pod that is glad to go makes nothing cheaper.
pub fn rescheduling<'p>(pods: impl Iterator<Item = &'p Pod>) -> f64 {
    pods.fold(BASE, |sum, pod| sum + eviction(pod).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_testkit::pod;

    #[test]
    fn evictions_cost_more_with_deletion_cost_and_priority_within_bounds() {
        // covers: LC-POD-14
        for (cost, priority, want) in [
            (None, 0, 1.0),
            (Some("134217728"), 0, 2.0),
            (Some("-134217728"), 0, 0.0),
            (Some("-2147483648"), 0, -10.0),
            (Some("much"), 0, 1.0),
            (None, 1 << 25, 2.0),
            (None, 2_000_000_000, 10.0),
        ] {
            let mut builder = pod("a");
            builder.shape.priority = priority;
            let builder = if let Some(cost) = cost { builder.deletion_cost(cost) } else { builder };
            assert_eq!(eviction(&builder.build()), want, "{cost:?} {priority}");
        }
        let glad = pod("b").deletion_cost("-2147483648").build();
        assert_eq!(rescheduling([&glad, &pod("c").build()].into_iter()), 2.0);
    }
}
