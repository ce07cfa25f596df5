//! Every call and every attempt, counted and timed, under the names that dashboards know.

use std::sync::Arc;
use std::time::Duration;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::retries::RequestAttempts;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// The defaults of Prometheus' own clients.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// More attempts than these an operator has to ask for.
const RETRIES: [f64; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
/// The code of a request that nobody answered.
const UNANSWERED: &str = "0";

type Labels = [(&'static str, String); 3];

/// Shared by all clients of a connection.
#[derive(Clone, Debug)]
pub struct Requests(Arc<Series>);

#[derive(Debug)]
struct Series {
    requests: Family<Labels, Counter>,
    attempts: Family<Labels, Counter>,
    request_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    attempt_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    retries: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for Requests {
    fn default() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let retries: fn() -> Histogram = || Histogram::new(RETRIES);
        Self(Arc::new(Series {
            requests: Family::default(),
            attempts: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            attempt_seconds: Family::new_with_constructor(seconds),
            retries: Family::new_with_constructor(retries),
        }))
    }
}

impl Requests {
    /// In a registry without a prefix: the names stay as they are, so that dashboards keep working.
    pub fn register(&self, registry: &mut Registry) {
        let series = &self.0;
        registry.register("aws_sdk_go_request", "The total number of AWS SDK Go requests", series.requests.clone());
        registry.register(
            "aws_sdk_go_request_attempt",
            "The total number of AWS SDK Go request attempts",
            series.attempts.clone(),
        );
        registry.register(
            "aws_sdk_go_request_duration_seconds",
            "Latency of AWS SDK Go requests",
            series.request_seconds.clone(),
        );
        registry.register(
            "aws_sdk_go_request_attempt_duration_seconds",
            "Latency of AWS SDK Go request attempts",
            series.attempt_seconds.clone(),
        );
        registry.register(
            "aws_sdk_go_request_retry_count",
            "The number of retries of AWS SDK Go requests",
            series.retries.clone(),
        );
    }

    pub(crate) fn interceptor(&self) -> impl Intercept + 'static {
        Watch(self.clone())
    }

    fn attempt(&self, labels: &Labels, took: Duration) {
        self.0.attempts.get_or_create(labels).inc();
        self.0.attempt_seconds.get_or_create(labels).observe(took.as_secs_f64());
    }

    fn request(&self, labels: &Labels, took: Duration, retries: u32) {
        self.0.requests.get_or_create(labels).inc();
        self.0.request_seconds.get_or_create(labels).observe(took.as_secs_f64());
        self.0.retries.get_or_create(labels).observe(f64::from(retries));
    }
}

#[derive(Debug)]
struct Watch(Requests);

#[derive(Clone, Copy, Debug)]
struct RequestBegan(Instant);

#[derive(Clone, Copy, Debug)]
struct AttemptBegan(Instant);

impl Storable for RequestBegan {
    type Storer = StoreReplace<Self>;
}

impl Storable for AttemptBegan {
    type Storer = StoreReplace<Self>;
}

fn labels(context: &FinalizerInterceptorContextRef<'_>, cfg: &ConfigBag) -> Labels {
    let status = context.response().map(|response| response.status().as_u16().to_string());
    let metadata = cfg.load::<Metadata>();
    let of = |part: fn(&Metadata) -> &str| metadata.map(part).unwrap_or_default().to_owned();
    [
        ("service", of(Metadata::service)),
        ("action", of(Metadata::name)),
        ("code", status.unwrap_or_else(|| UNANSWERED.to_owned())),
    ]
}

impl Intercept for Watch {
    fn name(&self) -> &'static str {
        "RequestMetrics"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        cfg.interceptor_state().store_put(RequestBegan(Instant::now()));
        Ok(())
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        cfg.interceptor_state().store_put(AttemptBegan(Instant::now()));
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(AttemptBegan(began)) = cfg.load::<AttemptBegan>() {
            self.0.attempt(&labels(context, cfg), began.elapsed());
        }
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(RequestBegan(began)) = cfg.load::<RequestBegan>() {
            let attempts = cfg.load::<RequestAttempts>().map_or(1, RequestAttempts::attempts);
            self.0.request(&labels(context, cfg), began.elapsed(), attempts.saturating_sub(1));
        }
        Ok(())
    }
}
