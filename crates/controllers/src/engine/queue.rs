//! The order of work: first come, first served, each key at most once, and timers that turn into work.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::reconciler::Backoff;

/// When to look again at what somebody else wrote first, if no news come.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// The longest back-off of what an API server that does not answer keeps us from: soon after its return all is done.
const SOON: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Queue<T> {
    backoff: Backoff,
    ready: VecDeque<(T, Instant)>,
    waiting: BTreeSet<T>,
    /// Work that is being done; more of the same waits until it is finished.
    busy: BTreeMap<T, bool>,
    timers: BTreeSet<(Instant, T)>,
    due: BTreeMap<T, Instant>,
    failures: BTreeMap<T, u32>,
    /// When the next retry of any key may come without waiting for the bucket.
    bucket: Option<Instant>,
    added: u64,
}

impl<T: Ord + Clone> Queue<T> {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            ready: VecDeque::new(),
            waiting: BTreeSet::new(),
            busy: BTreeMap::new(),
            timers: BTreeSet::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
            bucket: None,
            added: 0,
        }
    }

    pub(crate) fn push(&mut self, key: T) {
        if let Some(again) = self.busy.get_mut(&key) {
            *again = true;
        } else if self.waiting.insert(key.clone()) {
            self.added += 1;
            self.ready.push_back((key, Instant::now()));
        }
    }

    /// Keys that wait.
    pub(crate) fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Keys that were added since this was last asked.
    pub(crate) fn take_added(&mut self) -> u64 {
        std::mem::take(&mut self.added)
    }

    /// Does it at that time, or earlier if that was planned already.
    pub(crate) fn push_at(&mut self, key: T, at: Instant) {
        if self.due.get(&key).is_some_and(|due| *due <= at) {
            return;
        }
        if let Some(before) = self.due.insert(key.clone(), at) {
            self.timers.remove(&(before, key.clone()));
        }
        self.timers.insert((at, key));
    }

    /// The next work, marked as being done.
    #[cfg(test)]
    pub(crate) fn pop(&mut self, now: Instant) -> Option<T> {
        self.pop_waited(now).map(|(key, _)| key)
    }

    /// The next work, marked as being done, and for how long it has waited.
    pub(crate) fn pop_waited(&mut self, now: Instant) -> Option<(T, Duration)> {
        self.ripen(now);
        let (key, since) = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.busy.insert(key.clone(), false);
        // What was planned for later is decided anew by whoever does the work now.
        if let Some(at) = self.due.remove(&key) {
            self.timers.remove(&(at, key.clone()));
        }
        Some((key, now.saturating_duration_since(since)))
    }

    /// The work is finished; it comes back if more of it came in the meantime.
    pub(crate) fn finish(&mut self, key: &T) {
        self.failures.remove(key);
        if self.busy.remove(key) == Some(true) {
            self.push(key.clone());
        }
    }

    /// The work failed and is tried again after a growing while; answers how often it failed in a row.
    pub(crate) fn retry(&mut self, key: &T, now: Instant) -> u32 {
        self.retry_within(key, now, self.backoff.last)
    }

    /// As [`Queue::retry`], but soon: what failed has nothing to do with the key.
    pub(crate) fn retry_soon(&mut self, key: &T, now: Instant) -> u32 {
        self.retry_within(key, now, self.backoff.last.min(SOON))
    }

    fn retry_within(&mut self, key: &T, now: Instant, longest: Duration) -> u32 {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures += 1;
        let failures = *failures;
        let own = self.backoff.first.saturating_mul(1 << (failures - 1).min(30)).min(longest);
        let delay = own.max(self.turn(now));
        // News that came meanwhile do not shorten the wait: the same failure would only come sooner.
        self.busy.remove(key);
        self.push_at(key.clone(), now + delay);
        failures
    }

    /// Somebody else wrote first. What they wrote is here already or on its way and brings the work back by itself; the
    /// timer is for news that never come. Answers how often in a row.
    pub(crate) fn give_way(&mut self, key: &T, now: Instant) -> u32 {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures += 1;
        let failures = *failures;
        if self.busy.remove(key) == Some(true) {
            self.push(key.clone());
        } else {
            let delay = FIRST_LOOK.saturating_mul(1 << (failures - 1).min(30)).min(self.backoff.last);
            self.push_at(key.clone(), now + delay);
        }
        failures
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// How long this retry has to wait for its turn in the bucket all keys share.
    fn turn(&mut self, now: Instant) -> Duration {
        let each = Duration::from_secs(1) / self.backoff.per_second.max(1);
        let credit = each * self.backoff.burst.saturating_sub(1);
        let earliest = now.checked_sub(credit).unwrap_or(now);
        let at = self.bucket.map_or(earliest, |at| at.max(earliest));
        self.bucket = Some(at + each);
        at.saturating_duration_since(now)
    }

    fn ripen(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.first().cloned().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, key.clone()));
            self.due.remove(&key);
            self.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn queue() -> Queue<&'static str> {
        Queue::new(Backoff { first: SECOND, last: 60 * SECOND, per_second: 10, burst: 3 })
    }

    #[tokio::test(start_paused = true)]
    async fn work_comes_in_order_and_never_twice_at_once() {
        // covers: LC-GEN-17
        let now = Instant::now();
        let mut queue = queue();
        ["b", "a", "b"].into_iter().for_each(|key| queue.push(key));
        assert_eq!(queue.pop(now), Some("b"));
        queue.push("b");
        assert_eq!(queue.pop(now), Some("a"));
        assert_eq!(queue.pop(now), None, "b is being done");
        queue.finish(&"b");
        assert_eq!(queue.pop(now), Some("b"), "what came meanwhile is not lost");
        queue.finish(&"b");
        assert_eq!(queue.pop(now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_timer_wins_and_work_clears_it() {
        let now = Instant::now();
        let mut queue = queue();
        queue.push_at("a", now + 2 * SECOND);
        queue.push_at("a", now + SECOND);
        queue.push_at("a", now + 3 * SECOND);
        assert_eq!(queue.next_timer(), Some(now + SECOND));
        queue.push("a");
        assert_eq!(queue.pop(now), Some("a"));
        assert_eq!(queue.next_timer(), None, "the work decides anew when to come back");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_ever_longer_and_success_forgets_them() {
        let now = Instant::now();
        let mut queue = queue();
        for want in [1, 2, 4, 8, 16, 32, 60, 60] {
            queue.push("a");
            assert_eq!(queue.pop(now), Some("a"));
            queue.bucket = None;
            queue.retry(&"a", now);
            assert_eq!(queue.next_timer(), Some(now + want * SECOND));
        }
        assert_eq!(queue.pop(now + 60 * SECOND), Some("a"));
        queue.finish(&"a");
        queue.push("a");
        assert_eq!(queue.pop(now), Some("a"));
        assert_eq!(queue.retry(&"a", now), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_outage_nobody_waits_for_long() {
        let now = Instant::now();
        let mut queue = queue();
        for _ in 0..20 {
            queue.push("a");
            assert_eq!(queue.pop(now), Some("a"));
            queue.bucket = None;
            queue.retry_soon(&"a", now);
        }
        assert_eq!(queue.next_timer(), Some(now + SOON));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_wrote_second_looks_again_when_the_news_are_in() {
        // covers: LC-GEN-11
        let now = Instant::now();
        let mut queue = queue();
        queue.push("a");
        assert_eq!(queue.pop(now), Some("a"));
        queue.push("a");
        queue.give_way(&"a", now);
        assert_eq!(queue.pop(now), Some("a"), "the news came while it was at work");
        queue.give_way(&"a", now);
        assert_eq!(queue.pop(now), None);
        queue.push("a");
        assert_eq!(queue.pop(now), Some("a"), "the news came afterwards");
        queue.give_way(&"a", now);
        assert_eq!(queue.next_timer(), Some(now + 4 * FIRST_LOOK), "ever later without news");
        assert_eq!(queue.bucket, None, "no failure: others do not wait for it");
    }

    #[tokio::test(start_paused = true)]
    async fn all_keys_share_a_bucket() {
        let now = Instant::now();
        let mut queue = Queue::new(Backoff { first: Duration::ZERO, last: SECOND, per_second: 10, burst: 3 });
        let mut waits = Vec::new();
        for key in 0..6_u32 {
            waits.push(queue.turn(now).as_millis());
            queue.push(key);
        }
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
    }
}
