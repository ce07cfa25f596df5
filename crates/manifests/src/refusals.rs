//! What an API server would refuse in objects that are planned with all the same.

use karpenter_index::Fault;
use rustc_hash::FxHashMap;

use crate::document::Place;

/// In the order of the input, each kind of refusal once: a dump has thousands of pods of few sorts.
#[derive(Default)]
pub(crate) struct Refusals {
    all: Vec<Refusal>,
    /// Positions in `all` by kind of object, field and message.
    known: FxHashMap<(String, String, String), usize>,
}

struct Refusal {
    first: String,
    more: usize,
}

impl Refusals {
    pub(crate) fn add(&mut self, place: &Place, title: &str, fault: &Fault) {
        let kind = title.split(' ').next().unwrap_or_default().to_owned();
        let key = (kind, fault.field.clone(), fault.message.clone());
        let next = self.all.len();
        let position = *self.known.entry(key).or_insert(next);
        if position < next {
            self.all[position].more += 1;
        } else {
            self.all.push(Refusal { first: format!("{place}: {title}: {fault}"), more: 0 });
        }
    }

    /// A note for each.
    pub(crate) fn notes(self) -> impl Iterator<Item = String> {
        self.all.into_iter().map(|Refusal { first, more }| match more {
            0 => format!("{first}: an API server would refuse this"),
            1 => format!("{first}: an API server would refuse this, and 1 more like it"),
            more => format!("{first}: an API server would refuse this, and {more} more like it"),
        })
    }
}
