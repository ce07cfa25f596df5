//! The same question again: a node that cannot be drained asks every ten seconds where its pods would go, for hours.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use karpenter_core::{Pool, World};
use karpenter_scheduling::{Deadline, Observed};
use tokio::time::Instant;

use crate::compute::off_thread;
use crate::context::Context;

/// For so long places are looked for. In a simulation no time passes while one looks.
const MOST_TIME: Duration = Duration::from_mins(1);

/// The last plan, and what it was made for.
#[derive(Debug, Default)]
pub(super) struct Repeat(Mutex<Option<Last>>);

#[derive(Clone, Debug)]
struct Last {
    revision: u64,
    pools: Vec<Pool>,
    answer: Observed,
}

impl Repeat {
    /// A plan for the newest snapshot: the last one where nothing has changed since.
    pub(super) async fn or_solve(&self, context: &Context, world: &Arc<World>) -> Observed {
        // What the world was made from: nothing else has happened since.
        let revision = context.index.revision();
        let known = self.last().as_ref().filter(|last| last.revision == revision && last.pools == world.pools).cloned();
        if let Some(last) = known {
            return last.answer;
        }
        let began = Instant::now();
        let deadline = Deadline::when(move || began.elapsed() > MOST_TIME);
        let solved = world.clone();
        let answer = off_thread(move || karpenter_scheduling::solve_observed(&solved, &deadline)).await;
        if answer.timed_out {
            tracing::error!("scheduling took too long, pods that were not looked at wait for the next pass");
        }
        if let Some(observe) = context.plan_observer.get() {
            observe(world, &answer.plan);
        }
        // Room for pods that do not exist is no part of what the index counts.
        let repeatable = !context.settings.capacity_buffers && !depends_on_time(world) && !answer.timed_out;
        *self.last() = repeatable.then(|| Last { revision, pools: world.pools.clone(), answer: answer.clone() });
        answer
    }

    fn last(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some pod is protected for a while.
fn depends_on_time(world: &World) -> bool {
    let lasting = |text: &str| text != "true";
    world.pods.iter().any(|pod| pod.shape.do_not_disrupt.as_deref().is_some_and(lasting))
}
