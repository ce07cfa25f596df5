//! A cache whose entries live for a while, by the clock it is told.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Time is an argument: what time it is now.
pub type Now = std::sync::Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Fewer entries than these are not worth tidying up.
const FEW: usize = 64;

/// `then` plus a duration.
pub fn later(then: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    then.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// What is over is forgotten when as much again has come to it: keys that nobody asks for again cost nothing for long.
#[derive(Debug)]
pub struct Ttl<K, V> {
    entries: Mutex<Entries<K, V>>,
    life: Duration,
}

#[derive(Debug)]
struct Entries<K, V> {
    by_key: BTreeMap<K, (Timestamp, V)>,
    /// So many entries are tidied up before another one comes.
    tidy_at: usize,
}

impl<K: Ord, V> Entries<K, V> {
    fn tidy(&mut self, now: Timestamp) {
        if self.by_key.len() >= self.tidy_at {
            self.by_key.retain(|_, (until, _)| now < *until);
            self.tidy_at = FEW.max(self.by_key.len() * 2);
        }
    }
}

impl<K: Ord + Clone, V: Clone> Ttl<K, V> {
    pub fn new(life: Duration) -> Self {
        Self { entries: Mutex::new(Entries { by_key: BTreeMap::new(), tidy_at: FEW }), life }
    }

    pub fn get<Q>(&self, key: &Q, now: Timestamp) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.lock().by_key.get(key).filter(|(until, _)| now < *until).map(|(_, value)| value.clone())
    }

    pub fn set(&self, key: K, value: V, now: Timestamp) {
        self.set_for(key, value, now, self.life);
    }

    pub fn set_for(&self, key: K, value: V, now: Timestamp, life: Duration) {
        let mut entries = self.lock();
        entries.tidy(now);
        entries.by_key.insert(key, (later(now, life), value));
    }

    pub fn remove<Q>(&self, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.lock().by_key.remove(key);
    }

    /// What is alive.
    pub fn entries(&self, now: Timestamp) -> Vec<(K, V)> {
        let alive = |(key, (until, value)): (&K, &(Timestamp, V))| (now < *until).then(|| (key.clone(), value.clone()));
        self.lock().by_key.iter().filter_map(alive).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_does_not_pile_up() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let cache: Ttl<i64, i64> = Ttl::new(Duration::from_secs(100));
        let mut most = 0;
        for second in 0..100_000 {
            cache.set(second, -second, at(second));
            most = most.max(cache.lock().by_key.len());
        }
        assert!(most <= 201, "a hundred are alive at any time, and {most} were kept");
        assert!((99_901..100_000).all(|key| cache.get(&key, at(99_999)) == Some(-key)), "whatever is alive is there");
        assert_eq!(cache.get(&99_899, at(99_999)), None);
    }
}
