//! Which nodes may be disrupted at all, before any method looks at them.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::labels::DO_NOT_DISRUPT;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};
use karpenter_core::world::DisruptionBudget;
use karpenter_core::{InstanceType, MicroUsd};
use karpenter_index::{Machine, MachineId, TrackedPod};

use super::cost::eviction_cost;
use super::pdb;
use crate::pods::PodFacts;

/// What draining any node costs, whatever runs on it.
pub const BASE_COST: f64 = 1.0;

/// A node that could be disrupted, with what methods compare.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub id: MachineId,
    pub node: Arc<k8s_openapi::api::core::v1::Node>,
    pub claim: Arc<NodeClaim>,
    pub pool: Arc<NodePool>,
    /// Of its offering, available or not; nothing if that is not known.
    pub price: MicroUsd,
    /// [`BASE_COST`] and what moving its pods costs.
    pub cost: f64,
    /// How many pods will need another place.
    pub pods: usize,
}

impl Candidate {
    pub fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn pool_name(&self) -> &str {
        self.pool.metadata.name.as_deref().unwrap_or_default()
    }

    /// Nothing on it is worth moving.
    pub fn is_empty(&self) -> bool {
        self.cost <= BASE_COST
    }

    /// Dollars for trouble: those with most come first.
    pub fn savings_ratio(&self) -> f64 {
        self.price.dollars() / self.cost
    }
}

/// Best savings first; equal ones by name, so that results are repeatable.
pub fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| b.savings_ratio().total_cmp(&a.savings_ratio()).then_with(|| a.name().cmp(b.name())));
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

/// A pool, and what its node class can launch.
pub type Offering = (Arc<NodePool>, Arc<[Arc<InstanceType>]>);

/// Everything that decides, seen at one moment.
pub struct Seen<'a> {
    pub now: Timestamp,
    pub in_queue: bool,
    pub nominated: bool,
    pub pods: &'a [Arc<TrackedPod>],
    /// The pool of that name, if it is known and offers anything.
    pub pool: &'a dyn Fn(&str) -> Option<Offering>,
    pub budgets: &'a [Arc<DisruptionBudget>],
}

/// The checks in their order; the first that fails is told.
pub fn candidate(machine: &Machine, seen: &Seen<'_>) -> Result<Candidate, Blocked> {
    if seen.in_queue {
        return Err(Blocked::InQueue);
    }
    let claim = machine.claim.clone().ok_or(Blocked::Unmanaged)?;
    let node = machine.node.clone().ok_or(Blocked::NoNode)?;
    let reduced = machine.reduced.as_ref().filter(|node| node.is_initialized()).ok_or(Blocked::NotInitialized)?;
    if reduced.deleting {
        return Err(Blocked::Marked);
    }
    if seen.nominated {
        return Err(Blocked::Nominated);
    }
    if node.metadata.annotations.as_ref().and_then(|all| all.get(DO_NOT_DISRUPT)).is_some_and(|value| value == "true") {
        return Err(Blocked::Annotated);
    }
    let name = reduced.labels.get(NODEPOOL).ok_or(Blocked::NoPoolLabel)?;
    let (pool, types) = (seen.pool)(name).ok_or_else(|| Blocked::NoPool { name: name.clone() })?;
    let facts: Vec<PodFacts> = seen.pods.iter().map(|pod| PodFacts::of(pod)).collect();
    if let Some(pod) = facts.iter().find(|pod| !pod.is_disruptable(seen.now)) {
        return Err(Blocked::Pod { pod: pod.key.key().to_string() });
    }
    let mut pods = facts.iter().zip(seen.pods);
    if let Some(budgets) = pods.find_map(|(facts, pod)| pdb::blocking(facts, &pod.pod, seen.budgets, seen.now)) {
        return Err(Blocked::Pdb { budgets });
    }
    let moving = facts.iter().zip(seen.pods).filter(|(facts, _)| facts.is_reschedulable());
    let moving: Vec<&Arc<TrackedPod>> = moving.map(|(_, pod)| pod).collect();
    let cost = moving.iter().fold(BASE_COST, |sum, pod| sum + eviction_cost(pod).max(0.0));
    let price = price(&reduced.labels, &types);
    Ok(Candidate { id: machine.id.clone(), node, claim, pool, price, cost, pods: moving.len() })
}

/// The first offering of its type with exactly its zone and capacity type, whether it can be bought now or not.
fn price(labels: &karpenter_core::Labels, types: &[Arc<InstanceType>]) -> MicroUsd {
    let label = |key: &str| labels.get(key).map(String::as_str);
    let of = || {
        let (name, zone, capacity) = (label(INSTANCE_TYPE)?, label(ZONE)?, label(CAPACITY_TYPE)?);
        let kind = types.iter().find(|kind| &*kind.name == name)?;
        let mut matching = kind.offerings.iter().filter(|offering| {
            offering.zone().as_deref() == Some(zone) && offering.capacity_type().as_deref() == Some(capacity)
        });
        matching.next().map(|offering| offering.price)
    };
    of().unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests;
