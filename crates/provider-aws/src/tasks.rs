//! What the provider does by the clock. The runtime runs each in a loop of its own, with back-off when it fails.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use karpenter_provider::ProviderError;

use crate::demotion;
use crate::expiring_blocks;
use crate::instance_status::{self, InstanceHealth};
use crate::interruption::Interruption;
use crate::offering_series;
use crate::prices;
use crate::provider::Parts;
use crate::sweep;
use crate::version;

const HALF_A_DAY: Duration = Duration::from_secs(12 * 3600);
const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);
/// Templates live a minute from their last use. As seldom as upstream's: each that is deleted just before a launch wants it
/// again is two calls more, and one that stays costs nothing.
const TEMPLATE_SWEEP: Duration = Duration::from_secs(60);

const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// A spot warning leaves two minutes; after an outage of the queue most of them should be left.
const QUEUE_RETRY: Duration = Duration::from_secs(20);

/// One round; answers when the next is due.
pub type Round = Arc<dyn Fn() -> BoxFuture<'static, Result<Duration, ProviderError>> + Send + Sync>;

#[derive(Clone)]
pub struct Task {
    pub name: &'static str,
    /// How long to wait before the first round.
    pub delay: Duration,
    pub round: Round,
    /// A round that fails is tried again ever later, but at least this often.
    pub longest_retry: Duration,
}

impl Task {
    fn new<F, R>(name: &'static str, delay: Duration, round: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Duration, ProviderError>> + Send + 'static,
    {
        Self { name, delay, round: Arc::new(move || round().boxed()), longest_retry: LONGEST_RETRY }
    }
}

/// Everything but the reconcilers of objects.
pub fn tasks(parts: &Arc<Parts>, client: &kube::Client) -> Vec<Task> {
    let of = |parts: &Arc<Parts>| parts.clone();
    let (types, on_demand, spot, images, templates) = (of(parts), of(parts), of(parts), of(parts), of(parts));
    let profiles = (of(parts), client.clone());
    let mut all = vec![
        // Loaded once before the start.
        Task::new("providers.instancetype", HALF_A_DAY, move || {
            let parts = types.clone();
            async move {
                let refreshed = parts.types.refresh().await;
                refreshed.map(|()| HALF_A_DAY).map_err(|error| ProviderError::new("refreshing instance types", error))
            }
        }),
        Task::new("providers.pricing.on_demand", Duration::ZERO, move || {
            let parts = on_demand.clone();
            async move {
                if !prices::has_price_list(&parts.aws.region, parts.settings.isolated_vpc) {
                    tracing::info!("the price list cannot be asked here; bundled on-demand prices stay in force");
                    return Ok(HALF_A_DAY);
                }
                let prices = prices::on_demand(&parts.aws).await;
                let prices = prices.map_err(|error| ProviderError::new("refreshing on-demand prices", error))?;
                let types = prices.len();
                let taken = parts.types.set_on_demand_prices(prices);
                taken.map_err(|error| ProviderError::new("refreshing on-demand prices", error))?;
                tracing::debug!(instance_type_count = types, "updated on-demand pricing");
                Ok(HALF_A_DAY)
            }
        }),
        Task::new("providers.pricing.spot", Duration::ZERO, move || {
            let parts = spot.clone();
            async move {
                let prices = prices::spot(&parts.aws, (parts.now)()).await;
                let prices = prices.map_err(|error| ProviderError::new("refreshing spot prices", error))?;
                let (types, offerings) = (prices.len(), prices.values().map(|zones| zones.len()).sum::<usize>());
                let taken = parts.types.set_spot_prices(prices);
                taken.map_err(|error| ProviderError::new("refreshing spot prices", error))?;
                let message = "updated spot pricing with instance types and offerings";
                tracing::debug!(instance_type_count = types, offering_count = offerings, "{message}");
                Ok(HALF_A_DAY)
            }
        }),
        Task::new("providers.ssm.invalidation", HALF_AN_HOUR, move || {
            let parts = images.clone();
            async move {
                let dropped = parts.images.drop_withdrawn((parts.now)()).await;
                dropped
                    .map(|()| HALF_AN_HOUR)
                    .map_err(|error| ProviderError::new("looking for withdrawn images", error))
            }
        }),
        Task::new("providers.launchtemplate", TEMPLATE_SWEEP, move || {
            let parts = templates.clone();
            async move {
                let swept = parts.launch_templates.sweep((parts.now)()).await;
                swept.map(|()| TEMPLATE_SWEEP).map_err(|error| ProviderError::new("deleting launch templates", error))
            }
        }),
        Task::new("instanceprofile.garbagecollection", HALF_AN_HOUR, move || {
            let (parts, client) = profiles.clone();
            async move { sweep::profiles(&parts, &client).await.map(|_| HALF_AN_HOUR) }
        }),
    ];
    if parts.settings.ec2.reserved_capacity {
        let (parts, client) = (of(parts), client.clone());
        all.push(Task::new("capacityreservation.capacitytype", demotion::EVERY, move || {
            let (parts, client) = (parts.clone(), client.clone());
            async move { demotion::round(&parts, &client).await.map(|_| demotion::EVERY) }
        }));
    }
    if parts.settings.ec2.reserved_capacity {
        let parts = of(parts);
        all.push(Task::new("capacityreservation.expiration", Duration::ZERO, move || {
            let parts = parts.clone();
            async move { expiring_blocks::round(&parts).await.map(|_| expiring_blocks::EVERY) }
        }));
    }
    if parts.settings.enable_zonal_shift {
        let parts = of(parts);
        all.push(Task::new("zonalshift", Duration::ZERO, move || {
            let parts = parts.clone();
            async move { parts.zonal_shifts.round(&parts).await }
        }));
    }
    let (versioned, of_server) = (of(parts), client.clone());
    all.push(Task::new("providers.version", version::EVERY, move || {
        let (parts, client) = (versioned.clone(), of_server.clone());
        async move { parts.version.round(&parts, &client).await }
    }));
    let (offered, told) = (of(parts), Arc::new(offering_series::Told::default()));
    all.push(Task::new("cloudprovider.metrics", Duration::ZERO, move || {
        let (parts, told) = (offered.clone(), told.clone());
        async move { offering_series::round(&parts, &told).await }
    }));
    let (sick, health) = (of(parts), Arc::new(InstanceHealth::default()));
    all.push(Task::new("interruption.instancestatus", instance_status::EVERY, move || {
        let (parts, health) = (sick.clone(), health.clone());
        async move { health.round(&parts).await }
    }));
    if let Some(queue) = parts.settings.interruption_queue.as_ref().filter(|queue| !queue.is_empty()) {
        let (parts, queue) = (of(parts), Arc::new(Interruption::new(queue)));
        let task = Task::new("interruption", Duration::ZERO, move || {
            let (parts, queue) = (parts.clone(), queue.clone());
            async move { queue.round(&parts).await }
        });
        all.push(Task { longest_retry: QUEUE_RETRY, ..task });
    }
    all
}
