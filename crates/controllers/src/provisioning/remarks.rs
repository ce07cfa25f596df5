//! What a pass tells the log besides its outcome: what it left out, what it gave up, and what will stand in the way later.

use std::time::Duration;

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
pub(super) fn pods(world: &World, plan: &Plan, relaxed: &[(usize, usize)]) {
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
    let wishing = |wishes: fn(&PodShape) -> bool| -> Vec<usize> {
        placed().copied().filter(|pod| wishes(&world.pods[*pod].shape)).collect()
    };
    let apart = wishing(|shape| !shape.preferred_pod_anti_affinity.is_empty());
    if !apart.is_empty() {
        let pods = named(world, apart, NAMED);
        tracing::info!(pods, "pod(s) have a preferred Anti-Affinity which can prevent consolidation");
    }
    let spread = wishing(|shape| shape.spread.iter().any(|spread| spread.when == WhenUnsatisfiable::ScheduleAnyway));
    if !spread.is_empty() {
        let pods = named(world, spread, NAMED);
        tracing::info!(pods, "pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation");
    }
}
