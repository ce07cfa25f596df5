//! A provider whose calls are timed and counted.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

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
use tokio::time::{Instant, timeout};

/// Whatever a call waits for, AWS or its turn behind other calls that wait for AWS, it is over after this: a little more
/// than AWS has for one answer, and two calls fit into a round of work that nobody takes for hung.
const LONGEST: Duration = Duration::from_secs(270);

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
        late: impl Fn(ProviderError) -> E,
        name: impl Fn(&E) -> &'static str,
    ) -> Result<T, E> {
        let started = Instant::now();
        let result = in_time(method, call, late).await;
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

/// What is cut off may have been done all the same, as in a crash.
async fn in_time<T, E>(
    method: &'static str,
    call: impl Future<Output = Result<T, E>>,
    late: impl Fn(ProviderError) -> E,
) -> Result<T, E> {
    let no_answer = |_| Err(late(ProviderError::new(method, format!("no answer within {} s", LONGEST.as_secs()))));
    timeout(LONGEST, call).await.unwrap_or_else(no_answer)
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
        let late = |error: ProviderError| LaunchError::other(error.operation, error.source);
        self.timed("Create", self.inner.create(claim), late, name).await
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), DeleteError> {
        let name = |error: &DeleteError| if matches!(error, DeleteError::NotFound { .. }) { NOT_FOUND } else { "" };
        self.timed("Delete", self.inner.delete(claim), DeleteError::Other, name).await
    }

    async fn get(&self, provider_id: &str) -> Result<Machine, GetError> {
        let name = |error: &GetError| if matches!(error, GetError::NotFound { .. }) { NOT_FOUND } else { "" };
        self.timed("Get", self.inner.get(provider_id), GetError::Other, name).await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        self.timed("List", self.inner.list(), |error| error, |_| "").await
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, TypesError> {
        self.timed("GetInstanceTypes", self.inner.instance_types(pool), TypesError::Other, |_| "").await
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<String>, GetError> {
        let name = |error: &GetError| if matches!(error, GetError::NotFound { .. }) { NOT_FOUND } else { "" };
        self.timed("IsDrifted", self.inner.is_drifted(claim), GetError::Other, name).await
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
        in_time("Registration", self.inner.registration(claim), |error| error).await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use karpenter_controllers::pulse::ROUND;

    use super::*;

    /// Never answers.
    struct Silent;

    #[async_trait]
    impl CloudProvider for Silent {
        fn name(&self) -> &'static str {
            "silent"
        }

        fn node_class_kinds(&self) -> &'static [NodeClassKind] {
            &[]
        }

        async fn create(&self, _: &NodeClaim) -> Result<Machine, LaunchError> {
            pending().await
        }

        async fn delete(&self, _: &NodeClaim) -> Result<(), DeleteError> {
            pending().await
        }

        async fn get(&self, _: &str) -> Result<Machine, GetError> {
            pending().await
        }

        async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
            pending().await
        }

        async fn instance_types(&self, _: &NodePool) -> Result<InstanceTypes, TypesError> {
            pending().await
        }

        async fn is_drifted(&self, _: &NodeClaim) -> Result<Option<String>, GetError> {
            pending().await
        }

        fn repair_policies(&self) -> Vec<RepairPolicy> {
            Vec::new()
        }

        async fn registration(&self, _: &NodeClaim) -> Result<Registration, ProviderError> {
            pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cloud_that_does_not_answer_makes_nobody_look_hung() {
        let (provider, claim) = (Metered::new(Arc::new(Silent)), NodeClaim::default());
        let calls = async {
            let began = Instant::now();
            assert!(matches!(provider.create(&claim).await, Err(LaunchError::Other { .. })));
            let gone = provider.get("aws:///a/i-1").await.expect_err("it never answers");
            assert_eq!(karpenter_provider::chain(&gone), "Get failed: no answer within 270 s");
            assert!(began.elapsed() < ROUND, "two calls are one round of work: {:?}", began.elapsed());
            assert!(matches!(provider.delete(&claim).await, Err(DeleteError::Other(_))), "nobody said that it is gone");
            assert!(provider.list().await.is_err());
            assert!(provider.instance_types(&NodePool::default()).await.is_err());
            assert!(matches!(provider.is_drifted(&claim).await, Err(GetError::Other(_))));
            assert!(provider.registration(&claim).await.is_err());
        };
        timeout(ROUND * 7, calls).await.expect("each call ends");
    }
}
