//! Changes of conditions, and how long objects took to go. Names are those of operatorpkg.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_api::ObjectMeta;
use karpenter_api::labels::{EC2_NODE_CLASS, INITIALIZED, NODEPOOL};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// The kinds whose conditions are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusKind {
    NodeClaim,
    NodePool,
    Node,
    /// The provider's.
    NodeClass,
}

impl StatusKind {
    pub const ALL: [Self; 4] = [Self::NodeClaim, Self::NodePool, Self::Node, Self::NodeClass];

    pub fn kind(self) -> &'static str {
        match self {
            Self::NodeClaim => "NodeClaim",
            Self::NodePool => "NodePool",
            Self::Node => "Node",
            Self::NodeClass => "EC2NodeClass",
        }
    }

    pub fn group(self) -> &'static str {
        match self {
            Self::NodeClaim | Self::NodePool => "karpenter.sh",
            Self::Node => "",
            Self::NodeClass => "karpenter.k8s.aws",
        }
    }

    /// `operator_<kind>_<rest>`.
    pub fn series(self, rest: &str) -> String {
        format!("operator_{}_{rest}", self.kind().to_lowercase())
    }

    /// Labels of the object that its series carry.
    pub fn extra_labels(self) -> &'static [&'static str] {
        match self {
            Self::NodeClaim => &[EC2_NODE_CLASS, NODEPOOL],
            Self::Node => &[EC2_NODE_CLASS, NODEPOOL, INITIALIZED],
            Self::NodePool | Self::NodeClass => &[],
        }
    }

    /// Whether it is in the deprecated series for all kinds.
    pub fn has_general_series(self) -> bool {
        self != Self::Node
    }

    fn buckets(self) -> Buckets {
        match self {
            Self::NodeClaim | Self::NodePool | Self::Node => Buckets::Doubling,
            Self::NodeClass => Buckets::Default,
        }
    }
}

type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Copy, Debug)]
enum Buckets {
    /// Half a second to more than two hours.
    Doubling,
    /// What Prometheus' clients have when nobody says otherwise.
    Default,
}

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        match self {
            Self::Doubling => Histogram::new(exponential_buckets(0.5, 2.0, 15)),
            Self::Default => Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
        }
    }
}

#[derive(Debug)]
struct Series {
    transitions: Family<Labels, Counter>,
    durations: Family<Labels, Histogram, Buckets>,
    terminations: Family<Labels, Histogram, Buckets>,
}

impl Series {
    fn register(registry: &mut Registry, buckets: Buckets, name: impl Fn(&str) -> String) -> Self {
        let series = Self {
            transitions: Family::default(),
            durations: Family::new_with_constructor(buckets),
            terminations: Family::new_with_constructor(buckets),
        };
        let help = "Changes of conditions";
        registry.register(name("status_condition_transitions"), help, series.transitions.clone());
        let help = "How long a condition had a status before it changed";
        registry.register(name("status_condition_transition_seconds"), help, series.durations.clone());
        let help = "From deletion to gone";
        registry.register(name("termination_duration_seconds"), help, series.terminations.clone());
        series
    }
}

#[derive(Debug)]
pub struct Status {
    own: BTreeMap<StatusKind, Series>,
    general: Series,
}

/// A condition that has another status than before.
#[derive(Debug)]
pub struct Transition<'a> {
    pub condition: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    /// The status it had, and for how long.
    pub before: Option<(&'a str, Duration)>,
}

impl Status {
    /// In a registry without a prefix.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let mut own = |kind: StatusKind| Series::register(registry, kind.buckets(), |rest| kind.series(rest));
        let own = StatusKind::ALL.map(|kind| (kind, own(kind))).into();
        let general = Series::register(registry, Buckets::Default, |rest| format!("operator_{rest}"));
        Self { own, general }
    }

    pub fn transition(&self, kind: StatusKind, metadata: &ObjectMeta, transition: &Transition<'_>) {
        let Transition { condition, status, reason, before } = transition;
        let now =
            [("type", (*condition).to_owned()), ("status", (*status).to_owned()), ("reason", (*reason).to_owned())];
        let then = |was: &str| [("type", (*condition).to_owned()), ("status", was.to_owned())];
        for (series, more) in self.targets(kind, metadata) {
            series.transitions.get_or_create(&now.iter().cloned().chain(more.iter().cloned()).collect()).inc();
            if let Some((was, lasted)) = before {
                let labels = then(was).into_iter().chain(more).collect();
                series.durations.get_or_create(&labels).observe(lasted.as_secs_f64());
            }
        }
    }

    pub fn terminated(&self, kind: StatusKind, metadata: &ObjectMeta, took: Duration) {
        for (series, more) in self.targets(kind, metadata) {
            series.terminations.get_or_create(&more).observe(took.as_secs_f64());
        }
    }

    /// The series of the kind with the object's labels, and those for all kinds.
    fn targets(&self, kind: StatusKind, metadata: &ObjectMeta) -> Vec<(&Series, Labels)> {
        let own = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
        let name = |key: &str| match key {
            EC2_NODE_CLASS => "karpenter_k8s_aws_ec2nodeclass",
            NODEPOOL => "karpenter_sh_nodepool",
            _ => "karpenter_sh_initialized",
        };
        let extra: Labels = kind.extra_labels().iter().map(|key| (name(key), own(key))).collect();
        let mut targets: Vec<(&Series, Labels)> =
            self.own.get(&kind).map(|series| (series, extra)).into_iter().collect();
        if kind.has_general_series() {
            targets.push((&self.general, vec![("group", kind.group().to_owned()), ("kind", kind.kind().to_owned())]));
        }
        targets
    }
}
