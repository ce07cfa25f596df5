//! Scheduling simulations: the one that runs, and what the last one of each controller found.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// By controller. One runs at a time in each, so series of earlier ones are gone with the next.
#[derive(Clone, Debug, Default)]
pub struct Simulations(Arc<Mutex<BTreeMap<&'static str, Simulation>>>);

#[derive(Clone, Debug)]
struct Simulation {
    number: u64,
    /// Pods that have no place yet.
    depth: usize,
    /// While it runs.
    since: Option<Instant>,
    zones: BTreeMap<Arc<str>, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Run {
    controller: &'static str,
    scheduling_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Zone {
    controller: &'static str,
    zone: String,
}

impl Simulations {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let simulations = Self::default();
        registry.register_collector(Box::new(simulations.clone()));
        simulations
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<&'static str, Simulation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A controller begins to look for places for so many pods.
    pub fn begin(&self, controller: &'static str, pods: usize) {
        let mut all = self.all();
        let number = all.get(controller).map_or(1, |last| last.number + 1);
        let since = Some(Instant::now());
        all.insert(controller, Simulation { number, depth: pods, since, zones: BTreeMap::new() });
    }

    /// It is done; so many pods found no place, and so many waited for each zone.
    pub fn end(&self, controller: &'static str, left_over: usize, zones: BTreeMap<Arc<str>, usize>) {
        if let Some(simulation) = self.all().get_mut(controller) {
            *simulation = Simulation { depth: left_over, since: None, zones, ..*simulation };
        }
    }
}

impl Collector for Simulations {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let depth = Family::<Run, Gauge>::default();
        let unfinished = Family::<Run, Gauge<f64, AtomicU64>>::default();
        let by_zone = Family::<Zone, Gauge>::default();
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (controller, simulation) in self.all().iter() {
            let run = Run { controller, scheduling_id: simulation.number.to_string() };
            depth.get_or_create(&run).set(whole(simulation.depth));
            if let Some(since) = simulation.since {
                unfinished.get_or_create(&run).set(since.elapsed().as_secs_f64());
            }
            for (zone, pods) in &simulation.zones {
                by_zone.get_or_create(&Zone { controller, zone: zone.to_string() }).set(whole(*pods));
            }
        }
        let (name, help) = ("scheduler_queue_depth", "Pods that a simulation has found no place for");
        depth.encode(encoder.encode_descriptor(name, help, None, depth.metric_type())?)?;
        let (name, help) = ("scheduler_unfinished_work_seconds", "How long a simulation has been going on");
        unfinished.encode(encoder.encode_descriptor(name, help, None, unfinished.metric_type())?)?;
        let name = "scheduler_pending_pods_by_effective_zone_count";
        let help = "Waiting pods by the zone they are bound to, flexible where several will do, none where none does";
        by_zone.encode(encoder.encode_descriptor(name, help, None, by_zone.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lines(registry: &Registry) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulation_is_seen_while_it_runs_and_leaves_what_it_found() {
        // covers: SCH-ERR-17
        let mut registry = Registry::with_prefix("karpenter");
        let simulations = Simulations::register(&mut registry);
        assert!(lines(&registry).is_empty());
        simulations.begin("provisioner", 7);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(
            lines(&registry),
            [
                "karpenter_scheduler_queue_depth{controller=\"provisioner\",scheduling_id=\"1\"} 7",
                "karpenter_scheduler_unfinished_work_seconds{controller=\"provisioner\",scheduling_id=\"1\"} 3.0",
            ]
        );
        simulations.end("provisioner", 2, BTreeMap::from([("flexible".into(), 5)]));
        simulations.begin("provisioner", 1);
        simulations.end("provisioner", 0, BTreeMap::from([("zone-a".into(), 1)]));
        assert_eq!(
            lines(&registry),
            [
                "karpenter_scheduler_queue_depth{controller=\"provisioner\",scheduling_id=\"2\"} 0",
                "karpenter_scheduler_pending_pods_by_effective_zone_count{controller=\"provisioner\",zone=\"zone-a\"} 1",
            ],
            "nothing of the first is left"
        );
    }
}
