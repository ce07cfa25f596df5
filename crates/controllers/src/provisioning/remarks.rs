//! What a pass tells the log besides its outcome: what it left out, what it gave up, and what will stand in the way later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::plan::{LeftOver, Plan, Reason};
use karpenter_core::pod::WhenUnsatisfiable;
use karpenter_core::settings::PreferencePolicy;
use karpenter_core::{PodShape, Resources, World};
use karpenter_index::reduce;
use karpenter_scheduling::WithoutTypes;

use super::outcome::named;
use super::pools::Offer;
use super::why;
use crate::context::Context;
use crate::recorder::{Event, ObjectRef};

const NO_TYPES_WINDOW: Duration = Duration::from_secs(60);
/// So many pods are named in a line about wishes.
const NAMED: usize = 10;
/// A pod's wishes are told once in so long.
const TOLD_FOR: SignedDuration = SignedDuration::from_hours(24);

/// A wish that can hold back consolidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    Apart,
    Spread,
}

/// Whose wishes were told, and when.
#[derive(Debug, Default)]
pub(crate) struct Remarked(Mutex<BTreeMap<(Wish, Arc<str>), Timestamp>>);

impl Remarked {
    /// Those of the pods (by uid) whose wish has not been told lately. From now on it has.
    fn news(&self, wish: Wish, pods: Vec<(usize, Arc<str>)>, now: Timestamp) -> Vec<usize> {
        if pods.is_empty() {
            return Vec::new();
        }
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now.duration_since(*at) < TOLD_FOR);
        let mut is_new = |uid: Arc<str>| match told.entry((wish, uid)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(now);
                true
            }
            std::collections::btree_map::Entry::Occupied(_) => false,
        };
        pods.into_iter().filter_map(|(pod, uid)| is_new(uid).then_some(pod)).collect()
    }
}

/// Pools whose own requirements leave them nothing to launch, and those whose limits leave them less than they had.
pub(super) fn pools(context: &Context, offers: &[Offer], without_types: &[WithoutTypes]) {
    for without in without_types {
        let Some(offer) = offers.get(without.pool) else { continue };
        let pool = &*offer.pool.name;
        let mut message = "NodePool requirements filtered out all compatible available instance types".to_owned();
        if without.min_values {
            message += " due to minValues incompatibility";
        }
        tracing::info!(
            pool,
            min_values = without.min_values,
            "skipping, nodepool requirements filtered out all instance types"
        );
        let event = Event::warning(ObjectRef::node_pool(&offer.object), "NoCompatibleInstanceTypes", message);
        context.recorder.publish(event.within(NO_TYPES_WINDOW));
    }
    if tracing::enabled!(tracing::Level::DEBUG) {
        for offer in offers {
            let usage = context.index.pool_usage(&offer.pool.name);
            let excluded = breaching(offer, &usage);
            if excluded > 0 {
                let (pool, message) =
                    (&*offer.pool.name, "instance types were excluded because they would breach limits");
                tracing::debug!(pool, excluded, "{message}");
            }
        }
    }
}

/// How many types one more node of which would be over a limit of the pool.
fn breaching(offer: &Offer, usage: &Resources) -> usize {
    let Some(limits) = offer.object.spec.limits.as_ref().and_then(|limits| reduce::resource_list(limits).ok()) else {
        return 0;
    };
    let over =
        |capacity: &Resources| limits.iter().any(|(name, limit)| usage.counted(name) + capacity.counted(name) > limit);
    offer.pool.instance_types.iter().filter(|kind| over(&kind.capacity)).count()
}

/// Pods that were passed over, put off, or whose wishes cost something.
pub(super) fn pods(context: &Context, world: &World, plan: &Plan, relaxed: &[(usize, usize)]) {
    let devices = |left: &&LeftOver| left.reason == Reason::DevicesIgnored;
    for left in plan.left_over.iter().chain(&plan.ignored).filter(devices) {
        tracing::info!(
            pod = world.pods[left.pod].key(),
            "skipping pod with Dynamic Resource Allocation requirements, not yet supported by Karpenter"
        );
    }
    for left in plan.ignored.iter().filter(|left| !devices(left)) {
        tracing::debug!(pod = world.pods[left.pod].key(), error = why::reason(world, &left.reason), "ignoring pod");
    }
    let deferred = |left: &&LeftOver| left.reason == Reason::ReservedCapacityDeferred;
    let deferred: Vec<usize> = plan.left_over.iter().filter(deferred).map(|left| left.pod).collect();
    if !deferred.is_empty() {
        tracing::debug!(
            Pods = named(world, deferred, 5),
            "deferring scheduling decision for provisionable pod(s) to future simulation due to limited reserved offering capacity"
        );
    }
    for (pod, given_up) in relaxed {
        tracing::debug!(
            pod = world.pods[*pod].key(),
            given_up,
            "relaxing soft constraints for pod since it previously failed to schedule"
        );
    }
    if world.settings.preferences == PreferencePolicy::Ignore {
        return;
    }
    let placed = || plan.existing.values().flatten().chain(plan.new_nodes.iter().flat_map(|node| &node.pods));
    let wishing = |wish: Wish, wishes: fn(&PodShape) -> bool| -> Vec<usize> {
        let all = placed().map(|pod| (*pod, &world.pods[*pod])).filter(|(_, pod)| wishes(&pod.shape));
        context.remarked.news(wish, all.map(|(at, pod)| (at, pod.uid.clone())).collect(), world.now)
    };
    let apart = wishing(Wish::Apart, |shape| !shape.preferred_pod_anti_affinity.is_empty());
    if !apart.is_empty() {
        let pods = named(world, apart, NAMED);
        tracing::info!(pods, "pod(s) have a preferred Anti-Affinity which can prevent consolidation");
    }
    let anyway = |shape: &PodShape| shape.spread.iter().any(|spread| spread.when == WhenUnsatisfiable::ScheduleAnyway);
    let spread = wishing(Wish::Spread, anyway);
    if !spread.is_empty() {
        let pods = named(world, spread, NAMED);
        tracing::info!(pods, "pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_told_once_a_day_for_each_pod() {
        // covers: SCH-BATCH-24
        let remarked = Remarked::default();
        let at = |hour: i64| Timestamp::from_second(hour * 3600).unwrap();
        let pods = |uids: &[&str]| uids.iter().enumerate().map(|(at, uid)| (at, Arc::from(*uid))).collect();
        assert_eq!(remarked.news(Wish::Apart, pods(&["a", "b"]), at(0)), [0, 1]);
        assert_eq!(remarked.news(Wish::Apart, pods(&["a", "b", "c"]), at(1)), [2], "the others have been told");
        assert_eq!(remarked.news(Wish::Spread, pods(&["a"]), at(1)), [0], "of another wish they have not");
        assert_eq!(remarked.news(Wish::Apart, pods(&["a", "c"]), at(23)), [0_usize; 0]);
        assert_eq!(remarked.news(Wish::Apart, pods(&["a", "c"]), at(24)), [0], "a day later it is told again");
    }
}
