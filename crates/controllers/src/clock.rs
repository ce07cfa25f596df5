//! Time is an argument: reconcilers ask the context's clock and nothing else.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What time it is. Timers are tokio's, so under paused time the clock must follow it: [`Clock::starting_at`].
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Shows `start` now and moves with tokio's clock.
    pub fn starting_at(start: Timestamp) -> Self {
        let origin = tokio::time::Instant::now();
        Self::new(move || {
            let elapsed = SignedDuration::try_from(origin.elapsed()).unwrap_or(SignedDuration::MAX);
            start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
        })
    }

    /// The machine's clock.
    #[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads the machine's clock")]
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// As it is written to objects, which have whole seconds: what we hold then equals what comes back.
    pub fn wire(&self) -> Time {
        wire(self.now())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// Cut to whole seconds.
pub fn wire(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// How long from `now` until `then`; zero if it is past.
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// `then` plus a duration.
pub fn later(then: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    then.checked_add(by).unwrap_or(Timestamp::MAX)
}
