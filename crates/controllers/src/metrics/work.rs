//! The series of work itself: what every controller did, and what waits for it. Names are those of controller-runtime
//! and client-go, so that every dashboard for controllers fits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;
use tokio::time::Instant;

use super::DURATIONS;

/// How a reconciliation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Success,
    /// It asked to be called again at some time.
    Later,
    /// It asked to be called again soon.
    Again,
    Failed,
    Panicked,
}

impl Ended {
    fn result(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Later => "requeue_after",
            Self::Again => "requeue",
            Self::Failed | Self::Panicked => "error",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueName {
    name: &'static str,
    controller: &'static str,
}

/// Controller-runtime's bounds end at a minute.
const RECONCILE_BUCKETS: usize = 40;

#[derive(Clone, Copy, Debug)]
struct Reconciles;

impl MetricConstructor<Histogram> for Reconciles {
    fn new_metric(&self) -> Histogram {
        Histogram::new(DURATIONS.into_iter().take(RECONCILE_BUCKETS))
    }
}

#[derive(Clone, Copy, Debug)]
struct Queues;

impl MetricConstructor<Histogram> for Queues {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(1e-8, 10.0, 12))
    }
}

/// What is being done now, by controller and number.
type Running = Arc<Mutex<BTreeMap<(&'static str, u64), Instant>>>;

#[derive(Debug)]
pub struct Work {
    reconciles: Family<Outcome, Counter>,
    errors: Family<Controller, Counter>,
    terminal_errors: Family<Controller, Counter>,
    panics: Family<Controller, Counter>,
    timeouts: Family<Controller, Counter>,
    time: Family<Controller, Histogram, Reconciles>,
    most: Family<Controller, Gauge>,
    active: Family<Controller, Gauge>,
    depth: Family<QueueName, Gauge>,
    adds: Family<QueueName, Counter>,
    retries: Family<QueueName, Counter>,
    waited: Family<QueueName, Histogram, Queues>,
    worked: Family<QueueName, Histogram, Queues>,
    running: Running,
    next: AtomicU64,
}

/// One piece of work under way.
#[derive(Debug)]
pub struct Piece {
    controller: &'static str,
    number: u64,
    started: Instant,
}

impl Work {
    /// In a registry without a prefix.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let work = Self {
            reconciles: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            time: Family::new_with_constructor(Reconciles),
            most: Family::default(),
            active: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(Queues),
            worked: Family::new_with_constructor(Queues),
            running: Running::default(),
            next: AtomicU64::new(0),
        };
        let of_controllers = registry.sub_registry_with_prefix("controller_runtime");
        of_controllers.register("reconcile", "Reconciliations, by result", work.reconciles.clone());
        of_controllers.register("reconcile_errors", "Reconciliations that failed", work.errors.clone());
        let terminal = "Reconciliations that failed for good";
        of_controllers.register("terminal_reconcile_errors", terminal, work.terminal_errors.clone());
        of_controllers.register("reconcile_panics", "Reconciliations that panicked", work.panics.clone());
        of_controllers.register("reconcile_timeouts", "Reconciliations that took too long", work.timeouts.clone());
        of_controllers.register("reconcile_time_seconds", "Duration of reconciliations", work.time.clone());
        of_controllers.register("max_concurrent_reconciles", "What may be done at once", work.most.clone());
        of_controllers.register("active_workers", "What is being done now", work.active.clone());
        let panics = Counter::<u64>::default();
        of_controllers.register("conversion_webhook_panics", "Conversions that panicked", panics);
        let of_queues = registry.sub_registry_with_prefix("workqueue");
        of_queues.register("depth", "Keys that wait", work.depth.clone());
        of_queues.register("adds", "Keys that were added", work.adds.clone());
        of_queues.register("retries", "Keys that were added again", work.retries.clone());
        of_queues.register("queue_duration_seconds", "How long keys waited", work.waited.clone());
        of_queues.register("work_duration_seconds", "How long work took", work.worked.clone());
        registry.register_collector(Box::new(Unfinished(work.running.clone())));
        work
    }

    /// A controller is there, also before it has done anything.
    pub fn controller(&self, controller: &'static str, at_once: usize) {
        let (own, queue) = (Controller { controller }, QueueName { name: controller, controller });
        self.most.get_or_create(&own).set(i64::try_from(at_once).unwrap_or(i64::MAX));
        for ended in [Ended::Success, Ended::Later, Ended::Again, Ended::Failed] {
            drop(self.reconciles.get_or_create(&Outcome { controller, result: ended.result() }));
        }
        for counters in [&self.errors, &self.terminal_errors, &self.panics, &self.timeouts] {
            drop(counters.get_or_create(&own));
        }
        drop(self.active.get_or_create(&own));
        drop(self.depth.get_or_create(&queue));
        drop(self.adds.get_or_create(&queue));
        drop(self.retries.get_or_create(&queue));
    }

    pub fn added(&self, controller: &'static str, keys: u64) {
        if keys > 0 {
            self.adds.get_or_create(&QueueName { name: controller, controller }).inc_by(keys);
        }
    }

    pub fn waiting(&self, controller: &'static str, keys: usize) {
        let depth = i64::try_from(keys).unwrap_or(i64::MAX);
        self.depth.get_or_create(&QueueName { name: controller, controller }).set(depth);
    }

    pub fn started(&self, controller: &'static str, waited: Duration) -> Piece {
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let started = Instant::now();
        self.waited.get_or_create(&QueueName { name: controller, controller }).observe(waited.as_secs_f64());
        self.active.get_or_create(&Controller { controller }).inc();
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert((controller, number), started);
        Piece { controller, number, started }
    }

    /// A bug of ours came out, in a reconciliation or beside one.
    pub fn panicked(&self, controller: &'static str) {
        self.panics.get_or_create(&Controller { controller }).inc();
        self.errors.get_or_create(&Controller { controller }).inc();
    }

    pub fn ended(&self, piece: &Piece, ended: Ended) {
        let (controller, took) = (piece.controller, piece.started.elapsed().as_secs_f64());
        let (own, queue) = (Controller { controller }, QueueName { name: controller, controller });
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&(controller, piece.number));
        self.active.get_or_create(&own).dec();
        self.time.get_or_create(&own).observe(took);
        self.worked.get_or_create(&queue).observe(took);
        self.reconciles.get_or_create(&Outcome { controller, result: ended.result() }).inc();
        match ended {
            Ended::Success | Ended::Later => {}
            Ended::Again => drop(self.retries.get_or_create(&queue).inc()),
            Ended::Failed => {
                self.errors.get_or_create(&own).inc();
                self.retries.get_or_create(&queue).inc();
            }
            Ended::Panicked => {
                self.panicked(controller);
                self.retries.get_or_create(&queue).inc();
            }
        }
    }
}

/// How long what is not finished has been going on.
#[derive(Debug)]
struct Unfinished(Running);

impl Collector for Unfinished {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let total = Family::<QueueName, Gauge<f64, AtomicU64>>::default();
        let longest = Family::<QueueName, Gauge<f64, AtomicU64>>::default();
        for ((controller, _), started) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let (queue, age) = (QueueName { name: controller, controller }, started.elapsed().as_secs_f64());
            total.get_or_create(&queue).inc_by(age);
            let longest = longest.get_or_create(&queue);
            longest.set(longest.get().max(age));
        }
        let help = "Age of all work that is not finished";
        let metric = encoder.encode_descriptor("workqueue_unfinished_work_seconds", help, None, total.metric_type())?;
        total.encode(metric)?;
        let (name, help) = ("workqueue_longest_running_processor_seconds", "Age of the oldest work");
        longest.encode(encoder.encode_descriptor(name, help, None, longest.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_is_counted_from_its_queue_to_its_end() {
        let mut registry = Registry::default();
        let work = Work::register(&mut registry);
        work.controller("x", 10);
        work.added("x", 3);
        work.waiting("x", 2);
        let done = work.started("x", Duration::from_millis(5));
        tokio::time::advance(Duration::from_secs(2)).await;
        work.ended(&done, Ended::Failed);
        let _left = work.started("x", Duration::ZERO);
        tokio::time::advance(Duration::from_secs(3)).await;
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "controller_runtime_reconcile_total{controller=\"x\",result=\"error\"} 1",
            "controller_runtime_reconcile_total{controller=\"x\",result=\"success\"} 0",
            "controller_runtime_reconcile_errors_total{controller=\"x\"} 1",
            "controller_runtime_terminal_reconcile_errors_total{controller=\"x\"} 0",
            "controller_runtime_reconcile_panics_total{controller=\"x\"} 0",
            "controller_runtime_reconcile_timeouts_total{controller=\"x\"} 0",
            "controller_runtime_reconcile_time_seconds_sum{controller=\"x\"} 2.0",
            "controller_runtime_max_concurrent_reconciles{controller=\"x\"} 10",
            "controller_runtime_active_workers{controller=\"x\"} 1",
            "controller_runtime_conversion_webhook_panics_total 0",
            "workqueue_depth{name=\"x\",controller=\"x\"} 2",
            "workqueue_adds_total{name=\"x\",controller=\"x\"} 3",
            "workqueue_retries_total{name=\"x\",controller=\"x\"} 1",
            "workqueue_queue_duration_seconds_count{name=\"x\",controller=\"x\"} 2",
            "workqueue_work_duration_seconds_sum{name=\"x\",controller=\"x\"} 2.0",
            "workqueue_unfinished_work_seconds{name=\"x\",controller=\"x\"} 3.0",
            "workqueue_longest_running_processor_seconds{name=\"x\",controller=\"x\"} 3.0",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is not in\n{text}");
        }
    }
}
