//! Series of the interruption queue and of sick instances.

use std::time::Duration;

use karpenter_controllers::metrics::DURATIONS;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Debug)]
pub(crate) struct InterruptionSeries {
    received: Family<MessageType, Counter>,
    deleted: Counter,
    lateness: Histogram,
    unhealthy: Family<Category, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MessageType {
    message_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Category {
    category: &'static str,
}

impl InterruptionSeries {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let series = Self {
            received: Family::default(),
            deleted: Counter::default(),
            lateness: Histogram::new(DURATIONS),
            unhealthy: Family::default(),
        };
        let help = "Count of messages received from the SQS queue, by kind";
        registry.register("interruption_received_messages", help, series.received.clone());
        let help = "Count of messages deleted from the SQS queue";
        registry.register("interruption_deleted_messages", help, series.deleted.clone());
        let help = "From an event to its message being handled";
        registry.register("interruption_message_queue_duration_seconds", help, series.lateness.clone());
        let help = "Instances of this cluster that EC2 found unhealthy, by what is wrong";
        registry.register("interruption_instance_status_unhealthy", help, series.unhealthy.clone());
        series
    }

    pub(crate) fn received(&self, message_type: &'static str) {
        self.received.get_or_create(&MessageType { message_type }).inc();
    }

    pub(crate) fn handled(&self, late: Duration) {
        self.lateness.observe(late.as_secs_f64());
    }

    pub(crate) fn deleted(&self) {
        self.deleted.inc();
    }

    pub(crate) fn unhealthy(&self, category: &'static str) {
        self.unhealthy.get_or_create(&Category { category }).inc();
    }
}
