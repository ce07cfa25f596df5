//! Series that belong to no single controller, and the page they are all on.

mod conditions;
mod interruption;
mod legacy;
mod objects;
mod offers;
mod pods;
mod text;

use std::sync::Arc;

use karpenter_controllers::Context;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use interruption::InterruptionSeries;
use offers::OfferSeries;

/// What a program of ours was built from. Upstream's label names stay, so that dashboards keep working.
const BUILD: [(&str, &str); 4] = [
    ("version", env!("CARGO_PKG_VERSION")),
    ("goversion", concat!("rust", env!("CARGO_PKG_RUST_VERSION"))),
    ("goarch", std::env::consts::ARCH),
    ("commit", crate::log::COMMIT),
];

pub(crate) fn register(context: &Arc<Context>) {
    let mut registry = context.metrics.registry();
    registry.register_collector(Box::new(Build));
}

/// What is on the page beside what is always there.
#[derive(Clone, Copy, Debug)]
pub struct Show {
    /// Some series also under the names they had before 1.0.
    pub legacy: bool,
}

/// The page, in the text format that every scraper of Prometheus reads.
pub fn page(context: &Context, show: Show) -> String {
    let mut page = String::new();
    for registry in [context.metrics.registry(), context.metrics.plain_registry()] {
        let mut text = String::new();
        // Writing to a string fails only if a metric cannot encode itself, and then what came before it is still good.
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &registry) {
            tracing::error!(%error, "the metrics cannot be written");
        }
        plain(&text, &mut page);
    }
    context.metrics.life.node_termination.render(&mut page);
    if context.index.is_listed() && !context.settings.quiet_status {
        objects::pools(context, show.legacy, &mut page);
        objects::nodes(context, &mut page);
        pods::pods(context, &mut page);
        conditions::conditions(context, &mut page);
    }
    context.metrics.pods.startup.render(&mut page);
    if show.legacy {
        legacy::scheduling(context, &mut page);
    }
    crate::process::render(&mut page);
    page
}

/// OpenMetrics has counters without their suffix in the head, units, and a last line; the older format does not.
fn plain(open_metrics: &str, page: &mut String) {
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), help) => {
                let counter = lines.peek().is_some_and(|next| *next == format!("# TYPE {name} counter"));
                let suffix = if counter { "_total" } else { "" };
                page.push_str(&format!("# HELP {name}{suffix} {}\n", help.unwrap_or_default()));
            }
            (Some("#"), Some("TYPE"), Some(name), Some("counter")) => {
                page.push_str(&format!("# TYPE {name}_total counter\n"));
            }
            (Some("#"), Some("EOF" | "UNIT"), ..) => {}
            _ => {
                page.push_str(line);
                page.push('\n');
            }
        }
    }
}

/// Whether this replica leads.
#[derive(Clone, Debug)]
pub struct Leading {
    status: Family<Lease, Gauge>,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lease {
    name: String,
}

impl Leading {
    /// For a lease of this name.
    pub fn register(context: &Context, name: &str) -> Self {
        let leading = Self { status: Family::default(), name: name.to_owned() };
        let slow = Family::<Lease, Counter>::default();
        if !name.is_empty() {
            leading.set(false);
            drop(slow.get_or_create(&Lease { name: name.to_owned() }));
        }
        let mut registry = context.metrics.plain_registry();
        registry.register("leader_election_master_status", "Whether we lead", leading.status.clone());
        registry.register("leader_election_slowpath", "Renewals that had to look first", slow);
        leading
    }

    pub fn set(&self, leads: bool) {
        if !self.name.is_empty() {
            self.status.get_or_create(&Lease { name: self.name.clone() }).set(i64::from(leads));
        }
    }
}

/// The program itself.
#[derive(Debug)]
struct Build;

impl Collector for Build {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let build = Family::<Vec<(&'static str, &'static str)>, Gauge>::default();
        build.get_or_create(&BUILD.to_vec()).set(1);
        let help = "A metric with a constant '1' value labeled by version from which karpenter was built";
        build.encode(encoder.encode_descriptor("build_info", help, None, build.metric_type())?)
    }
}

/// What the provider counts.
#[derive(Debug)]
pub(crate) struct CloudSeries {
    launch_failures: Family<LaunchFailure, Counter>,
    termination_failures: Family<Zone, Counter>,
    pub(crate) interruption: InterruptionSeries,
    pub(crate) offers: OfferSeries,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaunchFailure {
    zone: String,
    zone_id: String,
    capacity_type: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Zone {
    zone: String,
    zone_id: String,
}

impl CloudSeries {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let series = Self {
            launch_failures: Family::default(),
            termination_failures: Family::default(),
            interruption: InterruptionSeries::register(registry),
            offers: OfferSeries::register(registry),
        };
        registry.register(
            "cloudprovider_instance_launch_failures",
            "Number of offerings that a launch found nothing in",
            series.launch_failures.clone(),
        );
        registry.register(
            "cloudprovider_instance_termination_failures",
            "Number of instances that could not be terminated when asked",
            series.termination_failures.clone(),
        );
        series
    }

    pub(crate) fn launch_failed(&self, zone: &str, zone_id: &str, capacity_type: &str, reason: &'static str) {
        let labels = LaunchFailure {
            zone: zone.to_owned(),
            zone_id: zone_id.to_owned(),
            capacity_type: capacity_type.to_owned(),
            reason,
        };
        self.launch_failures.get_or_create(&labels).inc();
    }

    pub(crate) fn termination_failed(&self, zone: &str, zone_id: &str) {
        let labels = Zone { zone: zone.to_owned(), zone_id: zone_id.to_owned() };
        self.termination_failures.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karpenter_core::MicroUsd;
    use karpenter_provider_aws::offering_series::{OfferingSeries, TypeSeries};

    use super::*;

    fn page(registry: &Registry) -> String {
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, registry).unwrap();
        page
    }

    #[test]
    fn the_provider_has_upstreams_series() {
        let mut registry = Registry::with_prefix("karpenter");
        let series = CloudSeries::register(&mut registry);
        series.launch_failed("a", "az1", "spot", "InsufficientInstanceCapacity");
        series.termination_failed("a", "az1");
        series.interruption.received("no_op");
        series.interruption.unhealthy("SystemStatus");
        series.interruption.handled(Duration::from_secs(2));
        let offer = |name: &str, available: bool, price: Option<u64>| OfferingSeries {
            instance_type: name.into(),
            capacity_type: "spot".into(),
            zone: "a".into(),
            available,
            price: price.map(MicroUsd),
        };
        let kind = TypeSeries { instance_type: "m5.large".into(), vcpus: 2, memory_bytes: 8 << 30 };
        let first = vec![offer("m5.large", true, Some(50_000)), offer("gone", true, None)];
        let (of_first, of_second) = (kind.clone(), kind);
        series.offers.offerings(move || (first.clone(), vec![of_first.clone()]));
        let second = vec![offer("m5.large", true, Some(50_000)), offer("c5.large", false, None)];
        series.offers.offerings(move || (second.clone(), vec![of_second.clone()]));
        series.offers.batched("create_fleet", 50, Duration::from_millis(35));
        series.offers.user_data("main", 1234);
        series.offers.user_data("other", 1);
        series.offers.node_class_gone("other");
        let page = page(&registry);
        let of = |name: &str| format!("{{instance_type=\"{name}\",capacity_type=\"spot\",zone=\"a\"}}");
        for line in [
            "karpenter_cloudprovider_instance_launch_failures_total{zone=\"a\",zone_id=\"az1\",capacity_type=\"spot\",reason=\"InsufficientInstanceCapacity\"} 1".to_owned(),
            "karpenter_cloudprovider_instance_termination_failures_total{zone=\"a\",zone_id=\"az1\"} 1".to_owned(),
            "karpenter_interruption_received_messages_total{message_type=\"no_op\"} 1".to_owned(),
            "karpenter_interruption_instance_status_unhealthy_total{category=\"SystemStatus\"} 1".to_owned(),
            "karpenter_interruption_message_queue_duration_seconds_sum 2".to_owned(),
            format!("karpenter_cloudprovider_instance_type_offering_available{} 1", of("m5.large")),
            format!("karpenter_cloudprovider_instance_type_offering_available{} 0", of("c5.large")),
            format!("karpenter_cloudprovider_instance_type_offering_price_estimate{} 0.05", of("m5.large")),
            "karpenter_cloudprovider_instance_type_cpu_cores{instance_type=\"m5.large\"} 2".to_owned(),
            "karpenter_cloudprovider_instance_type_memory_bytes{instance_type=\"m5.large\"} 8589934592".to_owned(),
            "karpenter_cloudprovider_batcher_batch_size_sum{batcher=\"create_fleet\"} 50".to_owned(),
            "karpenter_cloudprovider_batcher_batch_time_seconds_sum{batcher=\"create_fleet\"} 0.035".to_owned(),
            "karpenter_ec2nodeclasses_userdata_bytes{nodeclass=\"main\"} 1234".to_owned(),
        ] {
            assert!(page.contains(&line), "{line} is not in\n{page}");
        }
        let gone = ["instance_type=\"gone\"", "nodeclass=\"other\""];
        assert!(gone.iter().all(|label| !page.contains(label)), "what is gone has no series: {page}");
    }
}
