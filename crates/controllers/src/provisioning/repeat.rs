//! The same question again: a node that cannot be drained asks every ten seconds where its pods would go, for hours.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use karpenter_core::{Pool, World};
use karpenter_scheduling::{Deadline, Observed};
use tokio::time::Instant;

use crate::context::Context;

/// For so long places are looked for. In a simulation no time passes while one looks.
const MOST_TIME: Duration = Duration::from_mins(1);

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
        let began = Instant::now();
        let deadline = Deadline::when(move || began.elapsed() > MOST_TIME);
        let answer = karpenter_scheduling::solve_observed(world, &deadline);
        if answer.timed_out {
            tracing::error!("scheduling took too long, pods that were not looked at wait for the next pass");
        }
        if let Some(observe) = context.plan_observer.get() {
            observe(world, &answer.plan);
        }
        // Room for pods that do not exist is no part of what the index counts.
        let repeatable = !context.settings.capacity_buffers && !depends_on_time(world) && !answer.timed_out;
        *last = repeatable.then(|| Last { revision, pools: world.pools.clone(), answer: answer.clone() });
        answer
    }
}

/// Some pod is protected for a while.
fn depends_on_time(world: &World) -> bool {
    let lasting = |text: &str| text != "true";
    world.pods.iter().any(|pod| pod.shape.do_not_disrupt.as_deref().is_some_and(lasting))
}
