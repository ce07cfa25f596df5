//! When the provider is asked whether a machine that it terminates is gone.
//!
//! Each question is a call to a cloud that throttles accounts. Upstream asks every five seconds and, once the machine is gone, a
//! last time for the claim; here it is remembered that it is gone, so that one question more may come early: most machines
//! have little to shut down. Events of the Node and the claim in between are no reason to ask again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

const EARLY: SignedDuration = SignedDuration::from_secs(2);
const EVERY: SignedDuration = SignedDuration::from_secs(5);
/// Nobody asks about a machine any more that nobody has asked about for so long.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(10);

/// The first time after `then` to ask about a machine that terminates since `since`. Machines that terminate together are asked
/// about together, which is one call.
pub(crate) fn next_question(since: Timestamp, then: Timestamp) -> Timestamp {
    let elapsed = then.duration_since(since);
    let after = if elapsed < EARLY {
        EARLY
    } else {
        let rounds = elapsed.as_secs() / EVERY.as_secs() + 1;
        SignedDuration::from_secs(rounds * EVERY.as_secs())
    };
    since.checked_add(after).unwrap_or(then)
}

/// Provider ids, each with the time of the last question.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<BTreeMap<String, Timestamp>>);

impl Questions {
    /// Whether a machine that terminates since `since` may be asked about.
    pub(crate) fn is_due(&self, provider_id: &str, since: Timestamp, now: Timestamp) -> bool {
        self.all().get(provider_id).is_none_or(|last| next_question(since, *last) <= now)
    }

    pub(crate) fn asked(&self, provider_id: &str, now: Timestamp) {
        let mut all = self.all();
        all.retain(|_, last| now.duration_since(*last) < REMEMBERED);
        all.insert(provider_id.to_owned(), now);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn questions_come_after_two_seconds_and_then_every_five() {
        for (then, want) in
            [(0, 2_000), (1_999, 2_000), (2_000, 5_000), (4_999, 5_000), (5_000, 10_000), (61_000, 65_000)]
        {
            assert_eq!(next_question(at(0), at(then)), at(want), "after {then} ms");
        }
    }

    /// Upstream: one that terminates, one every five seconds until the machine is gone, one for the claim.
    #[test]
    fn however_long_a_machine_takes_upstream_asks_as_often() {
        for gone in (0..120_000).step_by(250) {
            let (mut ours, mut now) = (1, at(0));
            while now < at(gone) {
                now = next_question(at(0), now);
                ours += 1;
            }
            let upstreams = 1 + (gone + 4_999) / 5_000 + 1;
            assert!(ours <= upstreams, "gone after {gone} ms: {ours} questions, and {upstreams} of upstream's");
        }
    }

    #[test]
    fn events_in_between_are_no_reason_to_ask() {
        let (questions, since) = (Questions::default(), at(0));
        assert!(questions.is_due("a", since, at(0)), "a process that starts has not asked");
        questions.asked("a", at(100));
        assert!(!questions.is_due("a", since, at(1_999)) && questions.is_due("b", since, at(1_999)));
        assert!(questions.is_due("a", since, at(2_000)));
        questions.asked("a", at(2_000));
        assert!(!questions.is_due("a", since, at(4_999)) && questions.is_due("a", since, at(5_000)));
    }
}
