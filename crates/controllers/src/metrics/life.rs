//! The series of nodes' and claims' lives and ends.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::labels::{CAPACITY_TYPE, NODEPOOL, ZONE};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::summary::Summary;

#[derive(Debug)]
pub struct Life {
    disrupted: Family<Disrupted, Counter>,
    pods_disrupted: Family<Disrupted, Counter>,
    unhealthy: Family<Unhealthy, Counter>,
    terminated: Family<Machine, Counter>,
    termination: Family<Pool, Histogram, Buckets>,
    instance_termination: Family<Pool, Histogram, Buckets>,
    nodes_created: Family<Place, Counter>,
    nodes_terminated: Family<Place, Counter>,
    nodes_drained: Family<Pool, Counter>,
    node_lifetime: Family<Pool, Histogram, Buckets>,
    /// By pool; rendered beside the registry, which knows no summaries.
    pub node_termination: Summary,
    evictions: Family<Code, Counter>,
    pods_drained: Family<Reason, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Disrupted {
    reason: String,
    nodepool: String,
    capacity_type: String,
    consolidation_policy: String,
    termination_mode: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Unhealthy {
    condition: String,
    nodepool: String,
    capacity_type: String,
    image_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Machine {
    nodepool: String,
    capacity_type: String,
    zone: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Place {
    nodepool: String,
    zone: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pool {
    nodepool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: String,
}

/// Makes histograms with these bounds.
#[derive(Clone, Debug)]
struct Buckets(Vec<f64>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// How much time a drain has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationMode {
    Graceful,
    Eventual,
    Forceful,
}

impl TerminationMode {
    pub fn of(claim: &NodeClaim) -> Self {
        match claim.spec.termination_grace_period.as_ref().map(karpenter_api::GoDuration::nanos) {
            None => Self::Graceful,
            Some(..=0) => Self::Forceful,
            Some(1..) => Self::Eventual,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Graceful => "graceful",
            Self::Eventual => "eventual",
            Self::Forceful => "forceful",
        }
    }
}

const HOUR: f64 = 3_600.0;
const DAY: f64 = 24.0 * HOUR;
const LIFETIMES: [f64; 21] = [
    900.0,
    1_800.0,
    2_700.0,
    HOUR,
    2.0 * HOUR,
    4.0 * HOUR,
    6.0 * HOUR,
    8.0 * HOUR,
    10.0 * HOUR,
    12.0 * HOUR,
    16.0 * HOUR,
    20.0 * HOUR,
    DAY,
    2.0 * DAY,
    3.0 * DAY,
    5.0 * DAY,
    10.0 * DAY,
    15.0 * DAY,
    20.0 * DAY,
    25.0 * DAY,
    30.0 * DAY,
];

impl Life {
    /// In a registry whose prefix is `karpenter`; its text format adds `_total` to counters.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let doubling = |count| Family::new_with_constructor(Buckets(exponential_buckets(1.0, 2.0, count).collect()));
        let life = Self {
            disrupted: Family::default(),
            pods_disrupted: Family::default(),
            unhealthy: Family::default(),
            terminated: Family::default(),
            termination: doubling(12),
            instance_termination: doubling(11),
            nodes_created: Family::default(),
            nodes_terminated: Family::default(),
            nodes_drained: Family::default(),
            node_lifetime: Family::new_with_constructor(Buckets(LIFETIMES.to_vec())),
            node_termination: Summary::new("karpenter_nodes_termination_duration_seconds", "nodepool"),
            evictions: Family::default(),
            pods_drained: Family::default(),
        };
        let mut add = |name: &str, help: &str, metric: &dyn Fn(&mut Registry, &str, &str)| metric(registry, name, help);
        add("nodeclaims_disrupted", "Claims disrupted, by reason", &|registry, name, help| {
            registry.register(name, help, life.disrupted.clone());
        });
        add("pods_disruption_initiated", "Pods on disrupted claims, by reason", &|registry, name, help| {
            registry.register(name, help, life.pods_disrupted.clone());
        });
        add("nodeclaims_unhealthy_disrupted", "Claims disrupted by repair", &|registry, name, help| {
            registry.register(name, help, life.unhealthy.clone());
        });
        add("nodeclaims_terminated", "Claims terminated", &|registry, name, help| {
            registry.register(name, help, life.terminated.clone());
        });
        add("nodeclaims_termination_duration_seconds", "From deletion to gone", &|registry, name, help| {
            registry.register(name, help, life.termination.clone());
        });
        add("nodeclaims_instance_termination_duration_seconds", "Of the machine alone", &|registry, name, help| {
            registry.register(name, help, life.instance_termination.clone());
        });
        add("nodes_created", "Nodes registered", &|registry, name, help| {
            registry.register(name, help, life.nodes_created.clone());
        });
        add("nodes_terminated", "Nodes removed", &|registry, name, help| {
            registry.register(name, help, life.nodes_terminated.clone());
        });
        add("nodes_drained", "Nodes drained", &|registry, name, help| {
            registry.register(name, help, life.nodes_drained.clone());
        });
        add("nodes_lifetime_duration_seconds", "Age at removal", &|registry, name, help| {
            registry.register(name, help, life.node_lifetime.clone());
        });
        add("pods_eviction_requests", "Evictions asked for, by answer", &|registry, name, help| {
            registry.register(name, help, life.evictions.clone());
        });
        add("pods_drained", "Pods drained, by reason", &|registry, name, help| {
            registry.register(name, help, life.pods_drained.clone());
        });
        life
    }

    /// A claim is deleted by us; `policy` is empty unless consolidation did it.
    pub fn disrupted(&self, claim: &NodeClaim, reason: &str, policy: &str) {
        self.disrupted.get_or_create(&disruption(claim, reason, policy)).inc();
    }

    /// So many of its pods will need another place.
    pub fn pods_disrupted(&self, claim: &NodeClaim, reason: &str, policy: &str, pods: usize) {
        self.pods_disrupted.get_or_create(&disruption(claim, reason, policy)).inc_by(pods as u64);
    }

    pub fn unhealthy(&self, claim: &NodeClaim, condition: String) {
        let image = claim.status.as_ref().and_then(|status| status.image_id.clone());
        let labels = Unhealthy {
            condition,
            nodepool: label(claim, NODEPOOL),
            capacity_type: label(claim, CAPACITY_TYPE),
            image_id: image.unwrap_or_default(),
        };
        self.unhealthy.get_or_create(&labels).inc();
    }

    pub fn claim_terminated(&self, claim: &NodeClaim, took: Duration) {
        let labels = Machine {
            nodepool: label(claim, NODEPOOL),
            capacity_type: label(claim, CAPACITY_TYPE),
            zone: label(claim, ZONE),
        };
        self.terminated.get_or_create(&labels).inc();
        self.termination.get_or_create(&pool(claim)).observe(took.as_secs_f64());
    }

    pub fn instance_terminated(&self, claim: &NodeClaim, took: Duration) {
        self.instance_termination.get_or_create(&pool(claim)).observe(took.as_secs_f64());
    }

    pub fn node_created(&self, claim: &NodeClaim) {
        let labels = Place { nodepool: label(claim, NODEPOOL), zone: label(claim, ZONE) };
        self.nodes_created.get_or_create(&labels).inc();
    }

    pub fn node_drained(&self, node: &Node) {
        self.nodes_drained.get_or_create(&Pool { nodepool: node_label(node, NODEPOOL) }).inc();
    }

    pub fn node_terminated(&self, node: &Node, took: Duration, age: Duration) {
        let (nodepool, zone) = (node_label(node, NODEPOOL), node_label(node, ZONE));
        self.nodes_terminated.get_or_create(&Place { nodepool: nodepool.clone(), zone }).inc();
        self.node_termination.observe(&nodepool, took.as_secs_f64());
        self.node_lifetime.get_or_create(&Pool { nodepool }).observe(age.as_secs_f64());
    }

    pub fn eviction(&self, code: u16) {
        self.evictions.get_or_create(&Code { code }).inc();
    }

    pub fn pod_drained(&self, reason: String) {
        self.pods_drained.get_or_create(&Reason { reason }).inc();
    }
}

fn disruption(claim: &NodeClaim, reason: &str, policy: &str) -> Disrupted {
    Disrupted {
        reason: reason.to_owned(),
        nodepool: label(claim, NODEPOOL),
        capacity_type: label(claim, CAPACITY_TYPE),
        consolidation_policy: policy.to_owned(),
        termination_mode: TerminationMode::of(claim).as_str(),
    }
}

fn pool(claim: &NodeClaim) -> Pool {
    Pool { nodepool: label(claim, NODEPOOL) }
}

fn label(claim: &NodeClaim, key: &str) -> String {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
}

fn node_label(node: &Node, key: &str) -> String {
    node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_api::GoDuration;

    #[test]
    fn the_grace_period_names_the_mode() {
        // covers: LC-TERM-45
        for (period, want) in
            [(None, "graceful"), (Some("0s"), "forceful"), (Some("1s"), "eventual"), (Some("48h"), "eventual")]
        {
            let mut claim = NodeClaim::default();
            claim.spec.termination_grace_period = period.map(|text| GoDuration::parse(text).unwrap());
            assert_eq!(TerminationMode::of(&claim).as_str(), want, "{period:?}");
        }
    }

    #[test]
    fn series_have_upstreams_names_and_labels() {
        // covers: LC-GEN-25
        let mut registry = Registry::with_prefix("karpenter");
        let life = Life::register(&mut registry);
        let mut claim = NodeClaim::default();
        claim.metadata.labels =
            Some([(NODEPOOL.to_owned(), "default".to_owned()), (CAPACITY_TYPE.to_owned(), "spot".to_owned())].into());
        life.disrupted(&claim, "expired", "");
        life.pods_disrupted(&claim, "expired", "", 3);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let labels = "reason=\"expired\",nodepool=\"default\",capacity_type=\"spot\",consolidation_policy=\"\",termination_mode=\"graceful\"";
        assert!(text.contains(&format!("karpenter_nodeclaims_disrupted_total{{{labels}}} 1\n")), "{text}");
        assert!(text.contains(&format!("karpenter_pods_disruption_initiated_total{{{labels}}} 3\n")), "{text}");
    }
}
