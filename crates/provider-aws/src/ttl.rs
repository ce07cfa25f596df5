//! A cache whose entries live for a while, by the clock it is told.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Time is an argument: what time it is now.
pub type Now = std::sync::Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// `then` plus a duration.
pub fn later(then: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    then.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[derive(Debug)]
pub struct Ttl<K, V> {
    entries: Mutex<BTreeMap<K, (Timestamp, V)>>,
    life: Duration,
}

impl<K: Ord + Clone, V: Clone> Ttl<K, V> {
    pub fn new(life: Duration) -> Self {
        Self { entries: Mutex::new(BTreeMap::new()), life }
    }

    pub fn get<Q>(&self, key: &Q, now: Timestamp) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.lock().get(key).filter(|(until, _)| now < *until).map(|(_, value)| value.clone())
    }

    pub fn set(&self, key: K, value: V, now: Timestamp) {
        self.set_for(key, value, now, self.life);
    }

    pub fn set_for(&self, key: K, value: V, now: Timestamp, life: Duration) {
        self.lock().insert(key, (later(now, life), value));
    }

    pub fn remove<Q>(&self, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.lock().remove(key);
    }

    /// Takes out what has expired.
    pub fn expired(&self, now: Timestamp) -> Vec<(K, V)> {
        let mut entries = self.lock();
        let gone: Vec<K> = entries.iter().filter(|(_, (until, _))| *until <= now).map(|(key, _)| key.clone()).collect();
        gone.into_iter()
            .filter_map(|key| {
                let (_, value) = entries.remove(&key)?;
                Some((key, value))
            })
            .collect()
    }

    /// What is alive.
    pub fn entries(&self, now: Timestamp) -> Vec<(K, V)> {
        let alive = |(key, (until, value)): (&K, &(Timestamp, V))| (now < *until).then(|| (key.clone(), value.clone()));
        self.lock().iter().filter_map(alive).collect()
    }

    /// When the first entry ends.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.lock().values().map(|(until, _)| *until).min()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, (Timestamp, V)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
