//! One allocation for each text and each requirement: a catalogue repeats the same few thousand a hundred thousand times.

use std::sync::Arc;

use karpenter_core::Requirement;
use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Default)]
pub(crate) struct Texts {
    texts: FxHashSet<Arc<str>>,
    /// For a single value.
    ones: FxHashMap<Arc<str>, Arc<Requirement>>,
    others: FxHashSet<Arc<Requirement>>,
}

impl Texts {
    pub(crate) fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Arc<str> = Arc::from(text);
        self.texts.insert(new.clone());
        new
    }

    pub(crate) fn one(&mut self, value: &str) -> Arc<Requirement> {
        if let Some(known) = self.ones.get(value) {
            return known.clone();
        }
        let value = self.get(value);
        let new = Arc::new(Requirement { values: [value.clone()].into(), ..Requirement::absent() });
        self.ones.insert(value, new.clone());
        new
    }

    pub(crate) fn one_of<'a>(&mut self, values: impl IntoIterator<Item = &'a str>) -> Arc<Requirement> {
        let values = values.into_iter().map(|value| self.get(value)).collect();
        self.share(Requirement { values, ..Requirement::absent() })
    }

    pub(crate) fn absent(&mut self) -> Arc<Requirement> {
        self.share(Requirement::absent())
    }

    fn share(&mut self, requirement: Requirement) -> Arc<Requirement> {
        if let Some(known) = self.others.get(&requirement) {
            return known.clone();
        }
        let new = Arc::new(requirement);
        self.others.insert(new.clone());
        new
    }
}
