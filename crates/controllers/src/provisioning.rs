//! From pods that wait to NodeClaims.
//!
//! ```text
//!   pods, disrupted nodes ──trigger──▶ Batcher ──▶ pass: pools, snapshot, solve ──▶ NodeClaims, plans, nominations
//! ```

pub mod batcher;
pub mod claim;
mod create;
mod outcome;
pub mod pools;
mod recheck;
mod remarks;
mod repeat;
mod trigger;
pub mod why;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;
use karpenter_api::NodeClaim;
use karpenter_core::plan::{LeftOver, Plan, Reason};
use karpenter_core::pod::Phase;
use karpenter_core::{Pod, Pool, World};
use karpenter_index::{Change, Key, Kind};
use karpenter_scheduling::Observed;

use tokio::time::Instant;

use crate::buffers;
use crate::clock::later;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::reconciler::{Action, Backoff, Reconciler, singleton};
use batcher::Due;
use pools::Offer;
use repeat::Repeat;

pub(crate) use create::create;
pub(crate) use outcome::tell_nominated;
pub(crate) use remarks::Remarked;
pub use trigger::{NodeTrigger, PodTrigger};

pub const PROVISIONER: &str = "provisioner";

/// A batch that waits for state to sync looks again at least this often; what it waits for wakes it.
const HELD: Duration = Duration::from_secs(1);
/// So many creations may be under way at once: more only means more open requests.
const CREATIONS: usize = 100;

/// The loop that plans. One pass at a time: it is a single key.
#[derive(Debug, Default)]
pub struct Provisioner {
    repeat: Repeat,
}

#[async_trait]
impl Reconciler for Provisioner {
    fn name(&self) -> &'static str {
        PROVISIONER
    }

    fn start(&self) -> Vec<Key> {
        vec![singleton()]
    }

    /// A batch that is held back goes on as soon as the last claim has its machine.
    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        let may_sync = matches!(change.kind, Kind::NodeClaim | Kind::Node) && context.batcher.is_held();
        if may_sync { vec![singleton()] } else { Vec::new() }
    }

    async fn reconcile(&self, _key: &Key, context: &Context) -> Result<Action> {
        match context.batcher.due() {
            Due::Never => return Ok(Action::Done),
            Due::In(delay) => return Ok(Action::After(delay)),
            Due::Now => {}
        }
        if !context.is_synced() {
            context.batcher.hold();
            return Ok(Action::After(HELD));
        }
        context.batcher.close();
        let result = pass(context, &self.repeat).await;
        if result.is_err() {
            // What was created is kept; the rest is tried again.
            context.batcher.hold();
        }
        result.map(|()| Action::After(Duration::ZERO))
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn backoff(&self) -> Backoff {
        Backoff { first: Duration::from_millis(100), last: Duration::from_secs(10), ..Backoff::default() }
    }
}

/// One pass: look, plan, create.
async fn pass(context: &Context, repeat: &Repeat) -> Result<()> {
    let offers = pools::offers(context).await;
    // Asking for instance types may have taken a while.
    if !context.index.is_synced() || !context.is_fresh() {
        context.batcher.hold();
        return Ok(());
    }
    let now = context.clock.now();
    let pools: Vec<Pool> = offers.iter().map(|offer| offer.pool.clone()).collect();
    let world = context.buffers.waiting(context.index.snapshot(now, pools));
    let began = Instant::now();
    let waiting = world.pods.iter().filter(|pod| pod.phase == Phase::Pending && pod.node.is_none()).count();
    context.metrics.simulations.begin(PROVISIONER, waiting);
    let Observed { plan, zones, without_types, relaxed, timed_out } = repeat.or_solve(context, &world).await;
    let plan = recheck::still_needed(context, &world, plan);
    let plan = match context.settings.capacity_buffers {
        true => {
            if context.buffers.settle(&world, &plan) {
                context.index.unsettle();
            }
            buffers::report(context, &world, &plan).await;
            buffers::without_virtual(&world, plan)
        }
        false => plan,
    };
    context.metrics.simulations.end(PROVISIONER, plan.left_over.len(), zones);
    let deferred = |left: &&LeftOver| left.reason == Reason::ReservedCapacityDeferred;
    let unschedulable = plan.left_over.len() - plan.left_over.iter().filter(deferred).count();
    context.metrics.choices.scheduled(PROVISIONER, began.elapsed(), unschedulable, plan.ignored.len());
    outcome::found(&world, &plan, began.elapsed());
    outcome::tell(context, &world, &plan);
    remarks::pools(context, &offers, &without_types);
    remarks::pods(context, &world, &plan, &relaxed);
    outcome::count(context, &world, &plan);
    context.index.begin_plan();
    nominate(context, &world, &plan, now);
    context.regret.bought(&world, &plan, now);
    if timed_out {
        // Pods that were not tried have their turn at once.
        context.batcher.hold();
    }
    create_all(context, &world, &offers, &plan).await
}

/// Nodes that pods were planned onto are left alone for a while. Pods for one that is still coming are from now on part
/// of its plan, like those it was bought for.
fn nominate(context: &Context, world: &World, plan: &Plan, now: Timestamp) {
    let until = later(now, context.settings.nomination_window());
    for (node, pods) in plan.existing.iter().filter(|(_, pods)| !pods.is_empty()) {
        let node = &world.nodes[*node];
        let pods: Vec<_> = pods.iter().map(|pod| keyed(&world.pods[*pod])).collect();
        if let Some(id) = context.index.machine_shown_as(node) {
            context.index.nominate_for(&id, until, &pods);
        }
        if let Some(claim) = node.claim.as_deref().filter(|_| !node.is_initialized()) {
            context.index.plan(claim, &pods);
        }
    }
}

async fn create_all(context: &Context, world: &Arc<World>, offers: &[Offer], plan: &Plan) -> Result<()> {
    let mut creations: Vec<BoxFuture<'_, Result<NodeClaim>>> = Vec::with_capacity(plan.new_nodes.len());
    for node in &plan.new_nodes {
        creations.push(Box::pin(create(context, world, &offers[node.pool], node, "provisioned")));
    }
    let results: Vec<Result<NodeClaim>> = stream::iter(creations).buffered(CREATIONS).collect().await;
    Error::all(results.into_iter().filter_map(Result::err).collect())
}

/// A pod and no other of its name.
pub(crate) fn keyed(pod: &Pod) -> (Key, Arc<str>) {
    (Key { namespace: pod.namespace.clone(), name: pod.name.clone() }, pod.uid.clone())
}
