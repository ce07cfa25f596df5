//! Pods, reduced to what scheduling and disruption look at.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::labels::Labels;
use crate::ports::HostPort;
use crate::requirement::Expression;
use crate::resources::Resources;
use crate::selector::Selector;
use crate::taints::Toleration;

/// One pod. What replicas have in common is shared through `shape`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub created: Timestamp,
    pub shape: Arc<PodShape>,
    pub phase: Phase,
    /// Has a deletion timestamp.
    pub terminating: bool,
    /// `spec.nodeName`.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<Arc<str>>,
    /// The reason of the `PodScheduled` condition, if there is one.
    pub scheduled_reason: Option<Arc<str>>,
    /// The `Ready` condition is `False`.
    pub unready: bool,
    pub started: Option<Timestamp>,
    pub owners: Arc<[Owner]>,
    /// Names of the PersistentVolumeClaims it uses, those of generic ephemeral volumes included.
    pub claims: Arc<[Arc<str>]>,
    /// `controller.kubernetes.io/pod-deletion-cost` as it is written.
    pub deletion_cost: Option<Arc<str>>,
    /// How often its containers were started again, all together.
    pub restarts: u32,
    /// From its start to when it was last found to be ready; nothing while it is not.
    pub ready_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub controller: bool,
}

/// What decides where a pod may run. Pods of one workload share one shape; two pods with equal shapes and equal
/// volumes are interchangeable to the solver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodShape {
    pub labels: Labels,
    /// Effective requests: containers, sidecars, init containers, pod-level resources, overhead, and one of `pods`.
    pub requests: Resources,
    pub node_selector: Labels,
    /// Alternatives; each is a conjunction. Empty: no required node affinity.
    pub required_node_affinity: Vec<NodeTerm>,
    pub preferred_node_affinity: Vec<Weighted<NodeTerm>>,
    pub required_pod_affinity: Vec<PodTerm>,
    pub preferred_pod_affinity: Vec<Weighted<PodTerm>>,
    pub required_pod_anti_affinity: Vec<PodTerm>,
    pub preferred_pod_anti_affinity: Vec<Weighted<PodTerm>>,
    pub spread: Vec<Spread>,
    pub tolerations: Vec<Toleration>,
    pub host_ports: Vec<HostPort>,
    pub priority: i32,
    /// Asks for devices through ResourceClaims.
    pub wants_devices: bool,
    /// The value of the `karpenter.sh/do-not-disrupt` annotation.
    pub do_not_disrupt: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weighted<T> {
    pub weight: i32,
    pub term: T,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    pub expressions: Vec<Expression>,
    /// The term has `matchFields`, which we do not place by.
    pub has_match_fields: bool,
    /// An operator Kubernetes does not know, as `key operator`.
    pub unknown_operator: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTerm {
    pub topology_key: Arc<str>,
    /// `None` selects no pod.
    pub selector: Option<Selector>,
    pub namespaces: Vec<Arc<str>>,
    pub namespace_selector: Option<Selector>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread {
    pub topology_key: Arc<str>,
    pub max_skew: i32,
    pub min_domains: Option<i32>,
    pub when: WhenUnsatisfiable,
    /// `None` selects no pod. `match_label_keys` come on top.
    pub selector: Option<Selector>,
    pub match_label_keys: Vec<String>,
    pub node_affinity: NodePolicy,
    pub node_taints: NodePolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodePolicy {
    Honor,
    Ignore,
}

impl Pod {
    pub fn owned_by(&self, api_version: &str, kind: &str) -> bool {
        self.owners.iter().any(|owner| &*owner.api_version == api_version && &*owner.kind == kind)
    }

    pub fn is_daemon(&self) -> bool {
        self.owned_by("apps/v1", "DaemonSet")
    }

    /// Static and mirror pods belong to their node.
    pub fn is_node_owned(&self) -> bool {
        self.owned_by("v1", "Node")
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Failed | Phase::Succeeded)
    }

    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.terminating
    }

    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}
