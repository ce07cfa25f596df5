//! Machines that the provider has said are gone. A Node is let go first and its claim after it: the second need not ask
//! again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// A claim that is still held by then is held by somebody else.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(10);

/// Provider ids, each with the time at which it was found gone.
#[derive(Debug, Default)]
pub(crate) struct Gone(Mutex<BTreeMap<String, Timestamp>>);

impl Gone {
    pub(crate) fn remember(&self, provider_id: &str, now: Timestamp) {
        let mut all = self.all();
        all.retain(|_, since| now.duration_since(*since) < REMEMBERED);
        all.insert(provider_id.to_owned(), now);
    }

    pub(crate) fn has(&self, provider_id: &str) -> bool {
        self.all().contains_key(provider_id)
    }

    pub(crate) fn forget(&self, provider_id: &str) {
        self.all().remove(provider_id);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_known_until_its_claim_is_too_or_for_ten_minutes() {
        let (gone, at) = (Gone::default(), |second| Timestamp::from_second(second).unwrap());
        for (id, second) in [("a", 0), ("b", 0), ("c", 600)] {
            gone.remember(id, at(second));
            gone.forget("b");
        }
        assert_eq!(["a", "b", "c"].map(|id| gone.has(id)), [false, false, true]);
    }
}
