//! Time that runs faster than the clock on the wall.
//!
//! Everything in the demo's process waits by tokio's clock. That clock is paused, which makes it jump to the next timer
//! whenever nobody has anything to do; here it is held back, tick by tick, until the wall has caught up. Sockets are
//! served all the while: only timers wait. Between two ticks timers fire in their order and at their time, so what
//! happens does not depend on how fast the machine is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a tick lasts on the wall: short enough for eyes.
const TICK: Duration = Duration::from_millis(20);
/// Who falls further behind than this does not try to catch up.
const FORGIVEN: Duration = Duration::from_millis(500);

/// How many times as fast as the wall; may change at any time.
#[derive(Clone, Debug)]
pub(crate) struct Speed(Arc<AtomicU32>);

impl Speed {
    pub(crate) fn new(times: f64) -> Self {
        let speed = Self(Arc::new(AtomicU32::new(0)));
        speed.set(times);
        speed
    }

    pub(crate) fn set(&self, times: f64) {
        self.0.store((times as f32).to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn times(&self) -> f64 {
        f64::from(f32::from_bits(self.0.load(Ordering::Relaxed)))
    }
}

/// Holds tokio's paused clock back for as long as it is polled.
#[expect(clippy::disallowed_methods, reason = "pacing is all about the machine's clock")]
pub(crate) async fn pace(speed: Speed) {
    let mut due = Instant::now();
    loop {
        tokio::time::sleep(TICK.mul_f64(speed.times())).await;
        due += TICK;
        let now = Instant::now();
        if now > due + FORGIVEN {
            due = now;
        }
        if let Some(wait) = due.checked_duration_since(now).filter(|wait| !wait.is_zero()) {
            // While a blocking task runs, tokio does not let a paused clock jump.
            let _ = tokio::task::spawn_blocking(move || std::thread::sleep(wait)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the wall is what is measured")]
    fn time_runs_at_the_speed_given_and_not_ahead_of_it() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let pacer = tokio::spawn(pace(Speed::new(100.0)));
            let (wall, virtually) = (Instant::now(), tokio::time::Instant::now());
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(virtually.elapsed().as_secs(), 20);
            // A tick of slack at each end; a slow machine may take longer, none may take less.
            assert!(wall.elapsed() >= Duration::from_millis(150), "{:?}", wall.elapsed());
            pacer.abort();
        });
    }
}
