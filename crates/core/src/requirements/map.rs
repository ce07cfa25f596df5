//! Requirements by key, shared as far as they are the same.
//!
//! The types of a region have forty requirements each and a dozen offerings with six more, but between them only a few
//! thousand different ones. So a map is shared by its clones until one is changed, and each requirement by the maps it
//! was put into.

use std::sync::Arc;

use crate::named::Named;
use crate::requirement::Requirement;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequirementMap(Arc<Named<Arc<Requirement>>>);

impl RequirementMap {
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key).map(|requirement| &**requirement)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Requirement> {
        Arc::make_mut(&mut self.0).get_mut(key).map(Arc::make_mut)
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub fn insert(&mut self, key: Arc<str>, requirement: impl Into<Arc<Requirement>>) -> Option<Arc<Requirement>> {
        Arc::make_mut(&mut self.0).insert(key, requirement.into())
    }

    pub fn remove(&mut self, key: &str) -> Option<Arc<Requirement>> {
        if !self.contains_key(key) {
            return None;
        }
        Arc::make_mut(&mut self.0).remove(key)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Arc<str>, &Requirement) -> bool) {
        if self.iter().all(|(key, requirement)| keep(key, requirement)) {
            return;
        }
        Arc::make_mut(&mut self.0).retain(|key, requirement| keep(key, requirement));
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Arc<str>, &Requirement)> + ExactSizeIterator + Clone {
        self.0.iter().map(|(key, requirement)| (key, &**requirement))
    }

    /// For whoever puts them into another map.
    pub fn shared(
        &self,
    ) -> impl DoubleEndedIterator<Item = (&Arc<str>, &Arc<Requirement>)> + ExactSizeIterator + Clone {
        self.0.iter()
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Arc<str>> + ExactSizeIterator + Clone {
        self.0.keys()
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Requirement> + ExactSizeIterator + Clone {
        self.0.values().map(|requirement| &**requirement)
    }

    /// For maps that were filled one by one and are now kept.
    pub fn shrink_to_fit(&mut self) {
        Arc::make_mut(&mut self.0).shrink_to_fit();
    }

    /// The same for maps that share their entries, and only for these. Good for remembering answers while the map is
    /// at hand; a later map may have the number of one that is gone.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl<R: Into<Arc<Requirement>>> FromIterator<(Arc<str>, R)> for RequirementMap {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, R)>>(entries: I) -> Self {
        Self(Arc::new(entries.into_iter().map(|(key, requirement)| (key, requirement.into())).collect()))
    }
}

impl<'a> IntoIterator for &'a RequirementMap {
    type Item = (&'a Arc<str>, &'a Requirement);
    type IntoIter = std::iter::Map<
        <&'a Named<Arc<Requirement>> as IntoIterator>::IntoIter,
        fn((&'a Arc<str>, &'a Arc<Requirement>)) -> Self::Item,
    >;

    fn into_iter(self) -> Self::IntoIter {
        (&*self.0).into_iter().map(|(key, requirement)| (key, &**requirement))
    }
}

type Entry = (Arc<str>, Arc<Requirement>);

impl IntoIterator for RequirementMap {
    type Item = (Arc<str>, Requirement);
    type IntoIter = std::iter::Map<std::vec::IntoIter<Entry>, fn(Entry) -> Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter().map(|(key, requirement)| (key, Arc::unwrap_or_clone(requirement)))
    }
}
