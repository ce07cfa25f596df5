//! The taint of nodes that are not registered yet, back on one that is: another writer stored what it had read before we
//! opened the node. The taint evicts pods, and a claim whose node has it is never initialized, so it is taken off again
//! each time, ever later as long as it keeps coming back.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// After the first time the taint may come back at once; whoever restores it by every write of theirs is met ever later.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_mins(5);

/// How often the taint came back, by the claim's uid.
#[derive(Debug, Default)]
pub(super) struct Reopenings(Mutex<BTreeMap<String, Reopened>>);

#[derive(Clone, Copy, Debug)]
struct Reopened {
    times: u32,
    /// Not before this again.
    next: Instant,
}

impl Reopenings {
    /// How long the taint stays on this time.
    pub(super) fn left(&self, uid: &str, now: Instant) -> Duration {
        self.all().get(uid).map_or(Duration::ZERO, |reopened| reopened.next.saturating_duration_since(now))
    }

    pub(super) fn reopened(&self, uid: &str, now: Instant) {
        let mut all = self.all();
        // Whoever was quiet for long enough starts anew.
        all.retain(|_, reopened| now < reopened.next + LAST);
        let times = all.get(uid).map_or(0, |reopened| reopened.times);
        let pause = FIRST.saturating_mul(1 << times.min(30)).min(LAST);
        all.insert(uid.to_owned(), Reopened { times: times + 1, next: now + pause });
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Reopened>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_met_ever_later_and_anew_after_a_while() {
        let (reopenings, start) = (Reopenings::default(), Instant::now());
        let mut now = start;
        for want in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let left = reopenings.left("u", now);
            assert_eq!(left, Duration::from_secs(want));
            assert_eq!(reopenings.left("other", now), Duration::ZERO, "each node for itself");
            now += left;
            reopenings.reopened("u", now);
        }
        now += LAST + LAST;
        reopenings.reopened("u", now);
        assert_eq!(reopenings.left("u", now), FIRST);
        assert_eq!(reopenings.all().len(), 1);
    }
}
