//! Gathers pods that wait until no new ones come, so that they are planned together.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Triggers never block; the provisioner is woken by whoever triggers.
#[derive(Debug)]
pub struct Batcher {
    idle: Duration,
    longest: Duration,
    window: Mutex<Window>,
    has_run: AtomicBool,
}

#[derive(Debug, Default)]
struct Window {
    seen: BTreeSet<String>,
    opened: Option<Instant>,
    last_new: Option<Instant>,
    /// Closed at once: somebody lost a node.
    urgent: bool,
    /// Ripe, and waiting for something else than time.
    held: bool,
}

/// When a batch is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Never,
    In(Duration),
    Now,
}

impl Batcher {
    pub fn new(idle: Duration, longest: Duration) -> Self {
        Self { idle, longest, window: Mutex::default(), has_run: AtomicBool::new(false) }
    }

    /// Opens a window, or keeps the open one open. Answers whether that is news; a uid counts once in a window.
    pub fn trigger(&self, uid: &str) -> bool {
        let mut window = self.window();
        if window.seen.contains(uid) {
            return false;
        }
        window.seen.insert(uid.to_owned());
        let now = Instant::now();
        window.opened.get_or_insert(now);
        window.last_new = Some(now);
        true
    }

    /// An interruption or a failed instance: the window closes at once.
    pub fn trigger_now(&self, uid: &str) {
        self.trigger(uid);
        self.window().urgent = true;
    }

    pub fn due(&self) -> Due {
        let window = self.window();
        if window.held || window.urgent {
            return Due::Now;
        }
        let (Some(opened), Some(last)) = (window.opened, window.last_new) else { return Due::Never };
        let left = (last + self.idle).min(opened + self.longest).saturating_duration_since(Instant::now());
        if left.is_zero() { Due::Now } else { Due::In(left) }
    }

    /// The pass cannot run yet. The batch stays, and runs as soon as it can.
    pub fn hold(&self) {
        self.window().held = true;
    }

    pub fn is_held(&self) -> bool {
        self.window().held
    }

    /// The pass begins: what comes from now on is the next window's.
    pub fn close(&self) {
        self.has_run.store(true, Ordering::Relaxed);
        *self.window() = Window::default();
    }

    /// Whether pods have been planned since the start.
    pub fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const SECOND: Duration = Duration::from_secs(1);

    fn batcher() -> Batcher {
        Batcher::new(SECOND, 10 * SECOND)
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_closes_when_nothing_new_has_come_for_the_idle_time() {
        // covers: SCH-BATCH-04, SCH-BATCH-05, SCH-BATCH-06
        let batcher = batcher();
        assert_eq!(batcher.due(), Due::Never);
        assert!(batcher.trigger("a"));
        assert_eq!(batcher.due(), Due::In(SECOND));
        advance(SECOND / 2).await;
        assert!(batcher.trigger("b"));
        assert_eq!(batcher.due(), Due::In(SECOND));
        advance(SECOND / 2).await;
        assert!(!batcher.trigger("a"), "seen already");
        assert_eq!(batcher.due(), Due::In(SECOND / 2), "and does not keep the window open");
        advance(SECOND / 2).await;
        assert_eq!(batcher.due(), Due::Now);
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_closes_at_the_longest_time_whatever_comes() {
        // covers: SCH-BATCH-05
        let batcher = batcher();
        for pod in 0..20 {
            batcher.trigger(&pod.to_string());
            assert_ne!(batcher.due(), Due::Now, "{pod}");
            advance(SECOND / 2).await;
        }
        assert_eq!(batcher.due(), Due::Now);
    }

    #[tokio::test(start_paused = true)]
    async fn the_durations_are_settings() {
        let batcher = Batcher::new(3 * SECOND, 4 * SECOND);
        batcher.trigger("a");
        assert_eq!(batcher.due(), Due::In(3 * SECOND));
        advance(2 * SECOND).await;
        batcher.trigger("b");
        assert_eq!(batcher.due(), Due::In(2 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_during_a_pass_opens_the_next_window_and_the_seen_are_forgotten() {
        // covers: SCH-BATCH-07
        let batcher = batcher();
        batcher.trigger("a");
        advance(SECOND).await;
        assert_eq!(batcher.due(), Due::Now);
        batcher.close();
        assert_eq!(batcher.due(), Due::Never);
        assert!(batcher.trigger("a"), "the same pod, still waiting");
        assert_eq!(batcher.due(), Due::In(SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_batch_is_not_lost() {
        // covers: SCH-BATCH-11, SCH-GAP-05
        let batcher = batcher();
        batcher.trigger("a");
        advance(SECOND).await;
        batcher.hold();
        assert_eq!(batcher.due(), Due::Now);
        advance(60 * SECOND).await;
        assert!(batcher.is_held());
        assert_eq!(batcher.due(), Due::Now);
        batcher.close();
        assert_eq!(batcher.due(), Due::Never);
    }

    #[tokio::test(start_paused = true)]
    async fn an_interruption_closes_the_window_at_once() {
        // covers: SCH-BATCH-26
        let batcher = batcher();
        batcher.trigger("a");
        assert_eq!(batcher.due(), Due::In(SECOND));
        batcher.trigger_now("b");
        assert_eq!(batcher.due(), Due::Now);
    }
}
