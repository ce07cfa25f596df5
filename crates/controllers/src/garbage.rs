//! Garbage collection, both ways: claims whose machine is gone, and machines that no claim holds.

mod stored;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{REGISTERED, Status};
use karpenter_index::{Change, Key, Kind, Unreadable};
use karpenter_provider::{DeleteError, GetError, Machine};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::lifecycle::Launched;
use crate::lifecycle::initialization::is_ready;
use crate::ownership::{Matches, claim_provider_id, pool_of};
use crate::pods::reschedulable_on;
use crate::reconciler::{Action, Backoff, Reconciler, singleton};

/// How long a machine may be without a claim: its launch may just not have been written down yet.
const LEAK_AGE: SignedDuration = SignedDuration::from_secs(30);
/// How many sweeps for machines come soon after the start, when a crash may have left some behind.
const EAGER_SWEEPS: u32 = 20;
/// How often claims are compared with machines.
const CLAIM_SWEEP: Duration = Duration::from_mins(2);
/// What tells whether a machine is held, and whether it is well.
const READS: [Kind; 2] = [Kind::NodeClaim, Kind::Node];
/// A sweep that fails is tried again ever later, but no later than the next one would have come: after an outage nothing
/// costs money for long that nobody uses.
const RETRIES: Backoff = Backoff { first: Duration::from_secs(1), last: CLAIM_SWEEP, per_second: 10, burst: 100 };
/// How many are collected at once.
const CLAIMS_AT_ONCE: usize = 20;
const MACHINES_AT_ONCE: usize = 100;

/// Claims that may have lost their machine. Only registered ones: the others are liveness' business. The provider's list
/// may be partial without saying so, hence the lookup of each that follows.
pub fn suspects<'a>(claims: &'a [Arc<NodeClaim>], machines: &[Machine]) -> Vec<&'a Arc<NodeClaim>> {
    let alive: BTreeSet<&str> =
        machines.iter().filter(|machine| !machine.deleting).map(|machine| machine.provider_id.as_str()).collect();
    claims
        .iter()
        .filter(|claim| claim.condition_status(REGISTERED) == Status::True)
        .filter(|claim| claim.metadata.deletion_timestamp.is_none())
        .filter(|claim| claim_provider_id(claim).is_some_and(|id| !alive.contains(id)))
        .collect()
}

/// A kubelet that still reports proves the provider wrong.
pub fn is_spared(node: Matches<&Node>) -> bool {
    node.one().is_some_and(is_ready)
}

/// What holds machines.
#[derive(Debug, Default)]
pub struct Holders {
    /// By id: what claims say, and what this process launched.
    pub ids: BTreeSet<String>,
    /// Claims that wait for their machine.
    pub launching: Vec<Arc<NodeClaim>>,
    /// Claims that are there and cannot be read.
    pub unreadable: Vec<Arc<Unreadable>>,
}

impl Holders {
    fn of(claims: Vec<Arc<NodeClaim>>, unreadable: Vec<Arc<Unreadable>>, context: &Context) -> Self {
        let mut claims = claims;
        claims.retain(|claim| context.index.is_managed(claim));
        let ids = claims.iter().filter_map(|claim| claim_provider_id(claim)).map(str::to_owned).collect();
        let launching = claims.into_iter().filter(|claim| is_launching(claim)).collect();
        Self { ids, launching, unreadable }
    }

    fn hold(&self, machine: &Machine) -> bool {
        self.ids.contains(&machine.provider_id)
            || self.launching.iter().any(|claim| may_adopt(claim, machine))
            || self.unreadable.iter().any(|claim| may_hold(claim, machine))
    }
}

/// A claim that cannot be read holds the machine it names, and the one that names it. Where it names none, it may be that
/// of any machine that does not say whose it is.
fn may_hold(claim: &Unreadable, machine: &Machine) -> bool {
    match (claim.provider_id.as_deref(), machine.node_claim.as_deref()) {
        (Some(id), _) if id == machine.provider_id => true,
        (_, Some(name)) => name == &*claim.key.name,
        (id, None) => id.is_none(),
    }
}

/// Machines of this cluster that nobody holds, and which no claim is about to adopt.
pub fn leaks<'a>(machines: &'a [Machine], holders: &Holders, now: Timestamp) -> Vec<&'a Machine> {
    machines
        .iter()
        .filter(|machine| !machine.deleting && !holders.hold(machine))
        .filter(|machine| now.duration_since(machine.launched_at) > LEAK_AGE)
        .collect()
}

/// Whether a claim that has no machine yet may have asked for this one. A launch that was cut short by the end of a
/// process, however long ago, is asked for again under the same token and gives the same machine. Claims that are
/// launched together share one request, so which of them a machine is for shows only then; until then it may be for any
/// of its pool that was there when it was launched.
fn may_adopt(claim: &NodeClaim, machine: &Machine) -> bool {
    if let Some(named) = &machine.node_claim {
        return claim.metadata.name.as_ref() == Some(named);
    }
    let of_pool = machine.node_pool.as_deref().is_none_or(|pool| pool_of(claim) == Some(pool));
    let created = claim.metadata.creation_timestamp.as_ref();
    // The clocks of the cloud and of the cluster differ a little.
    of_pool && created.is_none_or(|created| machine.launched_at.duration_since(created.0) >= -LEAK_AGE)
}

/// Claims that wait for their machine. One that is on its way out adopts nothing any more.
fn is_launching(claim: &NodeClaim) -> bool {
    claim_provider_id(claim).is_none() && claim.metadata.deletion_timestamp.is_none()
}

/// The pause after the so-many-th sweep for machines.
pub fn leak_sweep_pause(sweeps: u32) -> Duration {
    if sweeps <= EAGER_SWEEPS { Duration::from_secs(10) } else { Duration::from_mins(2) }
}

/// All of them, a few at a time; one that fails holds up no other.
async fn in_parallel(collections: Vec<BoxFuture<'_, Result<()>>>, at_once: usize) -> Result<()> {
    let results: Vec<Result<()>> = stream::iter(collections).buffer_unordered(at_once).collect().await;
    Error::all(results.into_iter().filter_map(Result::err).collect())
}

/// The controller `nodeclaim.garbagecollection`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimCollection;

impl ClaimCollection {
    /// Deletes a claim whose machine is gone for sure.
    async fn collect(claim: &NodeClaim, context: &Context) -> Result<()> {
        let provider_id = claim_provider_id(claim).unwrap_or_default();
        match context.provider.get(provider_id).await {
            Err(GetError::NotFound { .. }) => {}
            Ok(machine) if machine.deleting => {}
            // The list was partial.
            Ok(_) => return Ok(()),
            Err(error @ GetError::Other(_)) => return Err(Error::provider("looking the machine up", error)),
        }
        context.heard_lately(&READS)?;
        let nodes = context.index.nodes_of(provider_id);
        // A Node that cannot be read may be this one's, and its kubelet may be well.
        if context.index.unreadable_node_of(provider_id).is_some() {
            return Ok(());
        }
        if is_spared(nodes.iter().map(|node| &**node).collect()) {
            return Ok(());
        }
        let pods = reschedulable_on(claim, context);
        let (name, uid) = (claim.metadata.name.as_deref(), claim.metadata.uid.as_deref());
        context.delete::<NodeClaim>(name.unwrap_or_default(), uid.unwrap_or_default(), &READS).await?;
        tracing::debug!(claim = name, provider_id, "garbage collecting nodeclaim with no cloudprovider representation");
        context.metrics.life.disrupted(claim, "garbage_collected", "");
        context.metrics.life.pods_disrupted(claim, "garbage_collected", "", pods);
        Ok(())
    }
}

#[async_trait]
impl Reconciler for ClaimCollection {
    fn name(&self) -> &'static str {
        "nodeclaim.garbagecollection"
    }

    fn start(&self) -> Vec<Key> {
        vec![singleton()]
    }

    fn wake(&self, _change: &Change, _context: &Context) -> Vec<Key> {
        Vec::new()
    }

    async fn reconcile(&self, _key: &Key, context: &Context) -> Result<Action> {
        // The claims first: a machine launched after this look is in the list, whatever the claim says by then.
        let mut claims = context.index.node_claims();
        claims.retain(|claim| context.index.is_managed(claim));
        claims.retain(|claim| context.index.unreadable(Kind::NodeClaim, &Key::of(&claim.metadata)).is_none());
        let machines = context.provider.list().await;
        let machines = machines.map_err(|error| Error::provider("listing machines", error))?;
        let mut collections = Vec::new();
        for claim in suspects(&claims, &machines) {
            collections.push(Self::collect(claim, context).boxed());
        }
        in_parallel(collections, CLAIMS_AT_ONCE).await?;
        Ok(Action::After(CLAIM_SWEEP))
    }

    fn backoff(&self) -> Backoff {
        RETRIES
    }
}

/// The controller `instance.garbagecollection`.
#[derive(Debug)]
pub struct MachineCollection {
    launched: Arc<Launched>,
    sweeps: AtomicU32,
}

impl MachineCollection {
    pub fn new(launched: Arc<Launched>) -> Self {
        Self { launched, sweeps: AtomicU32::new(0) }
    }

    async fn collect(machine: &Machine, context: &Context) -> Result<()> {
        // A claim that we have not heard of may hold it.
        context.heard_lately(&READS)?;
        let mut claim = NodeClaim::default();
        claim.status.get_or_insert_default().provider_id = Some(machine.provider_id.clone());
        match context.provider.delete(&claim).await {
            Ok(()) | Err(DeleteError::NotFound { .. }) => {}
            Err(error @ DeleteError::Other(_)) => return Err(Error::provider("terminating a leaked machine", error)),
        }
        tracing::debug!(provider_id = %machine.provider_id, "garbage collected cloudprovider instance");
        for node in context.index.nodes_of(&machine.provider_id) {
            let (name, uid) = (node.metadata.name.as_deref(), node.metadata.uid.as_deref());
            context.delete::<Node>(name.unwrap_or_default(), uid.unwrap_or_default(), &READS).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Reconciler for MachineCollection {
    fn name(&self) -> &'static str {
        "instance.garbagecollection"
    }

    fn start(&self) -> Vec<Key> {
        vec![singleton()]
    }

    fn wake(&self, _change: &Change, _context: &Context) -> Vec<Key> {
        Vec::new()
    }

    async fn reconcile(&self, _key: &Key, context: &Context) -> Result<Action> {
        let machines = context.provider.list().await;
        let machines = machines.map_err(|error| Error::provider("listing machines", error))?;
        // The claims last, and what this process launched and could not store yet: nothing of either is a leak.
        let known = Holders::of(context.index.node_claims(), context.index.unreadable_claims(), context);
        let ids = self.launched.provider_ids().into_iter().collect();
        let launched = Holders { ids, ..Holders::default() };
        let now = context.clock.now();
        let mut leaked: Vec<&Machine> = leaks(&machines, &known, now);
        leaked.retain(|machine| !launched.hold(machine));
        if !leaked.is_empty() {
            context.heard_lately(&READS)?;
            // It cannot be taken back, so what seems to be nobody's is looked for where nothing is out of date.
            let stored = stored::claims(context).await?;
            let stored = Holders::of(stored.claims, stored.unreadable, context);
            leaked.retain(|machine| !stored.hold(machine));
        }
        let mut collections = Vec::new();
        for machine in leaked {
            collections.push(Self::collect(machine, context).boxed());
        }
        in_parallel(collections, MACHINES_AT_ONCE).await?;
        let sweeps = self.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Action::After(leak_sweep_pause(sweeps)))
    }

    fn backoff(&self) -> Backoff {
        RETRIES
    }
}

#[cfg(test)]
mod tests;
