//! When there is no more time to look for places.

use std::fmt;
use std::sync::Arc;

/// Asked before every attempt to place a pod. Whoever was not tried by then waits for the next pass.
#[derive(Clone, Default)]
pub struct Deadline(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Deadline {
    /// Over as soon as this says so, and from then on.
    pub fn when(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_over)))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|is_over| is_over())
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Deadline" } else { "no deadline" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use karpenter_core::World;
    use karpenter_testkit::fake::incremental;
    use karpenter_testkit::{pod, pool, world};

    use super::*;
    use crate::{Observed, solve_observed};

    /// Over after so many questions.
    fn after(attempts: usize) -> Deadline {
        let asked = AtomicUsize::new(0);
        Deadline::when(move || asked.fetch_add(1, Ordering::Relaxed) >= attempts)
    }

    fn ten_pods() -> World {
        let pods = (0..10).map(|at| pod(&format!("p{at}")).cpu(&format!("{}00m", 9 - at)).build());
        world().pool(pool("default").types(incremental(4))).pods(pods).pod(pod("huge").cpu("900")).build()
    }

    #[test]
    fn whoever_was_not_tried_in_time_is_neither_placed_nor_refused() {
        // covers: SCH-BATCH-18, SCH-LOOP-12, SCH-ERR-11
        let world = ten_pods();
        let placed = |seen: &Observed| seen.plan.new_nodes.iter().map(|node| node.pods.len()).sum::<usize>();
        let whole = solve_observed(&world, &Deadline::default());
        assert_eq!((placed(&whole), whole.plan.left_over.len(), whole.timed_out), (10, 1, false));
        for attempts in [0, 1, 4] {
            let seen = solve_observed(&world, &after(attempts));
            assert!(seen.timed_out);
            // The largest comes first, and is the only one that is told that it has no place.
            let tried = attempts.min(1);
            assert_eq!((placed(&seen), seen.plan.left_over.len()), (attempts - tried, tried), "{attempts}");
        }
        let late = solve_observed(&world, &after(12));
        assert_eq!(placed(&late), 10, "what was packed in time is kept");
    }
}
