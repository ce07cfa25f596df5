//! Everything a decision is made from, at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::labels::{Labels, Vocabulary};
use crate::node::Node;
use crate::pod::{NodeTerm, Pod, PodShape};
use crate::pool::Pool;
use crate::selector::Selector;
use crate::settings::Settings;
use crate::storage::Storage;

/// An immutable snapshot of the cluster and of what can be bought for it.
#[derive(Clone, Debug)]
pub struct World {
    pub now: Timestamp,
    pub settings: Settings,
    pub vocabulary: Arc<Vocabulary>,
    /// Dynamic, ready, not being deleted. In any order.
    pub pools: Vec<Pool>,
    /// Nodes and launched NodeClaims, deleting ones included.
    pub nodes: Vec<Node>,
    /// All pods, pending and bound.
    pub pods: Vec<Pod>,
    pub daemon_sets: Vec<DaemonSet>,
    pub namespaces: BTreeMap<Arc<str>, Labels>,
    pub storage: Storage,
    pub services: Vec<Service>,
    /// Selectors of the workloads that own pods, by owner uid: for default spread.
    pub workload_selectors: BTreeMap<Arc<str>, Selector>,
    pub disruption_budgets: Vec<DisruptionBudget>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSet {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// From the pod template, limits standing in for missing requests.
    pub template: Arc<PodShape>,
    /// The template's own required node affinity. It replaces that of observed pods, which are pinned to their node.
    pub required_node_affinity: Vec<NodeTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// `None`: the Service has no selector.
    pub selector: Option<Labels>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionBudget {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// `None` selects no pod.
    pub selector: Option<Selector>,
    /// `maxUnavailable` of 0 or 0 %, or `minAvailable` of 100 %: no eviction can ever be allowed.
    pub never_allows: bool,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub always_allows_unready: bool,
}
