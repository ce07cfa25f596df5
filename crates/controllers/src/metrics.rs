//! The series of these controllers, in one registry. Names are upstream's; each controller adds its own here.

mod choices;
mod life;
mod pods;
mod simulations;
mod status;
mod summary;
mod work;

use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::registry::Registry;

pub use choices::{Choices, DRIFT, DURATIONS, EMPTINESS, MULTI, MethodName, SINGLE};
pub use life::{Life, TerminationMode};
pub use pods::{Place, Pods, Wait};
pub use simulations::Simulations;
pub use status::{Status, StatusKind, Transition};
pub use summary::Summary;
pub use work::{Ended, Piece, Work};

/// Counters are cheap handles into the registry.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    plain: Mutex<Registry>,
    /// Of what was decided, and of the state it was decided on.
    pub choices: Choices,
    /// Of nodes and claims, from launch to end.
    pub life: Life,
    /// Of pods that wait.
    pub pods: Pods,
    /// Of the search for places while it goes on.
    pub simulations: Simulations,
    /// Of conditions that change.
    pub status: Status,
    /// Of the work of controllers, whatever it is.
    pub work: Work,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("karpenter");
        let choices = Choices::register(&mut registry);
        let life = Life::register(&mut registry);
        let pods = Pods::register(&mut registry);
        let simulations = Simulations::register(&mut registry);
        let mut plain = Registry::default();
        let (work, status) = (Work::register(&mut plain), Status::register(&mut plain));
        Self {
            registry: Mutex::new(registry),
            plain: Mutex::new(plain),
            choices,
            life,
            pods,
            simulations,
            status,
            work,
        }
    }
}

impl Metrics {
    /// Series whose names do not begin with `karpenter`.
    pub fn plain_registry(&self) -> MutexGuard<'_, Registry> {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For whoever adds series, or serves them.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
