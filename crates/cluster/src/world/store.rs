//! Objects of one kind by name, newest version wins.

use crate::key::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Store<T> {
    items: BTreeMap<Key, (u64, Arc<T>)>,
    /// Objects we deleted and whose end the watch has not told yet, with their uid.
    graves: BTreeMap<Key, String>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), graves: BTreeMap::new() }
    }
}

/// Versions of one server count upwards, which clients may rely on since 1.35.
pub fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

impl<T> Store<T> {
    pub fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.items.get(key).map(|(_, object)| object)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        self.items.iter().map(|(key, (_, object))| (key, object))
    }

    pub fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.values().map(|(_, object)| object)
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.items.keys()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a Arc<T>)> {
        let from = Key::new(namespace, "");
        let rest = self.items.range((Bound::Included(from), Bound::Unbounded));
        rest.take_while(move |(key, _)| &*key.namespace == namespace).map(|(key, (_, object))| (key, object))
    }

    /// Whether an event of this version and uid has something to tell.
    pub fn wants(&self, key: &Key, version: u64, uid: &str) -> bool {
        self.graves.get(key).is_none_or(|grave| grave != uid)
            && self.items.get(key).is_none_or(|(have, _)| *have < version)
    }

    /// Takes a newer object in; answers the one before, or gives the object back if it is not newer.
    pub fn put(&mut self, key: Key, version: u64, uid: &str, object: Arc<T>) -> Result<Option<Arc<T>>, Arc<T>> {
        if !self.wants(&key, version, uid) {
            return Err(object);
        }
        self.graves.remove(&key);
        Ok(self.items.insert(key, (version, object)).map(|(_, before)| before))
    }

    /// The watch says the object is gone.
    pub fn remove(&mut self, key: &Key, version: u64) -> Option<Arc<T>> {
        self.graves.remove(key);
        // A new object of the same name may have come with our own answer, before the end of the old one was told.
        if self.items.get(key).is_some_and(|(have, _)| *have > version) {
            return None;
        }
        self.items.remove(key).map(|(_, object)| object)
    }

    /// We deleted the object ourselves; the watch will tell later.
    pub fn bury(&mut self, key: &Key, uid: &str) -> Option<Arc<T>> {
        let (_, object) = self.items.remove(key)?;
        self.graves.insert(key.clone(), uid.to_owned());
        Some(object)
    }
}
