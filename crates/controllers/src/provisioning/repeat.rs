//! The same question again: a node that cannot be drained asks every ten seconds where its pods would go, for hours.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::do_not_disrupt::DoNotDisrupt;
use karpenter_core::{Pool, World};
use karpenter_scheduling::{Deadline, Observed};
use tokio::time::Instant;

use crate::compute::compute;
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
    /// From then on time alone may have changed it.
    until: Option<Timestamp>,
}

impl Repeat {
    /// A plan for the newest snapshot: the last one where nothing has changed since.
    pub(super) async fn or_solve(&self, context: &Context, world: &Arc<World>) -> Observed {
        // What the world was made from: nothing else has happened since.
        let revision = context.index.revision();
        let known = self.last().as_ref().filter(|last| last.is_for(revision, world)).cloned();
        if let Some(last) = known {
            return last.answer;
        }
        let began = Instant::now();
        let deadline = Deadline::when(move || began.elapsed() > MOST_TIME);
        let solved = world.clone();
        let answer = compute(context, move || karpenter_scheduling::solve_observed(&solved, &deadline)).await;
        if answer.timed_out {
            tracing::error!("scheduling took too long, pods that were not looked at wait for the next pass");
        }
        if let Some(observe) = context.plan_observer.get() {
            observe(world, &answer.plan);
        }
        // Room for pods that do not exist is no part of what the index counts.
        let repeatable = !context.settings.capacity_buffers && !answer.timed_out;
        let (pools, until) = (world.pools.clone(), holds_until(world));
        *self.last() = repeatable.then(|| Last { revision, pools, answer: answer.clone(), until });
        answer
    }

    fn last(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Last {
    fn is_for(&self, revision: u64, world: &World) -> bool {
        let lasts = self.until.is_none_or(|until| world.now < until);
        lasts && self.revision == revision && self.pools == world.pools
    }
}

/// When the first of the pods that are protected for a while, from their start, is not protected any more. One that has not
/// started is news when it does.
fn holds_until(world: &World) -> Option<Timestamp> {
    let ends = world.pods.iter().filter_map(|pod| {
        let DoNotDisrupt::For(length) = DoNotDisrupt::parse(pod.shape.do_not_disrupt.as_deref()?) else { return None };
        pod.started?.checked_add(length).ok().filter(|end| *end > world.now)
    });
    ends.min()
}

#[cfg(test)]
mod tests {
    use karpenter_testkit::{pod, world};

    use super::*;

    #[test]
    fn an_answer_holds_until_the_first_protection_ends() {
        let at = |minute: i64| Timestamp::from_second(60 * minute).unwrap();
        for (now, pods, want) in [
            (100, vec![], None),
            (100, vec![("true", Some(90)), ("nonsense", Some(90)), ("1h", None)], None),
            (100, vec![("1h", Some(90)), ("20m", Some(95)), ("5m", Some(90))], Some(115)),
            (115, vec![("1h", Some(90)), ("20m", Some(95))], Some(150)),
            (150, vec![("1h", Some(90))], None),
        ] {
            let mut world = pods.iter().fold(world(), |world, (value, _)| world.pod(pod(value))).build();
            world.now = at(now);
            for (pod, (value, started)) in world.pods.iter_mut().zip(&pods) {
                Arc::make_mut(&mut pod.shape).do_not_disrupt = Some((*value).into());
                pod.started = started.map(at);
            }
            let until = holds_until(&world);
            assert_eq!(until, want.map(at), "{pods:?} at {now}");
            let (answer, pools) = (Observed::default(), world.pools.clone());
            let last = Last { revision: 7, pools, answer, until };
            assert!(last.is_for(7, &world) && !last.is_for(8, &world));
            world.now = want.map_or(Timestamp::MAX, at);
            assert_eq!(last.is_for(7, &world), want.is_none(), "{pods:?} at its end");
        }
    }
}
