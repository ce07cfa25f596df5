//! The series of what was decided: scheduling, voluntary disruption, and the state both decide on.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::MicroUsd;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use karpenter_disruption::budgets::Allowance;

use super::Summary;

/// Seconds; the bounds all duration histograms share.
pub const DURATIONS: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];

type Dollars = Gauge<f64, AtomicU64>;

#[derive(Debug)]
pub struct Choices {
    created: Family<Created, Counter>,
    scheduling: Family<Controller, Histogram, Durations>,
    unschedulable: Family<Controller, Gauge>,
    ignored: Gauge,
    evaluation: Family<Method, Histogram, Durations>,
    decisions: Family<Decision, Counter>,
    decisions_by_pool: Family<PoolDecision, Counter>,
    eligible: Family<Reason, Gauge>,
    timeouts: Family<Kind, Counter>,
    failed_validations: Family<Kind, Counter>,
    queue_failures: Family<Decision, Counter>,
    scores: Family<Moved, Histogram, Scores>,
    moves: Family<Moved, Counter>,
    allowed: Family<PoolReason, Gauge>,
    consuming: Family<PoolReason, Gauge>,
    synced: Gauge,
    unsynced: Dollars,
    nodes: Gauge,
    unreadable: Family<OfKind, Gauge>,
    cost: Family<Pool, Dollars>,
    cost_errors: Family<Pool, Counter>,
    unsynced_since: Mutex<Option<Timestamp>>,
    provisioner: Summary,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Created {
    reason: &'static str,
    nodepool: String,
    min_values_relaxed: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    reason: &'static str,
    consolidation_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decision {
    decision: &'static str,
    reason: &'static str,
    consolidation_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolDecision {
    nodepool: String,
    decision: &'static str,
    reason: &'static str,
    consolidation_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    consolidation_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolReason {
    nodepool: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Moved {
    decision: &'static str,
    nodepool: String,
    policy: String,
}

#[derive(Clone, Copy, Debug)]
struct Scores;

impl MetricConstructor<Histogram> for Scores {
    fn new_metric(&self) -> Histogram {
        Histogram::new([0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0])
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pool {
    nodepool: String,
}

#[derive(Clone, Copy, Debug)]
struct Durations;

impl MetricConstructor<Histogram> for Durations {
    fn new_metric(&self) -> Histogram {
        Histogram::new(DURATIONS)
    }
}

/// A way of disrupting nodes, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodName {
    /// With its capital letter, as budgets and conditions have it.
    pub reason: &'static str,
    /// In lower case, as most series have it.
    pub label: &'static str,
    pub consolidation_type: &'static str,
}

impl MethodName {
    /// Whether it is about money, and follows the pool's consolidation policy.
    pub fn is_consolidation(self) -> bool {
        self != DRIFT
    }
}

pub const EMPTINESS: MethodName = MethodName { reason: "Empty", label: "empty", consolidation_type: "empty" };
pub const DRIFT: MethodName = MethodName { reason: "Drifted", label: "drifted", consolidation_type: "" };
pub const MULTI: MethodName =
    MethodName { reason: "Underutilized", label: "underutilized", consolidation_type: "multi" };
pub const SINGLE: MethodName =
    MethodName { reason: "Underutilized", label: "underutilized", consolidation_type: "single" };

impl Choices {
    /// In a registry whose prefix is `karpenter`; its text format adds `_total` to counters.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let durations = || Family::new_with_constructor(Durations);
        let choices = Self {
            created: Family::default(),
            scheduling: Family::new_with_constructor(Durations),
            unschedulable: Family::default(),
            ignored: Gauge::default(),
            evaluation: durations(),
            decisions: Family::default(),
            decisions_by_pool: Family::default(),
            eligible: Family::default(),
            timeouts: Family::default(),
            failed_validations: Family::default(),
            queue_failures: Family::default(),
            scores: Family::new_with_constructor(Scores),
            moves: Family::default(),
            allowed: Family::default(),
            consuming: Family::default(),
            synced: Gauge::default(),
            unsynced: Gauge::default(),
            nodes: Gauge::default(),
            unreadable: Family::default(),
            cost: Family::default(),
            cost_errors: Family::default(),
            unsynced_since: Mutex::default(),
            provisioner: Summary::plain("karpenter_provisioner_scheduling_duration"),
        };
        // There from the start, so that alerts on them can be written before anything happens.
        for consolidation_type in ["multi", "single"] {
            drop(choices.timeouts.get_or_create(&Kind { consolidation_type }));
        }
        choices.register_scheduling(registry);
        choices.register_disruption(registry);
        choices.register_state(registry);
        choices
    }

    fn register_scheduling(&self, registry: &mut Registry) {
        registry.register("nodeclaims_created", "Claims created, by reason", self.created.clone());
        let duration = "Duration of scheduling simulations";
        registry.register("scheduler_scheduling_duration_seconds", duration, self.scheduling.clone());
        registry.register(
            "scheduler_unschedulable_pods_count",
            "Pods no place was found for",
            self.unschedulable.clone(),
        );
        registry.register("scheduler_ignored_pods_count", "Pods that validation left out", self.ignored.clone());
    }

    fn register_disruption(&self, registry: &mut Registry) {
        let mut add = |name: &str, help: &str, metric: &dyn Fn(&mut Registry, String, &str)| {
            metric(registry, format!("voluntary_disruption_{name}"), help);
        };
        add("decision_evaluation_duration_seconds", "Duration of decisions", &|registry, name, help| {
            registry.register(name, help, self.evaluation.clone());
        });
        add("decisions", "Decisions carried out", &|registry, name, help| {
            registry.register(name, help, self.decisions.clone());
        });
        add("decisions_by_nodepool", "Decisions carried out, by pool", &|registry, name, help| {
            registry.register(name, help, self.decisions_by_pool.clone());
        });
        add("eligible_nodes", "Nodes a method may take", &|registry, name, help| {
            registry.register(name, help, self.eligible.clone());
        });
        add("consolidation_timeouts", "Searches that ran out of time", &|registry, name, help| {
            registry.register(name, help, self.timeouts.clone());
        });
        add("failed_validations", "Candidates that did not hold", &|registry, name, help| {
            registry.register(name, help, self.failed_validations.clone());
        });
        add("queue_failures", "Commands that were rolled back", &|registry, name, help| {
            registry.register(name, help, self.queue_failures.clone());
        });
        registry.register("consolidation_score", "Score of balanced moves", self.scores.clone());
        registry.register("consolidation_moves", "Moves that were judged", self.moves.clone());
        registry.register("nodepools_allowed_disruptions", "What budgets allow", self.allowed.clone());
        registry.register("nodepools_nodes_consuming_budgets", "What is taken of it", self.consuming.clone());
    }

    fn register_state(&self, registry: &mut Registry) {
        registry.register("cluster_state_synced", "Whether decisions may be made", self.synced.clone());
        registry.register("cluster_state_unsynced_time_seconds", "Since when not", self.unsynced.clone());
        registry.register("cluster_state_node_count", "Nodes that are known", self.nodes.clone());
        let unreadable = "Objects that cannot be read, or not in whole";
        registry.register("cluster_state_unreadable_objects", unreadable, self.unreadable.clone());
        registry.register("nodepools_cost_total", "Estimated price per hour", self.cost.clone());
        registry.register("nodepools_cost_tracker_errors", "Prices that were not found", self.cost_errors.clone());
    }

    /// How many objects of each kind cannot be read. A kind that has had one keeps its series, at zero.
    pub fn unreadable(&self, counts: &BTreeMap<karpenter_index::Kind, usize>) {
        for kind in karpenter_index::Kind::ALL {
            let (labels, count) = (OfKind { kind: kind.name() }, counts.get(&kind).copied().unwrap_or(0));
            match self.unreadable.get(&labels) {
                Some(series) => {
                    series.set(whole(count));
                }
                None if count > 0 => {
                    self.unreadable.get_or_create(&labels).set(whole(count));
                }
                None => {}
            }
        }
    }

    pub fn claim_created(&self, reason: &'static str, pool: &str, min_values_relaxed: bool) {
        let labels = Created { reason, nodepool: pool.to_owned(), min_values_relaxed: min_values_relaxed.to_string() };
        self.created.get_or_create(&labels).inc();
    }

    /// A simulation of a controller is over.
    pub fn scheduled(&self, controller: &'static str, took: Duration, unschedulable: usize, ignored: usize) {
        let labels = Controller { controller };
        if controller == crate::provisioning::PROVISIONER {
            self.provisioner.observe("", took.as_secs_f64());
        }
        self.scheduling.get_or_create(&labels).observe(took.as_secs_f64());
        self.unschedulable.get_or_create(&labels).set(whole(unschedulable));
        self.ignored.set(whole(ignored));
    }

    /// A look for what could be disrupted is over, which is one simulation for all that it tries.
    pub fn searched(&self, controller: &'static str, took: Duration) {
        self.scheduling.get_or_create(&Controller { controller }).observe(took.as_secs_f64());
    }

    /// The provisioner's simulations, under a name of old.
    pub fn provisioner_scheduling(&self) -> &Summary {
        &self.provisioner
    }

    pub fn evaluated(&self, method: MethodName, took: Duration) {
        let labels = Method { reason: method.label, consolidation_type: method.consolidation_type };
        self.evaluation.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub fn eligible(&self, method: MethodName, nodes: usize) {
        self.eligible.get_or_create(&Reason { reason: method.label }).set(whole(nodes));
    }

    /// A command is under way: `delete`, or `replace`.
    pub fn decided(&self, method: MethodName, decision: &'static str, pools: impl IntoIterator<Item = String>) {
        let MethodName { label: reason, consolidation_type, .. } = method;
        for nodepool in pools {
            let labels = PoolDecision { nodepool, decision, reason, consolidation_type };
            self.decisions_by_pool.get_or_create(&labels).inc();
        }
        self.decisions.get_or_create(&Decision { decision, reason, consolidation_type }).inc();
    }

    /// A command was rolled back with so many replacements that never came. The label for the type carries the decision,
    /// as upstream's does.
    pub fn queue_failed(&self, method: MethodName, decision: &'static str, replacements: usize) {
        let labels = Decision { decision, reason: method.label, consolidation_type: decision };
        self.queue_failures.get_or_create(&labels).inc_by(replacements as u64);
    }

    pub fn failed_validations(&self, method: MethodName, candidates: usize) {
        let labels = Kind { consolidation_type: method.consolidation_type };
        self.failed_validations.get_or_create(&labels).inc_by(candidates as u64);
    }

    /// A pool approved or rejected a move; only a Balanced one has a score for it.
    pub fn moved(&self, decision: &'static str, pool: &str, policy: &str, score: Option<f64>) {
        let labels = Moved { decision, nodepool: pool.to_owned(), policy: policy.to_owned() };
        self.moves.get_or_create(&labels).inc();
        if let Some(score) = score {
            self.scores.get_or_create(&labels).observe(score);
        }
    }

    /// The reason keeps its capital letter here.
    pub fn allowance(&self, pool: &str, reason: &'static str, allowance: Allowance) {
        let labels = PoolReason { nodepool: pool.to_owned(), reason };
        self.allowed.get_or_create(&labels).set(allowance.allowed.into());
        self.consuming.get_or_create(&labels).set(allowance.consumed.into());
    }

    /// What is known of the cluster now; answers for how long decisions have had to wait.
    pub fn state(&self, synced: bool, nodes: usize, now: Timestamp) -> Duration {
        self.synced.set(i64::from(synced));
        self.nodes.set(whole(nodes));
        let mut since = self.unsynced_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = if synced { None } else { since.or(Some(now)) };
        let waited = since.map(|since| crate::clock::until(since, now)).unwrap_or_default();
        self.unsynced.set(waited.as_secs_f64());
        waited
    }

    pub fn pool_cost(&self, pool: &str, cost: Option<MicroUsd>) {
        let labels = Pool { nodepool: pool.to_owned() };
        match cost {
            Some(cost) => {
                self.cost.get_or_create(&labels).set(cost.dollars());
            }
            None => {
                self.cost.remove(&labels);
            }
        }
    }

    pub fn pool_cost_error(&self, pool: &str) {
        self.cost_errors.get_or_create(&Pool { nodepool: pool.to_owned() }).inc();
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn series_have_upstreams_names_and_labels() {
        // covers: DIS-LOOP-12
        let mut registry = Registry::with_prefix("karpenter");
        let choices = Choices::register(&mut registry);
        choices.claim_created("provisioned", "p", false);
        choices.scheduled("provisioner", Duration::from_millis(7), 2, 3);
        choices.decided(EMPTINESS, "delete", ["p".to_owned()]);
        choices.decided(MULTI, "replace", ["p".to_owned()]);
        choices.queue_failed(DRIFT, "replace", 2);
        choices.moved("approved", "p", "Balanced", Some(0.3));
        choices.moved("approved", "p", "WhenEmptyOrUnderutilized", None);
        choices.eligible(EMPTINESS, 4);
        choices.eligible(MULTI, 3);
        choices.eligible(SINGLE, 2);
        choices.evaluated(EMPTINESS, Duration::from_secs(1));
        choices.failed_validations(EMPTINESS, 5);
        choices.allowance("p", EMPTINESS.reason, Allowance { nodes: 9, allowed: 6, consumed: 1, held: 0 });
        choices.state(false, 8, Timestamp::from_second(100).unwrap());
        let waited = choices.state(false, 8, Timestamp::from_second(130).unwrap());
        assert_eq!(waited, Duration::from_secs(30));
        choices.pool_cost("p", Some(MicroUsd(1_500_000)));
        choices.pool_cost_error("p");
        let text = text(&registry);
        for line in [
            "karpenter_nodeclaims_created_total{reason=\"provisioned\",nodepool=\"p\",min_values_relaxed=\"false\"} 1",
            "karpenter_scheduler_scheduling_duration_seconds_count{controller=\"provisioner\"} 1",
            "karpenter_scheduler_scheduling_duration_seconds_bucket{le=\"0.01\",controller=\"provisioner\"} 1",
            "karpenter_scheduler_unschedulable_pods_count{controller=\"provisioner\"} 2",
            "karpenter_scheduler_ignored_pods_count 3",
            "karpenter_voluntary_disruption_decisions_total{decision=\"delete\",reason=\"empty\",consolidation_type=\"empty\"} 1",
            "karpenter_voluntary_disruption_decisions_by_nodepool_total{nodepool=\"p\",decision=\"delete\",reason=\"empty\",consolidation_type=\"empty\"} 1",
            "karpenter_voluntary_disruption_decisions_total{decision=\"replace\",reason=\"underutilized\",consolidation_type=\"multi\"} 1",
            "karpenter_consolidation_score_bucket{le=\"0.33\",decision=\"approved\",nodepool=\"p\",policy=\"Balanced\"} 1",
            "karpenter_consolidation_score_bucket{le=\"0.25\",decision=\"approved\",nodepool=\"p\",policy=\"Balanced\"} 0",
            "karpenter_consolidation_moves_total{decision=\"approved\",nodepool=\"p\",policy=\"WhenEmptyOrUnderutilized\"} 1",
            "karpenter_voluntary_disruption_queue_failures_total{decision=\"replace\",reason=\"drifted\",consolidation_type=\"replace\"} 2",
            "karpenter_voluntary_disruption_eligible_nodes{reason=\"empty\"} 4",
            "karpenter_voluntary_disruption_eligible_nodes{reason=\"underutilized\"} 2",
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count{reason=\"empty\",consolidation_type=\"empty\"} 1",
            "karpenter_voluntary_disruption_failed_validations_total{consolidation_type=\"empty\"} 5",
            "karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type=\"multi\"} 0",
            "karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type=\"single\"} 0",
            "karpenter_nodepools_allowed_disruptions{nodepool=\"p\",reason=\"Empty\"} 6",
            "karpenter_nodepools_nodes_consuming_budgets{nodepool=\"p\",reason=\"Empty\"} 1",
            "karpenter_cluster_state_synced 0",
            "karpenter_cluster_state_unsynced_time_seconds 30.0",
            "karpenter_cluster_state_node_count 8",
            "karpenter_nodepools_cost_total{nodepool=\"p\"} 1.5",
            "karpenter_nodepools_cost_tracker_errors_total{nodepool=\"p\"} 1",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is not in\n{text}");
        }
        assert_eq!(choices.state(true, 8, Timestamp::from_second(140).unwrap()), Duration::ZERO);
    }
}
