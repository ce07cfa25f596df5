//! The same question again: a node that cannot be drained asks every ten seconds where its pods would go, for hours.

use std::sync::{Mutex, PoisonError};

use karpenter_core::{Pool, World};
use karpenter_scheduling::Observed;

use crate::context::Context;

/// The last plan, and what it was made for.
#[derive(Debug, Default)]
pub(super) struct Repeat(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    revision: u64,
    pools: Vec<Pool>,
    answer: Observed,
}

impl Repeat {
    /// A plan for the newest snapshot: the last one where nothing has changed since.
    pub(super) fn or_solve(&self, context: &Context, world: &World) -> Observed {
        let revision = context.index.revision();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.revision == revision && last.pools == world.pools) {
            return last.answer.clone();
        }
        let answer = karpenter_scheduling::solve_observed(world);
        if let Some(observe) = context.plan_observer.get() {
            observe(world, &answer.plan);
        }
        // Room for pods that do not exist is no part of what the index counts.
        let repeatable = !context.settings.capacity_buffers && !depends_on_time(world);
        *last = repeatable.then(|| Last { revision, pools: world.pools.clone(), answer: answer.clone() });
        answer
    }
}

/// Some pod is protected for a while.
fn depends_on_time(world: &World) -> bool {
    let lasting = |text: &str| text != "true";
    world.pods.iter().any(|pod| pod.shape.do_not_disrupt.as_deref().is_some_and(lasting))
}
