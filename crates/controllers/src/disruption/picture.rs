//! The cluster as disruption sees it at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_core::node::Stage;
use karpenter_core::{InstanceType, MicroUsd, Pool, World};
use karpenter_disruption::candidate::Cluster;
use karpenter_disruption::{NodeFacts, PoolFacts, Snapshot};
use karpenter_index::{Key, Kind, Machine, MachineId, facts};
use karpenter_provider::TypesError;
use rustc_hash::FxHashMap;

use super::queue::Commands;
use crate::clock::later;
use crate::context::Context;
use crate::pricing;
use crate::provisioning::pools::{self, Offer};
use crate::recorder::ObjectRef;

/// Nominations, the readiness of nodes and the hours of budgets move nothing that tells of them. For so long they are taken
/// to be what they were.
const CURRENT: Duration = Duration::from_secs(5);
/// Within this time nodes are expected to start.
const START: Duration = Duration::from_mins(2);

/// Owns what a [`Snapshot`] borrows, and knows whose objects its numbers stand for.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) world: Arc<World>,
    /// In the order of `World::pools`.
    pub(super) offers: Vec<Offer>,
    /// By position in `World::nodes`, as the two below.
    pub(super) machines: Vec<Option<Machine>>,
    facts: Vec<NodeFacts>,
    pub(super) pools: BTreeMap<Arc<str>, Arc<NodePool>>,
    pool_facts: BTreeMap<Arc<str>, PoolFacts>,
    /// Moves with everything that consolidation may find something new in; read before anything else was.
    pub(super) state: u64,
    taken: Timestamp,
}

impl Picture {
    /// Nothing while the cluster is not wholly known: asking for instance types may take a while.
    pub(super) async fn take(context: &Context, commands: &Commands) -> Option<Self> {
        let state = context.index.unsettled();
        let offers = pools::offers(context).await;
        let (pools, pool_facts) = all_pools(context).await;
        if !context.index.is_synced() || !context.is_fresh() {
            return None;
        }
        let now = context.clock.now();
        let sold: Vec<Pool> = offers.iter().map(|offer| offer.pool.clone()).collect();
        let world = context.buffers.at_home(context.index.snapshot(now, sold));
        let known = context.index.machines();
        let mut by_name: FxHashMap<&str, &Machine> = FxHashMap::default();
        for machine in &known {
            if let Some(reduced) = &machine.reduced {
                by_name.insert(&reduced.name, machine);
            }
        }
        let machines: Vec<Option<Machine>> =
            world.nodes.iter().map(|node| by_name.get(&*node.name).map(|machine| (*machine).clone())).collect();
        let facts = machines.iter().map(|machine| match machine {
            Some(machine) => node_facts(machine, &pool_facts, commands, context, now),
            // It went while we looked.
            None => NodeFacts { nominated: true, consolidatable: false, ..NodeFacts::default() },
        });
        let facts = facts.collect();
        Some(Self { world, offers, machines, facts, pools, pool_facts, state, taken: now })
    }

    pub(super) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { world: &self.world, nodes: self.facts.clone(), pools: self.pool_facts.clone() }
    }

    /// Whether nothing can have happened since that decides who may go.
    pub(super) fn is_current(&self, context: &Context) -> bool {
        self.state == context.index.unsettled() && context.clock.now() < later(self.taken, CURRENT)
    }

    /// What all nodes that may be disrupted cost together.
    pub(super) fn price(&self) -> MicroUsd {
        let snapshot = self.snapshot();
        let cluster = Cluster::new(&snapshot);
        snapshot.world.nodes.iter().filter(|node| node.is_managed()).map(|node| cluster.price(&node.labels)).sum()
    }

    pub(super) fn drifted(&self, node: usize) -> bool {
        self.facts[node].drifted.is_some()
    }

    /// The Node and the NodeClaim, for whoever wants to tell something; what is somebody else's node is their business.
    pub(super) fn objects(&self, node: usize) -> impl Iterator<Item = ObjectRef> {
        let machine = self.machines[node].as_ref();
        let claim = machine.and_then(|machine| machine.claim.as_deref()).map(ObjectRef::node_claim);
        let node = machine.and_then(|machine| machine.node.as_deref()).filter(|_| claim.is_some()).map(ObjectRef::node);
        node.into_iter().chain(claim)
    }

    /// Whether the node has only just been asked for: that it is not complete yet is no news.
    pub(super) fn is_starting(&self, node: usize) -> bool {
        let claim = self.machines[node].as_ref().and_then(|machine| machine.claim.as_deref());
        let created = claim.and_then(|claim| claim.metadata.creation_timestamp.as_ref());
        created.is_some_and(|created| self.taken < later(created.0, START))
    }

    /// Whether nothing but its pods can keep the node.
    pub(super) fn goes_but_for_pods(&self, at: usize) -> bool {
        let (node, facts) = (&self.world.nodes[at], &self.facts[at]);
        let pool = node.pool().and_then(|pool| self.pool_facts.get(pool));
        node.is_managed()
            && node.has_node
            && node.is_initialized()
            && !(node.deleting || facts.in_queue || facts.nominated || facts.do_not_disrupt)
            && pool.is_some_and(|pool| !pool.instance_types.is_empty())
    }

    pub(super) fn id(&self, node: usize) -> Option<&MachineId> {
        self.machines[node].as_ref().map(|machine| &machine.id)
    }
}

fn node_facts(
    machine: &Machine,
    pools: &BTreeMap<Arc<str>, PoolFacts>,
    commands: &Commands,
    context: &Context,
    now: Timestamp,
) -> NodeFacts {
    let (node, claim) = (machine.node.as_deref(), machine.claim.as_deref());
    let stage = machine.reduced.as_ref().map_or(Stage::Launched, |reduced| reduced.stage);
    let name = claim.and_then(crate::ownership::pool_of);
    let facts = facts::node(node, claim, stage, name.and_then(|name| pools.get(name)));
    let unreadable = unreadable_object(machine, context);
    let pinned = node.and_then(|node| context.index.pinned_by(node.metadata.name.as_deref().unwrap_or_default()));
    NodeFacts {
        // How long a drain may last is not known.
        bounded_drain: facts.bounded_drain && unreadable.is_none(),
        unreadable: unreadable.or_else(|| pinned.map(|pod| format!("Pod {pod}").into())),
        in_queue: commands.has(&machine.id),
        nominated: context.index.is_nominated(&machine.id, now),
        holds_buffer: machine.reduced.as_ref().is_some_and(|node| context.buffers.holds(node)),
        // A pool whose replacements fail is left alone for a while, and others are not held up by it.
        drifted: facts.drifted.filter(|_| !name.is_some_and(|pool| commands.is_waiting(pool, now))),
        ..facts
    }
}

/// The Node, the NodeClaim or the NodePool, if it cannot be read: by now it may say something else.
fn unreadable_object(machine: &Machine, context: &Context) -> Option<Arc<str>> {
    let node = machine.node.as_ref().map(|node| (Kind::Node, node.metadata.name.as_deref()));
    let claim = machine.claim.as_ref().map(|claim| (Kind::NodeClaim, claim.metadata.name.as_deref()));
    let pool = machine.claim.as_ref().map(|claim| (Kind::NodePool, crate::ownership::pool_of(claim)));
    let mut objects = [node, claim, pool].into_iter().flatten();
    objects.find_map(|(kind, name)| {
        let name = name?;
        context.index.unreadable(kind, &Key::cluster(name))?;
        Some(format!("{} {name}", kind.name()).into())
    })
}

type Pools = (BTreeMap<Arc<str>, Arc<NodePool>>, BTreeMap<Arc<str>, PoolFacts>);

/// Every pool of ours. One whose types are not known keeps its own nodes, and no others.
async fn all_pools(context: &Context) -> Pools {
    let (mut objects, mut all) = Pools::default();
    for pool in context.index.node_pools() {
        if !context.index.is_managed_pool(&pool) {
            continue;
        }
        let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
        let types = match context.provider.instance_types(&pool).await {
            Ok(types) => types,
            Err(TypesError::NotResolved { message }) if pools::waits_for_class(&pool, context) => {
                tracing::debug!(pool = &*name, why = message, "skipping, awaiting its node class");
                Arc::from([])
            }
            Err(error) => {
                let error = karpenter_provider::chain(&error);
                tracing::error!(pool = &*name, error, "skipping, unable to resolve instance types");
                Arc::from([])
            }
        };
        let cost = cost(context, &name, &types);
        let spare = if pool.spec.replicas.is_some() { context.static_nodes.spare(&pool, context) } else { 0 };
        all.insert(name.clone(), PoolFacts { cost, spare, ..facts::pool(&pool, types) });
        objects.insert(name, pool);
    }
    (objects, all)
}

/// What the pool's claims cost together, as far as their offerings are known.
fn cost(context: &Context, pool: &str, types: &[Arc<InstanceType>]) -> Option<MicroUsd> {
    let types: FxHashMap<&str, &Arc<InstanceType>> = types.iter().map(|kind| (&*kind.name, kind)).collect();
    let claims = context.index.node_claims();
    let of_pool = claims.iter().filter(|claim| crate::ownership::pool_of(claim) == Some(pool));
    let total: MicroUsd = of_pool.filter_map(|claim| pricing::price(claim, |name| types.get(name).copied())).sum();
    (total.0 > 0).then_some(total)
}
