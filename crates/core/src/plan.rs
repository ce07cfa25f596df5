//! What a solver decides: pods onto existing nodes, pods onto new ones, and a reason for every pod left over.
//!
//! Numbers are positions in the `World` the plan was made from.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::labels::{INSTANCE_TYPE, Labels};
use crate::pool::Pool;
use crate::price::MicroUsd;
use crate::requirement::Requirement;
use crate::requirements::Requirements;
use crate::resources::Resources;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub new_nodes: Vec<NewNode>,
    /// By position in `World::nodes`; the pods are positions in `World::pods`.
    pub existing: BTreeMap<usize, Vec<usize>>,
    pub left_over: Vec<LeftOver>,
    /// Pods that validation left out of the pass.
    pub ignored: Vec<LeftOver>,
}

/// A NodeClaim to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// In `World::pools`.
    pub pool: usize,
    /// In `World::pods`.
    pub pods: Vec<usize>,
    /// The claim's requirements, narrowed by its pods. The list of instance types comes on top when the NodeClaim is
    /// written: [`NewNode::written_requirements`].
    pub requirements: Requirements,
    /// Labels of the NodeClaim: the template's, and custom keys resolved to a value.
    pub labels: Labels,
    /// Each can hold the pods; cheapest first, at most 600. Positions in the pool's `instance_types`.
    pub instance_types: Arc<[usize]>,
    /// Pods and daemons together.
    pub requests: Resources,
    /// Some minValues was lowered to what there is.
    pub min_values_relaxed: bool,
    /// Reservations it may launch into.
    pub reservations: Vec<Arc<str>>,
    pub launch: Launch,
}

/// What EC2 would be expected to start for a claim, and at what price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub instance_type: Arc<str>,
    pub zone: Arc<str>,
    pub capacity_type: Arc<str>,
    pub price: MicroUsd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOver {
    pub pod: usize,
    pub reason: Reason,
    pub nearest_miss: Option<NearestMiss>,
}

/// Why a pod found no place, rendered only when somebody reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Validation refused the pod.
    Invalid { message: String },
    /// It avoids managed nodes on purpose; nobody needs to be told.
    AvoidsManagedNodes,
    /// It asks for devices, and those are ignored.
    DevicesIgnored,
    /// There is no pool to buy from.
    NoPools,
    /// Every pool's requirements rule out all its instance types.
    NoInstanceTypes,
    /// It can be served from a reservation in a later pass.
    ReservedCapacityDeferred,
    /// Each pool's own reason, in the order in which they were tried.
    Pools(Vec<(usize, PoolReason)>),
}

/// Why one pool could not take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolReason {
    Taint {
        taint: String,
    },
    /// The pod's own constraints on a key exclude each other.
    Contradiction {
        key: Arc<str>,
    },
    Incompatible {
        keys: Vec<Arc<str>>,
        undefined: Option<Arc<str>>,
        hint: Option<Arc<str>>,
    },
    Limit {
        resource: String,
    },
    MinValues {
        keys: Vec<Arc<str>>,
    },
    Topology {
        constraint: TopologyConstraint,
    },
    Volumes {
        keys: Vec<Arc<str>>,
    },
    HostPort,
    Types(TypeFailure),
    /// Its own requirements leave no type that is available, whoever asks.
    NoTypes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyConstraint {
    pub kind: TopologyKind,
    pub key: Arc<str>,
    /// At most 25, sorted by name.
    pub counts: Vec<(Arc<str>, u32)>,
    pub pod_domains: String,
    pub node_domains: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyKind {
    Spread,
    Affinity,
    AntiAffinity,
    /// Another pod's anti-affinity.
    InverseAntiAffinity,
}

/// Which of the three criteria instance types met, alone and together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeFailure {
    pub requirements_met: bool,
    pub fits: bool,
    pub has_offering: bool,
    pub requirements_and_fits: bool,
    pub requirements_and_offering: bool,
    pub fits_and_offering: bool,
    pub requirements: String,
    /// Pod and daemons; least and most where groups of types run different daemons.
    pub requests: (Resources, Resources),
    /// A million CPUs or more: `M` was probably typed for `m`.
    pub suspicious_cpu: bool,
}

/// The smallest single change to one field of one object that would have let the pod in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestMiss {
    /// In `World::pools`: the pool the pod would then use, if a new node is what it would get.
    pub pool: Option<usize>,
    /// `Pod ns/name` or `NodePool name`.
    pub object: String,
    pub field: String,
    pub from: String,
    pub to: String,
    pub text: String,
}

impl NewNode {
    /// What `spec.requirements` of the NodeClaim will say: the narrowed set and the types it may become.
    pub fn written_requirements(&self, pool: &Pool) -> Requirements {
        let mut written = self.requirements.clone();
        let min_values = written.get(INSTANCE_TYPE).min_values;
        let names = self.instance_types.iter().map(|kind| &*pool.instance_types[*kind].name);
        written.0.insert(Arc::from(INSTANCE_TYPE), Requirement { min_values, ..Requirement::one_of(names) });
        written
    }
}

impl Plan {
    /// Of all new nodes, per hour.
    pub fn price(&self) -> MicroUsd {
        self.new_nodes.iter().map(|node| node.launch.price).sum()
    }
}
