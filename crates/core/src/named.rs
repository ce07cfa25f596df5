//! A small map by name: one sorted, exactly sized block of memory.
//!
//! A thousand instance types have a hundred thousand entries in such maps, most with a handful each. The nodes of a
//! `BTreeMap` have room for eleven entries, used or not; here an entry takes what it takes. The methods are those of
//! `BTreeMap`, with its order; inserting moves what follows, which is nothing at this size.

use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named<V>(Vec<(Arc<str>, V)>);

impl<V> Default for Named<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Named<V> {
    pub fn new() -> Self {
        Self::default()
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(held, _)| (**held).cmp(name))
    }

    pub fn get(&self, name: &str) -> Option<&V> {
        self.find(name).ok().map(|at| &self.0[at].1)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.find(name).ok().map(|at| &mut self.0[at].1)
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    /// What was there before, if anything.
    pub fn insert(&mut self, name: Arc<str>, value: V) -> Option<V> {
        match self.find(&name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<V> {
        self.find(name).ok().map(|at| self.0.remove(at).1)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Arc<str>, &mut V) -> bool) {
        self.0.retain_mut(|(name, value)| keep(name, value));
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Arc<str>, &V)> + ExactSizeIterator + Clone {
        self.0.iter().map(|(name, value)| (name, value))
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Arc<str>> + ExactSizeIterator + Clone {
        self.0.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// For maps that were filled one by one and are now kept.
    pub fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }
}

/// Of entries with the same name the last one stays.
impl<V> FromIterator<(Arc<str>, V)> for Named<V> {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, V)>>(entries: I) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries.reverse();
            entries.dedup_by(|later, kept| later.0 == kept.0);
            entries.reverse();
        }
        entries.shrink_to_fit();
        Self(entries)
    }
}

impl<V> Extend<(Arc<str>, V)> for Named<V> {
    fn extend<I: IntoIterator<Item = (Arc<str>, V)>>(&mut self, entries: I) {
        for (name, value) in entries {
            self.insert(name, value);
        }
    }
}

impl<V> IntoIterator for Named<V> {
    type Item = (Arc<str>, V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, V> IntoIterator for &'a Named<V> {
    type Item = (&'a Arc<str>, &'a V);
    type IntoIter = std::iter::Map<std::slice::Iter<'a, (Arc<str>, V)>, fn(&'a (Arc<str>, V)) -> Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Vec<(String, u8)>> {
        proptest::collection::vec(("[a-d]{0,2}", any::<u8>()), 0..12)
    }

    fn shared(entries: &[(String, u8)]) -> impl Iterator<Item = (Arc<str>, u8)> {
        entries.iter().map(|(name, value)| (Arc::from(name.as_str()), *value))
    }

    proptest! {
        #[test]
        fn it_is_the_map_of_the_standard_library(first in entries(), then in entries(), gone in "[a-d]{0,2}") {
            let mut ours: Named<u8> = shared(&first).collect();
            let mut std: BTreeMap<Arc<str>, u8> = shared(&first).collect();
            prop_assert!(ours.iter().eq(std.iter()));
            for (name, value) in shared(&then) {
                prop_assert_eq!(ours.insert(name.clone(), value), std.insert(name, value));
            }
            prop_assert_eq!(ours.remove(&gone), std.remove(&*gone));
            ours.retain(|_, value| *value > 30);
            std.retain(|_, value| *value > 30);
            prop_assert_eq!(ours.get(&gone), None);
            prop_assert!(ours.iter().eq(std.iter()) && ours.len() == std.len());
            prop_assert!(std.iter().all(|(name, value)| ours.get(name) == Some(value) && ours.contains_key(name)));
            ours.extend(shared(&first));
            std.extend(shared(&first));
            prop_assert!(ours.into_iter().eq(std));
        }
    }
}
