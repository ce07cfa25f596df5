//! The series of these controllers, in one registry. Names are upstream's; each controller adds its own here.

mod choices;
mod life;
mod summary;

use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::registry::Registry;

pub use choices::{Choices, DRIFT, DURATIONS, EMPTINESS, MULTI, MethodName, SINGLE};
pub use life::{Life, TerminationMode};
pub use summary::Summary;

/// Counters are cheap handles into the registry.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Of what was decided, and of the state it was decided on.
    pub choices: Choices,
    /// Of nodes and claims, from launch to end.
    pub life: Life,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("karpenter");
        let choices = Choices::register(&mut registry);
        let life = Life::register(&mut registry);
        Self { registry: Mutex::new(registry), choices, life }
    }
}

impl Metrics {
    /// For whoever adds series, or serves them.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
