//! A pod as the scheduler needs it: everything parsed once, when the pod is first seen.

use crate::key::{Key, uid};
use crate::resources::{Resources, non_zero_requests, pod_requests};
use crate::selector::{Labels, NodeDemand, Preferences, Requirement, Selector, Test};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, PodSpec, Taint, Toleration, TopologySpreadConstraint};
use std::sync::Arc;

#[derive(Debug)]
pub struct PodInfo {
    pub key: Key,
    pub uid: String,
    pub labels: Labels,
    pub pod: Arc<Pod>,
    pub priority: i32,
    pub requests: Resources,
    /// Milli-CPU and bytes with the scorer's defaults.
    pub non_zero: (i64, i64),
    pub ports: Vec<HostPort>,
    pub demand: NodeDemand,
    pub preferences: Preferences,
    pub affinity: Vec<AffinityTerm>,
    pub anti_affinity: Vec<AffinityTerm>,
    pub preferred_affinity: Vec<(i64, AffinityTerm)>,
    pub preferred_anti_affinity: Vec<(i64, AffinityTerm)>,
    pub hard_spread: Vec<Spread>,
    pub soft_spread: Vec<Spread>,
    pub claims: Vec<ClaimRef>,
    pub terminating: bool,
}

/// A claim a pod mounts, by name or as one made for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    pub name: String,
    pub ephemeral: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    pub ip: String,
    pub protocol: String,
    pub port: i32,
}

impl HostPort {
    /// The wildcard address clashes with every address.
    pub fn clashes(&self, other: &Self) -> bool {
        let any = |ip: &str| ip == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (any(&self.ip) || any(&other.ip) || self.ip == other.ip)
    }
}

/// "Pods like these, in these namespaces, in the same domain of this key."
#[derive(Clone, Debug)]
pub struct AffinityTerm {
    namespaces: Vec<String>,
    namespace_selector: Selector,
    selector: Selector,
    pub topology_key: String,
}

impl AffinityTerm {
    fn new(term: &PodAffinityTerm, own_namespace: &str, own_labels: &Labels) -> Self {
        let mut namespaces = term.namespaces.clone().unwrap_or_default();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(own_namespace.into());
        }
        let mut selector = Selector::new(term.label_selector.as_ref());
        let named: Vec<&String> =
            term.label_selector.iter().flat_map(|s| s.match_expressions.iter().flatten()).map(|e| &e.key).collect();
        // The API server merges these into the selector; a second time does no harm, a missing one would.
        let same = term.match_label_keys.iter().flatten().map(|k| (k, true));
        let different = term.mismatch_label_keys.iter().flatten().map(|k| (k, false));
        for (key, equal) in same.chain(different).filter(|(k, _)| !named.contains(k)) {
            if let Some(value) = own_labels.get(key) {
                let values = vec![value.clone()];
                let test = if equal { Test::In(values) } else { Test::NotIn(values) };
                selector.require([Requirement { key: key.clone(), test }]);
            }
        }
        Self {
            namespaces,
            namespace_selector: Selector::new(term.namespace_selector.as_ref()),
            selector,
            topology_key: term.topology_key.clone(),
        }
    }

    pub fn matches(&self, namespace: &str, namespace_labels: &Labels, labels: &Labels) -> bool {
        (self.namespaces.iter().any(|n| n == namespace) || self.namespace_selector.matches(namespace_labels))
            && self.selector.matches(labels)
    }
}

/// One topology spread constraint.
#[derive(Clone, Debug)]
pub struct Spread {
    pub max_skew: i64,
    pub topology_key: String,
    pub selector: Selector,
    pub min_domains: i64,
    pub honor_affinity: bool,
    pub honor_taints: bool,
}

impl Spread {
    fn new(constraint: &TopologySpreadConstraint, own_labels: &Labels) -> Self {
        let mut selector = Selector::new(constraint.label_selector.as_ref());
        let keys = constraint.match_label_keys.iter().flatten();
        selector.require(keys.filter_map(|k| own_labels.get(k).map(|v| Requirement::equals(k, v))));
        Self {
            max_skew: i64::from(constraint.max_skew),
            topology_key: constraint.topology_key.clone(),
            selector,
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            honor_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}

impl PodInfo {
    pub fn new(pod: Arc<Pod>) -> Self {
        let default_spec = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&default_spec);
        let key = Key::of(&pod.metadata);
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let affinity = spec.affinity.as_ref();
        let node_affinity = affinity.and_then(|a| a.node_affinity.as_ref());
        let pod_affinity = affinity.and_then(|a| a.pod_affinity.as_ref());
        let anti = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
        let term = |t: &PodAffinityTerm| AffinityTerm::new(t, &key.namespace, &labels);
        let spread = |hard: bool| {
            let all = spec.topology_spread_constraints.iter().flatten();
            let wanted = all.filter(|c| (c.when_unsatisfiable == "DoNotSchedule") == hard);
            wanted.map(|c| Spread::new(c, &labels)).collect()
        };
        Self {
            uid: uid(&pod.metadata).into(),
            priority: spec.priority.unwrap_or(0),
            requests: pod_requests(&pod),
            non_zero: non_zero_requests(&pod),
            ports: host_ports(spec),
            demand: NodeDemand::new(
                spec.node_selector.as_ref(),
                node_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()),
            ),
            preferences: Preferences::new(
                node_affinity
                    .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref())
                    .unwrap_or_default(),
            ),
            affinity: pod_affinity
                .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
                .into_iter()
                .flatten()
                .map(term)
                .collect(),
            anti_affinity: anti
                .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
                .into_iter()
                .flatten()
                .map(term)
                .collect(),
            preferred_affinity: pod_affinity
                .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref())
                .into_iter()
                .flatten()
                .map(|w| (i64::from(w.weight), term(&w.pod_affinity_term)))
                .collect(),
            preferred_anti_affinity: anti
                .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref())
                .into_iter()
                .flatten()
                .map(|w| (i64::from(w.weight), term(&w.pod_affinity_term)))
                .collect(),
            hard_spread: spread(true),
            soft_spread: spread(false),
            claims: claims(&key.name, spec),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            key,
            labels,
            pod,
        }
    }

    pub fn spec(&self) -> Option<&PodSpec> {
        self.pod.spec.as_ref()
    }

    pub fn has_affinity(&self) -> bool {
        !self.affinity.is_empty()
            || !self.anti_affinity.is_empty()
            || !self.preferred_affinity.is_empty()
            || !self.preferred_anti_affinity.is_empty()
    }

    pub fn tolerations(&self) -> &[Toleration] {
        self.spec().and_then(|s| s.tolerations.as_deref()).unwrap_or_default()
    }

    pub fn nominated_node(&self) -> Option<&str> {
        self.pod.status.as_ref()?.nominated_node_name.as_deref().filter(|n| !n.is_empty())
    }

    /// When the pod started, or now for one that has not: an unstarted pod is the least loss.
    pub fn started(&self) -> Option<Timestamp> {
        self.pod.status.as_ref()?.start_time.as_ref().map(|t| t.0)
    }

    /// The first taint that keeps the pod off a node for good.
    pub fn untolerated<'a>(&self, taints: &'a [Taint]) -> Option<&'a Taint> {
        taints.iter().find(|t| t.effect != "PreferNoSchedule" && !self.tolerates(t))
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations().iter().any(|t| tolerates(t, taint))
    }
}

pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default(),
        "Exists" => true,
        _ => false,
    }
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    // Sidecars hold their ports as long as the pod lives; other init containers are not counted.
    let sidecars = spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let all = spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
    all.filter_map(|p| {
        Some(HostPort {
            ip: p.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".into()),
            protocol: p.protocol.clone().unwrap_or_else(|| "TCP".into()),
            port: p.host_port.filter(|p| *p > 0)?,
        })
    })
    .collect()
}

fn claims(pod_name: &str, spec: &PodSpec) -> Vec<ClaimRef> {
    let volumes = spec.volumes.iter().flatten();
    volumes
        .filter_map(|v| match (&v.persistent_volume_claim, &v.ephemeral) {
            (Some(claim), _) => Some(ClaimRef { name: claim.claim_name.clone(), ephemeral: false }),
            (None, Some(_)) => Some(ClaimRef { name: format!("{pod_name}-{}", v.name), ephemeral: true }),
            (None, None) => None,
        })
        .collect()
}
