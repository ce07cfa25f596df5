//! What a plan says to people: an event for every pod that was given a place, and for every one that was not.

use std::time::Duration;

use karpenter_api::conditions::{NODE_REGISTRATION_HEALTHY, Status};
use karpenter_core::World;
use karpenter_core::plan::{LeftOver, Plan, Reason};

use super::pools::{self, Unready};
use super::why;
use crate::context::Context;
use crate::decision::Decision;
use crate::metrics::Place;
use crate::recorder::{Event, Limit, ObjectRef};

const FAILED_WINDOW: Duration = Duration::from_secs(300);
/// So many pods are named in a line.
const NAMED: usize = 5;
/// Thousands of pods may be placed at once, and people read a few.
const NOMINATED_LIMIT: Limit = Limit { per_second: 5, burst: 10 };

/// Tells of everything but the new nodes, which have no name yet.
pub(super) fn tell(context: &Context, world: &World, plan: &Plan) {
    let unready = pools::unready(context);
    for left in plan.left_over.iter().chain(&plan.ignored) {
        tell_left_over(context, world, left, &unready);
    }
    for (node, pods) in &plan.existing {
        let node = &world.nodes[*node];
        let name = node.has_node.then_some(&*node.name);
        tell_nominated(context, world, pods, node.claim.as_deref(), name);
    }
    let used = plan.existing.iter().filter(|(_, pods)| !pods.is_empty());
    let unready: Vec<_> = used.filter(|(node, _)| !world.nodes[**node].is_initialized()).collect();
    if !unready.is_empty() {
        let pods: usize = unready.iter().map(|(_, pods)| pods.len()).sum();
        tracing::info!(nodes = unready.len(), pods, "computed unready node(s) will fit pod(s)");
    }
    if !plan.new_nodes.is_empty() {
        let pods: usize = plan.new_nodes.iter().map(|node| node.pods.len()).sum();
        tracing::info!(nodeclaims = plan.new_nodes.len(), pods, "computed new nodeclaim(s) to fit pod(s)");
    }
}

/// What is about to be planned.
pub(super) fn found(world: &World, plan: &Plan, took: Duration) {
    let placed = plan.existing.values().flatten().chain(plan.new_nodes.iter().flat_map(|node| &node.pods));
    let pods: Vec<usize> = placed.copied().chain(plan.left_over.iter().map(|left| left.pod)).collect();
    if pods.is_empty() {
        return;
    }
    tracing::info!(Pods = named(world, pods, NAMED), duration = ?took, "found provisionable pod(s)");
}

/// The first few pods by name, the others by their number.
pub(super) fn named(world: &World, pods: impl IntoIterator<Item = usize>, most: usize) -> String {
    let mut names: Vec<String> = pods.into_iter().map(|pod| world.pods[pod].key()).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    let more = if more > 0 { format!(" and {more} other(s)") } else { String::new() };
    names.join(", ") + &more
}

/// Remembers when each pod was decided on.
pub(super) fn count(context: &Context, world: &World, plan: &Plan) {
    let now = context.clock.now();
    let healthy = |pool: Option<&str>| {
        let pool = pool.and_then(|name| context.index.node_pool(name));
        pool.is_some_and(|pool| pool.condition_status(NODE_REGISTRATION_HEALTHY) == Status::True)
    };
    let existing = plan.existing.iter().map(|(node, pods)| (world.nodes[*node].pool(), pods));
    let new = plan.new_nodes.iter().map(|node| (Some(&*world.pools[node.pool].name), &node.pods));
    for (pool, pods) in existing.chain(new) {
        let place = Place::Found { healthy: healthy(pool) };
        // Pods of nodes that go were bound long ago: how long they wait says nothing.
        let unbound = pods.iter().filter(|pod| world.pods[**pod].node.is_none());
        unbound.for_each(|pod| context.metrics.pods.decided(&super::keyed(&world.pods[*pod]).0, place, now));
    }
    for left in &plan.left_over {
        context.metrics.pods.decided(&super::keyed(&world.pods[left.pod]).0, Place::None, now);
    }
}

pub(crate) fn tell_nominated(
    context: &Context,
    world: &World,
    pods: &[usize],
    claim: Option<&str>,
    node: Option<&str>,
) {
    let claim = claim.map(|name| format!("nodeclaim/{name}"));
    let node = node.map(|name| format!("node/{name}"));
    let place: Vec<String> = claim.into_iter().chain(node).collect();
    let message = format!("Pod should schedule on: {}", place.join(", "));
    for pod in pods {
        let event = Event::normal(ObjectRef::pod(&world.pods[*pod]), "Nominated", message.clone());
        context.recorder.publish(event.limited(NOMINATED_LIMIT));
    }
}

fn tell_left_over(context: &Context, world: &World, left: &LeftOver, unready: &[Unready]) {
    let pod = &world.pods[left.pod];
    let for_want_of_a_pool = match &left.reason {
        // It will be served from a reservation later, or avoids our nodes on purpose: nobody needs to be told.
        Reason::ReservedCapacityDeferred | Reason::AvoidsManagedNodes => return,
        Reason::Invalid { .. } | Reason::DevicesIgnored => false,
        Reason::NoPools | Reason::NoInstanceTypes | Reason::Pools(_) => true,
    };
    let unready = if for_want_of_a_pool { unready } else { &[] };
    // The pool that is about to become ready may be the one it waits for.
    let no_pools = left.reason == Reason::NoPools;
    if pools::is_early(pod.created, context.clock.now(), no_pools, unready) {
        return;
    }
    let mut message = why::reason(world, &left.reason);
    for Unready { pool, why, .. } in unready {
        message += &format!("; NodePool {pool} is not ready: {why}");
    }
    let event = Event::warning(ObjectRef::pod(pod), "FailedScheduling", format!("Failed to schedule pod, {message}"));
    if context.recorder.publish(event.within(FAILED_WINDOW)) {
        tracing::error!(pod = %pod.key(), error = message, "could not schedule pod");
        context.recorder.decided(Decision::Unschedulable {
            pod: pod.key().into(),
            why: message,
            nearest_miss: left.nearest_miss.as_ref().map(|miss| miss.text.clone()),
        });
    }
}
