//! A provider whose calls are timed and counted.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_controllers::metrics::DURATIONS;
use karpenter_controllers::{Context, controller_name};
use karpenter_provider::overlay::Marks;
use karpenter_provider::{
    CloudProvider, DeleteError, GetError, InstanceTypes, LaunchError, Machine, NodeClassKind, ProviderError,
    Registration, RepairPolicy, TypesError,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    controller: &'static str,
    method: &'static str,
    provider: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    controller: &'static str,
    method: &'static str,
    provider: &'static str,
    error: &'static str,
}

#[derive(Clone, Copy, Debug)]
struct Durations;

impl MetricConstructor<Histogram> for Durations {
    fn new_metric(&self) -> Histogram {
        Histogram::new(DURATIONS)
    }
}

#[derive(Clone, Debug)]
struct Series {
    durations: Family<Call, Histogram, Durations>,
    errors: Family<Failure, Counter>,
}

/// Upstream's names for the kinds of failure that somebody asks for.
const NOT_FOUND: &str = "NodeClaimNotFoundError";

pub(crate) struct Metered {
    inner: Arc<dyn CloudProvider>,
    series: OnceLock<Series>,
}

impl Metered {
    pub(crate) fn new(inner: Arc<dyn CloudProvider>) -> Arc<Self> {
        Arc::new(Self { inner, series: OnceLock::new() })
    }

    /// Counts from now on: the context that has the registry is made after the provider.
    pub(crate) fn join(&self, context: &Context) {
        self.series.get_or_init(|| {
            let series = Series { durations: Family::new_with_constructor(Durations), errors: Family::default() };
            let mut registry = context.metrics.registry();
            let help = "Duration of calls to the provider";
            registry.register("cloudprovider_duration_seconds", help, series.durations.clone());
            registry.register("cloudprovider_errors", "Calls to the provider that failed", series.errors.clone());
            series
        });
    }

    async fn timed<T, E>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, E>>,
        name: impl Fn(&E) -> &'static str,
    ) -> Result<T, E> {
        let started = Instant::now();
        let result = call.await;
        if let Some(series) = self.series.get() {
            let (controller, provider) = (controller_name(), self.inner.name());
            let call = Call { controller, method, provider };
            series.durations.get_or_create(&call).observe(started.elapsed().as_secs_f64());
            if let Err(error) = &result {
                let failure = Failure { controller, method, provider, error: name(error) };
                series.errors.get_or_create(&failure).inc();
            }
        }
        result
    }
}

#[async_trait]
impl CloudProvider for Metered {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn node_class_kinds(&self) -> &'static [NodeClassKind] {
        self.inner.node_class_kinds()
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        let name = |error: &LaunchError| match error {
            LaunchError::InsufficientCapacity { .. } => "InsufficientCapacityError",
            LaunchError::NodeClassNotReady { .. } => "NodeClassNotReadyError",
            _ => "",
        };
        self.timed("Create", self.inner.create(claim), name).await
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), DeleteError> {
        let name = |error: &DeleteError| if matches!(error, DeleteError::NotFound { .. }) { NOT_FOUND } else { "" };
        self.timed("Delete", self.inner.delete(claim), name).await
    }

    async fn get(&self, provider_id: &str) -> Result<Machine, GetError> {
        let name = |error: &GetError| if matches!(error, GetError::NotFound { .. }) { NOT_FOUND } else { "" };
        self.timed("Get", self.inner.get(provider_id), name).await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        self.timed("List", self.inner.list(), |_| "").await
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, TypesError> {
        self.timed("GetInstanceTypes", self.inner.instance_types(pool), |_| "").await
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<String>, GetError> {
        let name = |error: &GetError| if matches!(error, GetError::NotFound { .. }) { NOT_FOUND } else { "" };
        self.timed("IsDrifted", self.inner.is_drifted(claim), name).await
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        self.inner.repair_policies()
    }

    fn overlay_marks(&self, pool: &str, types: &[&str]) -> Marks {
        self.inner.overlay_marks(pool, types)
    }

    fn disruption_reasons(&self) -> Vec<String> {
        self.inner.disruption_reasons()
    }

    async fn registration(&self, claim: &NodeClaim) -> Result<Registration, ProviderError> {
        self.inner.registration(claim).await
    }
}
