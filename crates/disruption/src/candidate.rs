//! Which nodes may be disrupted at all, before any method looks at them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};
use karpenter_core::{InstanceType, Labels, MicroUsd, Pod, World};
use rustc_hash::FxHashMap;

use crate::cost;
use crate::pods::{self, Budgets};
use crate::snapshot::{PoolFacts, Snapshot};

/// A node that could be disrupted, with what methods compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// In `World::nodes`.
    pub node: usize,
    pub name: Arc<str>,
    pub claim: Arc<str>,
    pub pool: Arc<str>,
    /// Of its offering, available or not; nothing if that is not known.
    pub price: MicroUsd,
    /// What draining it costs: [`cost::BASE`] and each pod that needs another place.
    pub cost: f64,
    /// Pods that need another place, in `World::pods`.
    pub pods: Vec<usize>,
}

impl Candidate {
    /// Nothing on it is worth moving.
    pub fn is_empty(&self) -> bool {
        self.cost <= cost::BASE
    }

    /// Dollars for trouble: those with most come first.
    pub fn savings_ratio(&self) -> f64 {
        self.price.dollars() / self.cost
    }
}

/// Best savings first; equal ones by name, so that results are repeatable.
pub(crate) fn sort(candidates: &mut Vec<Arc<Candidate>>) {
    let ratio = |candidate: Arc<Candidate>| (candidate.savings_ratio(), candidate);
    let mut keyed: Vec<(f64, Arc<Candidate>)> = std::mem::take(candidates).into_iter().map(ratio).collect();
    keyed.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    candidates.extend(keyed.into_iter().map(|(_, candidate)| candidate));
}

/// Why a node is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    InQueue,
    Unmanaged,
    NoNode,
    NotInitialized,
    Marked,
    Nominated,
    Annotated,
    NoPoolLabel,
    NoPool {
        name: String,
    },
    /// Of the node, its claim or pool, or of a pod on it.
    Unreadable {
        object: String,
    },
    /// `karpenter.sh/do-not-disrupt` on a pod.
    Pod {
        pod: String,
    },
    Pdb {
        budgets: Vec<String>,
    },
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
        match self {
            Self::InQueue => f.write_str("Node is already being disrupted"),
            Self::Unmanaged => f.write_str("Node isn't managed by karpenter"),
            Self::NoNode => f.write_str("Nodeclaim does not have an associated node"),
            Self::NotInitialized => f.write_str("Node isn't initialized"),
            Self::Marked => f.write_str("Node is deleting or marked for deletion"),
            Self::Nominated => f.write_str("Node is nominated for a pending pod"),
            Self::Annotated => write!(f, "Disruption is blocked through the {DO_NOT_DISRUPT:?} annotation"),
            Self::NoPoolLabel => write!(f, "Node doesn't have required label (label={NODEPOOL})"),
            Self::NoPool { name } => write!(f, "NodePool not found (NodePool={name})"),
            Self::Unreadable { object } => write!(f, "Object cannot be read ({object})"),
            Self::Pod { pod } => write!(f, "Pod has {DO_NOT_DISRUPT:?} annotation (Pod={pod})"),
            Self::Pdb { budgets } if budgets.len() > 1 => {
                write!(f, "Eviction does not support multiple PDBs (PodDisruptionBudget(s)={})", budgets.join(","))
            }
            Self::Pdb { budgets } => {
                write!(f, "Pdb prevents pod evictions (PodDisruptionBudget={})", budgets.join(","))
            }
        }
    }
}

/// Whether a disruption may go against what holds pods, given that something ends the drain in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Emptiness and consolidation: never.
    Graceful,
    /// Drift: on nodes with a terminationGracePeriod.
    Eventual,
}

/// By position in `World::nodes`: the positions of its pods, in ascending order.
pub(crate) fn pods_on(world: &World) -> Vec<Vec<usize>> {
    let by_name: FxHashMap<&str, usize> = world.nodes.iter().enumerate().map(|(at, n)| (&*n.name, at)).collect();
    let mut pods_on = vec![Vec::new(); world.nodes.len()];
    for (index, pod) in world.pods.iter().enumerate() {
        if let Some(node) = pod.node.as_ref().and_then(|name| by_name.get(&**name)) {
            pods_on[*node].push(index);
        }
    }
    pods_on
}

type Types<'s> = FxHashMap<&'s str, &'s Arc<InstanceType>>;

/// A snapshot arranged so that candidates are found quickly.
pub struct Cluster<'s, 'w> {
    pub snapshot: &'s Snapshot<'w>,
    pub budgets: Budgets<'w>,
    /// By node: its pods, in `World::pods`.
    pub(crate) pods_on: Vec<Vec<usize>>,
    /// By pool and type.
    types: BTreeMap<&'s str, Arc<Types<'s>>>,
}

impl<'s, 'w> Cluster<'s, 'w> {
    pub fn new(snapshot: &'s Snapshot<'w>) -> Self {
        Self::with(snapshot, pods_on(snapshot.world))
    }

    /// For whoever knows where pods are.
    pub(crate) fn with(snapshot: &'s Snapshot<'w>, pods_on: Vec<Vec<usize>>) -> Self {
        // Pools of one node class share its types.
        let mut shared: FxHashMap<usize, Arc<Types<'s>>> = FxHashMap::default();
        let of = |(name, pool): (&'s Arc<str>, &'s PoolFacts)| {
            let list = pool.instance_types.as_ptr() as usize;
            let named = || Arc::new(pool.instance_types.iter().map(|kind| (&*kind.name, kind)).collect());
            (&**name, shared.entry(list).or_insert_with(named).clone())
        };
        let types = snapshot.pools.iter().map(of).collect();
        Self { snapshot, budgets: Budgets::new(snapshot.world), pods_on, types }
    }

    /// A node's pods, in `World::pods`.
    pub fn pods_on(&self, node: usize) -> &[usize] {
        &self.pods_on[node]
    }

    fn bound(&self, node: usize) -> impl Iterator<Item = (usize, &'w Pod)> + '_ {
        self.pods_on[node].iter().map(|pod| (*pod, &self.snapshot.world.pods[*pod]))
    }

    /// The checks in their order; the first that fails is told.
    pub fn candidate(&mut self, index: usize, class: Class) -> Result<Candidate, Blocked> {
        let (world, facts) = (self.snapshot.world, &self.snapshot.nodes[index]);
        let (node, now) = (&world.nodes[index], world.now);
        if facts.in_queue {
            return Err(Blocked::InQueue);
        }
        let claim = node.claim.clone().filter(|_| node.is_managed()).ok_or(Blocked::Unmanaged)?;
        if !node.has_node {
            return Err(Blocked::NoNode);
        }
        if !node.is_initialized() {
            return Err(Blocked::NotInitialized);
        }
        if node.deleting {
            return Err(Blocked::Marked);
        }
        if facts.nominated {
            return Err(Blocked::Nominated);
        }
        if facts.do_not_disrupt {
            return Err(Blocked::Annotated);
        }
        let pool = node.pool().ok_or(Blocked::NoPoolLabel)?;
        let of_pool = self.snapshot.pools.get_key_value(pool).filter(|(_, pool)| !pool.instance_types.is_empty());
        let (pool, _) = of_pool.ok_or_else(|| Blocked::NoPool { name: pool.to_owned() })?;
        let waived = class == Class::Eventual && facts.bounded_drain;
        if !waived {
            self.held_by_pods(index)?;
        }
        let moving: Vec<usize> =
            self.bound(index).filter(|(_, pod)| pods::is_reschedulable(pod)).map(|(at, _)| at).collect();
        let cost = cost::rescheduling(moving.iter().map(|pod| &world.pods[*pod]));
        let pods: Vec<usize> = match waived {
            true => moving.into_iter().filter(|pod| self.budgets.lets_move(&world.pods[*pod], now)).collect(),
            false => moving,
        };
        let price = self.price(&node.labels);
        Ok(Candidate { node: index, name: node.name.clone(), claim, pool: pool.clone(), price, cost, pods })
    }

    /// Protection is looked for on all pods before any budget is.
    fn held_by_pods(&mut self, node: usize) -> Result<(), Blocked> {
        let (world, now) = (self.snapshot.world, self.snapshot.world.now);
        if let Some(object) = &self.snapshot.nodes[node].unreadable {
            return Err(Blocked::Unreadable { object: object.to_string() });
        }
        if let Some((_, pod)) = self.bound(node).find(|(_, pod)| !pods::is_disruptable(pod, now)) {
            return Err(Blocked::Pod { pod: pod.key() });
        }
        for at in 0..self.pods_on[node].len() {
            let pod = &world.pods[self.pods_on[node][at]];
            if let Some(budgets) = self.budgets.holding(pod, now) {
                return Err(Blocked::Pdb { budgets });
            }
        }
        Ok(())
    }

    /// The type of a node, as its pool knows it.
    pub fn instance_type(&self, labels: &Labels) -> Option<&'s Arc<InstanceType>> {
        let of_pool = self.types.get(labels.get(NODEPOOL)?.as_str())?;
        of_pool.get(labels.get(INSTANCE_TYPE)?.as_str()).copied()
    }

    /// Of the first offering of its type with exactly its zone and capacity type, whether it can be bought now or not.
    pub fn price(&self, labels: &Labels) -> MicroUsd {
        let label = |key: &str| labels.get(key).map(String::as_str);
        let of = || {
            let (zone, capacity) = (label(ZONE)?, label(CAPACITY_TYPE)?);
            let mut offerings = self.instance_type(labels)?.offerings.iter();
            let same = offerings
                .find(|o| o.zone().as_deref() == Some(zone) && o.capacity_type().as_deref() == Some(capacity))?;
            Some(same.price)
        };
        of().unwrap_or_default()
    }
}
