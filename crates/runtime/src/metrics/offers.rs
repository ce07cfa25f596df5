//! Series of what can be bought, of calls that were joined, and of user data.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use karpenter_controllers::metrics::DURATIONS;
use karpenter_provider_aws::offering_series::{OfferingSeries, TypeSeries};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Requests joined in one call.
const SIZES: [f64; 13] = [1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

pub(crate) struct OfferSeries {
    sold: Arc<RwLock<Sold>>,
    batch_size: Family<Batcher, Histogram, Sizes>,
    batch_time: Family<Batcher, Histogram, Times>,
    user_data: Family<Class, Gauge>,
}

impl fmt::Debug for OfferSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfferSeries").finish_non_exhaustive()
    }
}

/// What can be bought, as it was told last. A region has ten thousand offerings: their series are made and written when
/// they are asked for, not kept.
type Sold = Box<dyn Fn() -> (Vec<OfferingSeries>, Vec<TypeSeries>) + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Batcher {
    batcher: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Class {
    nodeclass: String,
}

#[derive(Clone, Debug)]
struct Sizes;

impl MetricConstructor<Histogram> for Sizes {
    fn new_metric(&self) -> Histogram {
        Histogram::new(SIZES)
    }
}

#[derive(Clone, Debug)]
struct Times;

impl MetricConstructor<Histogram> for Times {
    fn new_metric(&self) -> Histogram {
        Histogram::new(DURATIONS)
    }
}

impl OfferSeries {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let series = Self {
            sold: Arc::new(RwLock::new(Box::new(|| (Vec::new(), Vec::new())))),
            batch_size: Family::new_with_constructor(Sizes),
            batch_time: Family::new_with_constructor(Times),
            user_data: Family::default(),
        };
        registry.register_collector(Box::new(Shown(series.sold.clone())));
        let help = "Requests that were joined in one call";
        registry.register("cloudprovider_batcher_batch_size", help, series.batch_size.clone());
        let help = "How long the first request of a call waited for others";
        registry.register("cloudprovider_batcher_batch_time_seconds", help, series.batch_time.clone());
        let help = "Size of the user data that was rendered last, before base64";
        registry.register("ec2nodeclasses_userdata_bytes", help, series.user_data.clone());
        series
    }

    /// What is not said any more is gone.
    pub(crate) fn offerings(&self, sold: impl Fn() -> (Vec<OfferingSeries>, Vec<TypeSeries>) + Send + Sync + 'static) {
        *self.sold.write().unwrap_or_else(PoisonError::into_inner) = Box::new(sold);
    }

    pub(crate) fn batched(&self, batcher: &'static str, size: usize, waited: Duration) {
        let labels = Batcher { batcher };
        self.batch_size.get_or_create(&labels).observe(size as f64);
        self.batch_time.get_or_create(&labels).observe(waited.as_secs_f64());
    }

    pub(crate) fn user_data(&self, class: &str, bytes: usize) {
        let labels = Class { nodeclass: class.to_owned() };
        self.user_data.get_or_create(&labels).set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    pub(crate) fn node_class_gone(&self, class: &str) {
        self.user_data.remove(&Class { nodeclass: class.to_owned() });
    }
}

struct Shown(Arc<RwLock<Sold>>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (offerings, types) = (*self.0.read().unwrap_or_else(PoisonError::into_inner))();
        let (name, help) = ("cloudprovider_instance_type_offering_available", "Whether some pool can buy this now");
        gauges(&mut encoder, name, help, offerings.iter().map(|one| (offer(one), i64::from(one.available))))?;
        let price = |one: &OfferingSeries| one.price.map_or(0.0, |price| price.dollars());
        let name = "cloudprovider_instance_type_offering_price_estimate";
        let help = "Dollars per hour, as far as known";
        gauges(&mut encoder, name, help, offerings.iter().map(|one| (offer(one), price(one))))?;
        let (name, help) = ("cloudprovider_instance_type_cpu_cores", "vCPUs of an instance type");
        gauges(&mut encoder, name, help, types.iter().map(|one| (kind(one), i64::from(one.vcpus))))?;
        let name = "cloudprovider_instance_type_memory_bytes";
        let help = "Memory of an instance type, nothing kept back";
        let bytes = |one: &TypeSeries| i64::try_from(one.memory_bytes).unwrap_or(i64::MAX);
        gauges(&mut encoder, name, help, types.iter().map(|one| (kind(one), bytes(one))))
    }
}

fn offer(one: &OfferingSeries) -> [(&'static str, &str); 3] {
    [("instance_type", &*one.instance_type), ("capacity_type", &*one.capacity_type), ("zone", &*one.zone)]
}

fn kind(one: &TypeSeries) -> [(&'static str, &str); 1] {
    [("instance_type", &*one.instance_type)]
}

/// One series for each of the values.
fn gauges<'a, const N: usize, V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = ([(&'static str, &'a str); N], V)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
