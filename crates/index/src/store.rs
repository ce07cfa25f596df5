//! Objects of one kind by name: the newest version wins, and what is gone stays gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::key::Key;

#[derive(Debug)]
pub(crate) struct Store<T> {
    items: BTreeMap<Key, Held<T>>,
    /// How far the watch has come. What is not held and not newer than this has been deleted: an answer to a write of
    /// ours that arrives after the watch told of the object's end must not bring it back.
    seen: u64,
}

#[derive(Debug)]
struct Held<T> {
    version: u64,
    value: Arc<T>,
}

/// Versions of one server count upwards, which clients may rely on since 1.35.
pub(crate) fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), seen: 0 }
    }
}

impl<T> Store<T> {
    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.items.get(key).map(|held| &held.value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        self.items.iter().map(|(key, held)| (key, &held.value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.values().map(|held| &held.value)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.items.keys().cloned().collect()
    }

    /// Whether an object of this version has something to tell.
    pub(crate) fn wants(&self, key: &Key, version: u64) -> bool {
        version > self.items.get(key).map_or(self.seen, |held| held.version)
    }

    /// Takes an object in; answers the one before.
    pub(crate) fn put(&mut self, key: Key, version: u64, value: Arc<T>) -> Option<Arc<T>> {
        self.items.insert(key, Held { version, value }).map(|before| before.value)
    }

    /// The object is gone, as of a version. A newer one of the same name stays.
    pub(crate) fn remove(&mut self, key: &Key, version: u64) -> Option<Arc<T>> {
        if self.items.get(key).is_none_or(|held| held.version > version) {
            return None;
        }
        self.items.remove(key).map(|held| held.value)
    }

    /// The watch has told everything up to this version.
    pub(crate) fn advance(&mut self, version: u64) {
        self.seen = self.seen.max(version);
    }

    /// A list holds the object: whatever was seen before, it exists unless we hold a newer one.
    pub(crate) fn wants_listed(&self, key: &Key, version: u64) -> bool {
        self.items.get(key).is_none_or(|held| held.version < version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_wins_and_the_gone_stay_gone() {
        let mut store = Store::default();
        let key = Key::cluster("a");
        assert!(store.wants(&key, 5));
        assert_eq!(store.put(key.clone(), 5, Arc::new("five")), None);
        store.advance(5);
        assert!(!store.wants(&key, 5), "the same again");
        assert!(!store.wants(&key, 4), "older");
        assert_eq!(store.remove(&key, 4), None, "the end of an earlier object of this name");
        assert_eq!(store.remove(&key, 7).as_deref(), Some(&"five"));
        store.advance(7);
        assert!(!store.wants(&key, 6), "an answer that was under way when it was deleted");
        assert!(store.wants(&key, 8), "another object of this name");
    }
}
