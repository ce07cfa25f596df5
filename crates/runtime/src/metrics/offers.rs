//! Series of what can be bought, of calls that were joined, and of user data.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use karpenter_controllers::metrics::DURATIONS;
use karpenter_provider_aws::offering_series::{OfferingSeries, TypeSeries};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Amount = Gauge<f64, AtomicU64>;

/// Requests joined in one call.
const SIZES: [f64; 13] = [1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

#[derive(Debug)]
pub(crate) struct OfferSeries {
    available: Family<Offer, Gauge>,
    price: Family<Offer, Amount>,
    cores: Family<Kind, Gauge>,
    memory: Family<Kind, Gauge>,
    batch_size: Family<Batcher, Histogram, Sizes>,
    batch_time: Family<Batcher, Histogram, Times>,
    user_data: Family<Class, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Offer {
    instance_type: Arc<str>,
    capacity_type: Arc<str>,
    zone: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    instance_type: Arc<str>,
}

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
            available: Family::default(),
            price: Family::default(),
            cores: Family::default(),
            memory: Family::default(),
            batch_size: Family::new_with_constructor(Sizes),
            batch_time: Family::new_with_constructor(Times),
            user_data: Family::default(),
        };
        let help = "Whether some pool can buy this now";
        registry.register("cloudprovider_instance_type_offering_available", help, series.available.clone());
        let help = "Dollars per hour, as far as known";
        registry.register("cloudprovider_instance_type_offering_price_estimate", help, series.price.clone());
        let help = "vCPUs of an instance type";
        registry.register("cloudprovider_instance_type_cpu_cores", help, series.cores.clone());
        let help = "Memory of an instance type, nothing kept back";
        registry.register("cloudprovider_instance_type_memory_bytes", help, series.memory.clone());
        let help = "Requests that were joined in one call";
        registry.register("cloudprovider_batcher_batch_size", help, series.batch_size.clone());
        let help = "How long the first request of a call waited for others";
        registry.register("cloudprovider_batcher_batch_time_seconds", help, series.batch_time.clone());
        let help = "Size of the user data that was rendered last, before base64";
        registry.register("ec2nodeclasses_userdata_bytes", help, series.user_data.clone());
        series
    }

    /// What is not said any more is gone.
    pub(crate) fn offerings(&self, offerings: &[OfferingSeries], types: &[TypeSeries]) {
        self.available.clear();
        self.price.clear();
        self.cores.clear();
        self.memory.clear();
        for one in offerings {
            let offer = Offer {
                instance_type: one.instance_type.clone(),
                capacity_type: one.capacity_type.clone(),
                zone: one.zone.clone(),
            };
            self.available.get_or_create(&offer).set(i64::from(one.available));
            self.price.get_or_create(&offer).set(one.price.map_or(0.0, |price| price.dollars()));
        }
        for one in types {
            let kind = Kind { instance_type: one.instance_type.clone() };
            self.cores.get_or_create(&kind).set(i64::from(one.vcpus));
            self.memory.get_or_create(&kind).set(i64::try_from(one.memory_bytes).unwrap_or(i64::MAX));
        }
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
