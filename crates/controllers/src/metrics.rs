//! The series of these controllers, in one registry. Names are upstream's; each controller adds its own here.

mod life;
mod summary;

use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

pub use life::{Life, TerminationMode};
pub use summary::Summary;

/// Counters are cheap handles into the registry.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    created: Family<Created, Counter>,
    /// Of nodes and claims, from launch to end.
    pub life: Life,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Created {
    reason: &'static str,
    nodepool: String,
    min_values_relaxed: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("karpenter");
        let created = Family::default();
        // The text format adds `_total`.
        registry.register("nodeclaims_created", "Number of nodeclaims created in total by Karpenter", created.clone());
        let life = Life::register(&mut registry);
        Self { registry: Mutex::new(registry), created, life }
    }
}

impl Metrics {
    /// For whoever adds series, or serves them.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn node_claims_created(&self, reason: &'static str, pool: &str, min_values_relaxed: bool) {
        let labels = Created { reason, nodepool: pool.to_owned(), min_values_relaxed: min_values_relaxed.to_string() };
        self.created.get_or_create(&labels).inc();
    }
}
