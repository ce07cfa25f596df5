//! What a controller is: which changes concern it, and what it does about one object.

use std::time::Duration;

use async_trait::async_trait;
use karpenter_index::{Change, Key};

use crate::context::Context;
use crate::error::Result;
use crate::pulse::ROUND;

/// One controller. The engine never reconciles the same key of one controller twice at the same time; different keys
/// run in parallel, up to [`Reconciler::concurrency`].
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// As seen in logs and metrics, e.g. `nodeclaim.lifecycle`.
    fn name(&self) -> &'static str;

    /// Keys that are looked at once at the start, when everything has been listed: [`singleton`] for a loop.
    fn start(&self) -> Vec<Key> {
        Vec::new()
    }

    /// The keys that a change concerns. At the start every object is told as a change with `initial` set.
    fn wake(&self, change: &Change, context: &Context) -> Vec<Key>;

    /// Observe, decide, apply. May sleep: the key stays busy, and what wakes it meanwhile is not lost.
    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action>;

    /// How many keys may be under way at once.
    fn concurrency(&self) -> usize {
        10
    }

    fn backoff(&self) -> Backoff {
        Backoff::default()
    }

    /// Work on one key that takes longer has hung, and the process with it.
    fn longest(&self) -> Duration {
        ROUND
    }
}

/// The key of a controller that is one loop.
pub fn singleton() -> Key {
    Key::cluster("")
}

/// When to look at the object again, if nothing wakes it before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    #[default]
    Done,
    After(Duration),
    /// As soon as the back-off allows: nothing is wrong, but it did not work either.
    Again,
}

impl Action {
    /// The soonest wish wins.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Again, _) | (_, Self::Again) => Self::Again,
            (Self::After(a), Self::After(b)) => Self::After(a.min(b)),
            (Self::After(a), Self::Done) | (Self::Done, Self::After(a)) => Self::After(a),
            (Self::Done, Self::Done) => Self::Done,
        }
    }
}

/// How failures are tried again: each key ever later, and all together no faster than the bucket allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub last: Duration,
    pub per_second: u32,
    pub burst: u32,
}

impl Default for Backoff {
    /// What controllers have that do not say otherwise: 5 ms to 1000 s per key, 10 per second with a burst of 100.
    fn default() -> Self {
        Self { first: Duration::from_millis(5), last: Duration::from_secs(1000), per_second: 10, burst: 100 }
    }
}
