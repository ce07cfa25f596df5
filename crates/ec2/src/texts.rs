//! One allocation for each text: a catalogue repeats the same few thousand names a hundred thousand times.

use std::sync::Arc;

use rustc_hash::FxHashSet;

#[derive(Default)]
pub(crate) struct Texts(FxHashSet<Arc<str>>);

impl Texts {
    pub(crate) fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(new.clone());
        new
    }
}
