//! The order of work: first come, first served, each thing at most once, and timers that turn into work.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The first retry comes soon, later ones ever later, up to a bound a person would still wait for.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Queue<T> {
    ready: VecDeque<T>,
    waiting: BTreeSet<T>,
    /// Work that is being done; more of the same waits until it is finished.
    busy: BTreeMap<T, bool>,
    timers: BTreeSet<(Instant, T)>,
    due: BTreeMap<T, Instant>,
    failures: BTreeMap<T, u32>,
}

impl<T: Ord + Clone> Default for Queue<T> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            waiting: BTreeSet::new(),
            busy: BTreeMap::new(),
            timers: BTreeSet::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<T: Ord + Clone> Queue<T> {
    pub fn push(&mut self, task: T) {
        if let Some(again) = self.busy.get_mut(&task) {
            *again = true;
        } else if self.waiting.insert(task.clone()) {
            self.ready.push_back(task);
        }
    }

    /// Does it at that time, or earlier if that was planned already.
    pub fn push_at(&mut self, task: T, at: Instant) {
        if self.due.get(&task).is_some_and(|due| *due <= at) {
            return;
        }
        if let Some(before) = self.due.insert(task.clone(), at) {
            self.timers.remove(&(before, task.clone()));
        }
        self.timers.insert((at, task));
    }

    /// The next work, marked as being done.
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        self.ripen(now);
        let task = self.ready.pop_front()?;
        self.waiting.remove(&task);
        self.busy.insert(task.clone(), false);
        Some(task)
    }

    /// The work is finished; it comes back if more of it came in the meantime.
    pub fn finish(&mut self, task: &T) {
        self.failures.remove(task);
        self.release(task);
    }

    /// The work failed and is tried again after a growing while; answers how often it failed.
    pub fn retry(&mut self, task: &T, now: Instant) -> u32 {
        let failures = self.failures.entry(task.clone()).or_default();
        *failures += 1;
        let delay = FIRST_RETRY.saturating_mul(1 << (*failures - 1).min(20)).min(LAST_RETRY);
        let failures = *failures;
        self.busy.remove(task);
        self.push_at(task.clone(), now + delay);
        failures
    }

    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    fn release(&mut self, task: &T) {
        if self.busy.remove(task) == Some(true) {
            self.push(task.clone());
        }
    }

    fn ripen(&mut self, now: Instant) {
        while let Some((at, task)) = self.timers.first().cloned().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, task.clone()));
            self.due.remove(&task);
            self.push(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_comes_in_order_and_never_twice_at_once() {
        let now = Instant::now();
        let mut queue = Queue::default();
        ["b", "a", "b"].into_iter().for_each(|t| queue.push(t));
        assert_eq!(queue.pop(now), Some("b"));
        queue.push("b");
        assert_eq!(queue.pop(now), Some("a"));
        assert_eq!(queue.pop(now), None, "b is being done");
        queue.finish(&"b");
        assert_eq!(queue.pop(now), Some("b"));
        queue.finish(&"b");
        assert_eq!(queue.pop(now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_timer_wins_and_failures_back_off() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut queue = Queue::default();
        queue.push_at("a", now + 2 * second);
        queue.push_at("a", now + second);
        queue.push_at("a", now + 3 * second);
        assert_eq!(queue.next_timer(), Some(now + second));
        assert_eq!(queue.pop(now + second), Some("a"));
        assert_eq!(queue.next_timer(), None);
        assert_eq!(queue.retry(&"a", now), 1);
        assert_eq!(queue.next_timer(), Some(now + FIRST_RETRY));
        assert_eq!(queue.pop(now + FIRST_RETRY), Some("a"));
        assert_eq!(queue.retry(&"a", now), 2);
        assert_eq!(queue.next_timer(), Some(now + 2 * FIRST_RETRY));
    }
}
