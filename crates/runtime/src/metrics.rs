//! Series that belong to no single controller, and the page they are all on.

mod interruption;
mod offers;

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

/// The page, in the OpenMetrics text format.
pub(crate) fn page(context: &Context) -> String {
    let mut page = String::new();
    // Writing to a string fails only if a metric cannot encode itself, and then what came before it is still good.
    if let Err(error) = prometheus_client::encoding::text::encode(&mut page, &context.metrics.registry()) {
        tracing::error!(%error, "the metrics cannot be written");
    }
    // The registry knows no summaries; they come before the line that ends the page.
    let whole = page.strip_suffix(END).map(str::len);
    page.truncate(whole.unwrap_or(page.len()));
    context.metrics.life.node_termination.render(&mut page);
    if whole.is_some() {
        page.push_str(END);
    }
    page
}

/// The last line of a page.
const END: &str = "# EOF\n";

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
