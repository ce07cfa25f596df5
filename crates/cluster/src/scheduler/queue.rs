//! Pods that wait to be placed: ready ones by priority, failed ones after a growing pause, hopeless ones until
//! something changes that one of the checks which turned them away cares about.

use super::pod::PodInfo;
use super::reject::{Plugin, Plugins};
use crate::key::Key;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LAST_BACKOFF: Duration = Duration::from_secs(10);
/// Nobody waits longer than this for a second look, whatever the hints say.
const FLUSH_AFTER: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Default)]
pub struct PodQueue {
    pods: BTreeMap<Key, Waiting>,
    active: BTreeSet<(Reverse<i32>, u64, Key)>,
    timers: BTreeSet<(Instant, Key)>,
    /// Pods that something woke before their pause is over: while there is nothing better to do, they need not wait.
    impatient: BTreeSet<(Instant, Key)>,
    turn: u64,
    /// How many hopeless pods each plugin turned away, to skip changes nobody waits for.
    rejected_by: [usize; 16],
    hopeless: usize,
}

#[derive(Debug)]
struct Waiting {
    info: Arc<PodInfo>,
    attempts: u32,
    place: Place,
}

#[derive(Debug, PartialEq)]
enum Place {
    Gated,
    Active(u64),
    BackingOff {
        until: Instant,
        after_error: bool,
    },
    Hopeless {
        plugins: Plugins,
        failed: Instant,
    },
    /// Taken out for an attempt.
    Tried,
}

impl PodQueue {
    /// A new or changed pod; `worth_a_try` says whether the change could make a difference to it.
    pub fn update(&mut self, info: Arc<PodInfo>, worth_a_try: bool) {
        let key = info.key.clone();
        let gated = info.spec().is_some_and(|s| s.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty()));
        match self.pods.get_mut(&key) {
            Some(waiting) if waiting.info.uid == info.uid => {
                let was_gated = waiting.place == Place::Gated;
                if let Place::Active(turn) = waiting.place {
                    self.active.remove(&(Reverse(waiting.info.priority), turn, key.clone()));
                    self.active.insert((Reverse(info.priority), turn, key.clone()));
                }
                waiting.info = info;
                if was_gated && !gated {
                    self.activate(&key);
                } else if worth_a_try && matches!(waiting.place, Place::Hopeless { .. }) {
                    self.reconsider(&key);
                }
            }
            _ => {
                self.remove(&key);
                self.pods.insert(key.clone(), Waiting { info, attempts: 0, place: Place::Gated });
                if !gated {
                    self.activate(&key);
                }
            }
        }
    }

    pub fn remove(&mut self, key: &Key) {
        self.leave(key);
        self.pods.remove(key);
    }

    pub fn info(&self, key: &Key) -> Option<&Arc<PodInfo>> {
        self.pods.get(key).map(|w| &w.info)
    }

    /// The most important pod that is ready for an attempt.
    pub fn pop(&mut self, now: Instant) -> Option<Arc<PodInfo>> {
        self.ripen(now);
        let next = self.active.first().map(|(_, _, key)| key).or_else(|| self.impatient.first().map(|(_, key)| key));
        let key = next?.clone();
        self.leave(&key);
        let waiting = self.pods.get_mut(&key)?;
        waiting.place = Place::Tried;
        waiting.attempts += 1;
        Some(waiting.info.clone())
    }

    pub fn has_ready(&mut self, now: Instant) -> bool {
        self.ripen(now);
        !self.active.is_empty() || !self.impatient.is_empty()
    }

    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The attempt failed for want of a node.
    pub fn unschedulable(&mut self, key: &Key, plugins: Plugins, now: Instant) {
        self.leave(key);
        let Some(waiting) = self.pods.get_mut(key) else { return };
        waiting.place = Place::Hopeless { plugins, failed: now };
        self.timers.insert((now + FLUSH_AFTER, key.clone()));
        self.hopeless += 1;
        (0..16).filter(|i| plugins.has_bit(*i)).for_each(|i| self.rejected_by[i] += 1);
    }

    /// The attempt failed for another reason and is repeated after a pause.
    pub fn back_off(&mut self, key: &Key, now: Instant) {
        self.leave(key);
        let Some(waiting) = self.pods.get_mut(key) else { return };
        let until = now + backoff(waiting.attempts);
        waiting.place = Place::BackingOff { until, after_error: true };
        self.timers.insert((until, key.clone()));
    }

    /// Wakes the hopeless pods a change may help: those that one of the plugins turned away and the test agrees on.
    pub fn wake(&mut self, plugins: &[Plugin], helps: impl Fn(&PodInfo, Plugins) -> bool) {
        let nobody = plugins.iter().all(|p| self.rejected_by[*p as usize] == 0);
        let without_reason = self.hopeless > self.rejected_by.iter().sum::<usize>();
        if self.hopeless == 0 || (nobody && !without_reason) {
            return;
        }
        let wakes = |w: &Waiting| match &w.place {
            Place::Hopeless { plugins: by, .. } => {
                by.is_empty() || (plugins.iter().any(|p| by.contains(*p)) && helps(&w.info, *by))
            }
            _ => false,
        };
        let woken: Vec<Key> = self.pods.iter().filter(|(_, w)| wakes(w)).map(|(key, _)| key.clone()).collect();
        woken.iter().for_each(|key| self.reconsider(key));
    }

    /// Back into play: when its pause is over, or before if nobody else is ready.
    fn reconsider(&mut self, key: &Key) {
        let Some(Waiting { place: Place::Hopeless { failed, .. }, attempts, .. }) = self.pods.get(key) else { return };
        let until = *failed + backoff(*attempts);
        self.leave(key);
        if let Some(waiting) = self.pods.get_mut(key) {
            waiting.place = Place::BackingOff { until, after_error: false };
            self.timers.insert((until, key.clone()));
            self.impatient.insert((until, key.clone()));
        }
    }

    fn activate(&mut self, key: &Key) {
        self.leave(key);
        let Some(waiting) = self.pods.get_mut(key) else { return };
        self.turn += 1;
        waiting.place = Place::Active(self.turn);
        self.active.insert((Reverse(waiting.info.priority), self.turn, key.clone()));
    }

    fn ripen(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.first().cloned().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, key.clone()));
            self.activate(&key);
        }
    }

    fn leave(&mut self, key: &Key) {
        let Some(waiting) = self.pods.get(key) else { return };
        match &waiting.place {
            Place::Active(turn) => {
                self.active.remove(&(Reverse(waiting.info.priority), *turn, key.clone()));
            }
            Place::BackingOff { until, .. } => {
                self.timers.remove(&(*until, key.clone()));
                self.impatient.remove(&(*until, key.clone()));
            }
            Place::Hopeless { plugins, failed } => {
                self.timers.remove(&(*failed + FLUSH_AFTER, key.clone()));
                self.hopeless -= 1;
                (0..16).filter(|i| plugins.has_bit(*i)).for_each(|i| self.rejected_by[i] -= 1);
            }
            Place::Gated | Place::Tried => {}
        }
        if let Some(waiting) = self.pods.get_mut(key) {
            waiting.place = Place::Tried;
        }
    }
}

fn backoff(attempts: u32) -> Duration {
    FIRST_BACKOFF.saturating_mul(1 << attempts.saturating_sub(1).min(10)).min(LAST_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, priority: i32, gated: bool) -> Arc<PodInfo> {
        let gates = if gated { json!([{"name": "wait"}]) } else { json!([]) };
        let pod = json!({"metadata": {"name": name, "namespace": "n", "uid": name},
            "spec": {"containers": [], "priority": priority, "schedulingGates": gates}});
        Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap())))
    }

    fn pop(queue: &mut PodQueue, now: Instant) -> Option<String> {
        queue.pop(now).map(|p| p.key.name.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn the_most_important_pod_goes_first_and_gated_ones_wait() {
        let now = Instant::now();
        let mut queue = PodQueue::default();
        queue.update(pod("gated", 9, true), true);
        queue.update(pod("low", 1, false), true);
        queue.update(pod("high", 5, false), true);
        queue.update(pod("low-too", 1, false), true);
        let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue, now)).collect();
        assert_eq!(order, ["high", "low", "low-too"]);
        queue.update(pod("gated", 9, false), false);
        assert_eq!(pop(&mut queue, now).as_deref(), Some("gated"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hopeless_pod_wakes_for_what_turned_it_away() {
        let now = Instant::now();
        let mut queue = PodQueue::default();
        queue.update(pod("p", 0, false), true);
        let key = queue.pop(now).unwrap().key.clone();
        let mut plugins = Plugins::default();
        plugins.insert(Plugin::NodeResources);
        queue.unschedulable(&key, plugins, now);
        queue.wake(&[Plugin::InterPodAffinity], |_, _| true);
        assert_eq!(queue.next_timer(), Some(now + FLUSH_AFTER));
        queue.wake(&[Plugin::NodeResources], |_, _| false);
        assert_eq!(queue.next_timer(), Some(now + FLUSH_AFTER));
        queue.wake(&[Plugin::NodeResources], |_, _| true);
        assert_eq!(queue.next_timer(), Some(now + FIRST_BACKOFF));
        queue.update(pod("other", 0, false), true);
        assert_eq!(pop(&mut queue, now).as_deref(), Some("other"), "pods without a pause go first");
        assert_eq!(pop(&mut queue, now).as_deref(), Some("p"), "but nobody waits for nothing");
        queue.back_off(&key, now);
        assert_eq!(pop(&mut queue, now), None, "except after an error");
        assert_eq!(queue.next_timer(), Some(now + 2 * FIRST_BACKOFF), "the second failure costs more");
        queue.remove(&key);
        assert_eq!(queue.next_timer(), None);
    }
}
