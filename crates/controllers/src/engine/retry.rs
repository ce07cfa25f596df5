//! When what failed is tried again: ever later while it keeps failing, and not in step with everybody else.

use std::time::Duration;

/// The first retry after an error comes soon: most failures are a server that restarts.
const FIRST: Duration = Duration::from_millis(500);
const LAST: Duration = Duration::from_secs(10);
/// A watch that ends without an error, as every watch does after some minutes, goes on after a moment.
const MOMENT: Duration = Duration::from_millis(50);
/// A watch that lasted for so long worked. One that ends sooner counts as a failure, whatever it said before: a server
/// that accepts watches and ends them at once would have us ask without a pause.
const WORKED: Duration = Duration::from_secs(10);
/// The longest that a server can ask us to wait: it may be wrong about when it is well again.
const LONGEST_ASKED: Duration = Duration::from_secs(30);

/// The back-off of one watch.
#[derive(Debug)]
pub(super) struct Retry {
    /// In a row.
    failures: u32,
    dice: u64,
}

impl Retry {
    /// Pauses of different seeds differ. Those of one seed are always the same, so that a simulation can be repeated.
    pub(super) fn new(seed: u64) -> Self {
        Self { failures: 0, dice: seed }
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// The pause after an error; a server with too much to do may have said how long it should be.
    pub(super) fn after_error(&mut self, asked: Option<Duration>) -> Duration {
        let asked = asked.unwrap_or_default().min(LONGEST_ASKED);
        self.pause(FIRST).max(asked)
    }

    /// A watch is over, however it ended: one that worked for a while makes up for the failures before it.
    pub(super) fn lasted(&mut self, lasted: Duration) {
        if lasted >= WORKED {
            self.failures = 0;
        }
    }

    /// The pause after a watch that ended by itself.
    pub(super) fn after_end(&mut self, lasted: Duration) -> Duration {
        self.lasted(lasted);
        if lasted >= WORKED {
            return self.jittered(MOMENT);
        }
        self.pause(MOMENT)
    }

    fn pause(&mut self, first: Duration) -> Duration {
        let pause = first.saturating_mul(1 << self.failures.min(10)).min(LAST);
        self.failures = self.failures.saturating_add(1);
        self.jittered(pause)
    }

    /// Between three quarters and five quarters of it.
    fn jittered(&mut self, pause: Duration) -> Duration {
        // SplitMix64.
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.dice;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = u32::try_from((bits ^ (bits >> 31)) % 513).expect("less than 513");
        pause * (768 + share) / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_it_fails_and_differ_between_watches() {
        let (mut one, mut other) = (Retry::new(1), Retry::new(2));
        let mut differ = false;
        for doubled in [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            let (pause, others) = (one.after_error(None), other.after_error(None));
            let about = Duration::from_millis(doubled);
            assert!(pause >= about * 3 / 4 && pause <= about * 5 / 4, "{pause:?} is not about {about:?}");
            differ |= pause != others;
        }
        assert!(differ, "all watches of all replicas would come back at once");
    }

    #[test]
    fn a_watch_that_ends_at_once_is_a_failure_and_one_that_worked_is_none() {
        let mut retry = Retry::new(1);
        let pauses: Vec<Duration> = (0..10).map(|_| retry.after_end(Duration::ZERO)).collect();
        assert!(pauses[0] < Duration::from_millis(100), "most ends are a server that restarts");
        assert!(pauses[9] >= LAST * 3 / 4, "{pauses:?}");
        assert!(retry.after_end(WORKED) < Duration::from_millis(100));
        assert_eq!(retry.failures(), 0);
    }

    #[test]
    fn a_failure_after_a_watch_that_worked_is_the_first_one() {
        let mut retry = Retry::new(1);
        (0..10).for_each(|_| _ = retry.after_error(None));
        retry.lasted(WORKED - Duration::from_millis(1));
        assert!(retry.after_error(None) >= LAST * 3 / 4);
        retry.lasted(WORKED);
        assert!(retry.after_error(None) < FIRST * 2, "an outage of yesterday is over");
    }

    #[test]
    fn a_server_may_ask_for_a_longer_pause() {
        let mut retry = Retry::new(1);
        assert_eq!(retry.after_error(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(retry.after_error(Some(Duration::from_hours(1))), LONGEST_ASKED);
        assert!(retry.after_error(Some(Duration::ZERO)) >= Duration::from_secs(1));
    }
}
