//! Patience with pools whose drifted nodes cannot be replaced: each failure is waited out, ever longer.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::time::Duration;

use jiff::Timestamp;
use rustc_hash::FxHasher;

use crate::clock::later;

const FIRST: Duration = Duration::from_mins(1);
const LAST: Duration = Duration::from_mins(10);

/// By pool.
#[derive(Debug, Default)]
pub(super) struct Patience {
    pools: BTreeMap<String, Wait>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    failures: u32,
    until: Timestamp,
}

impl Patience {
    pub(super) fn is_waiting(&self, pool: &str, now: Timestamp) -> bool {
        self.pools.get(pool).is_some_and(|wait| now < wait.until)
    }

    /// Doubles the wait, half of which is chance, so that pools with the same trouble do not come back together. What
    /// fails while the pool is waiting was started before and says nothing new.
    pub(super) fn failed(&mut self, pool: &str, now: Timestamp) {
        if self.is_waiting(pool, now) {
            return;
        }
        let failures = self.pools.get(pool).map_or(0, |wait| wait.failures);
        let whole = FIRST.saturating_mul(1 << failures.min(10)).min(LAST);
        let until = later(now, whole / 2 + (whole / 2).mul_f64(chance(pool, now)));
        self.pools.insert(pool.to_owned(), Wait { failures: failures + 1, until });
    }

    pub(super) fn succeeded(&mut self, pool: &str) {
        self.pools.remove(pool);
    }
}

/// From 0 to 1, different for each pool and moment and the same whenever those are.
fn chance(pool: &str, now: Timestamp) -> f64 {
    let hash = BuildHasherDefault::<FxHasher>::default().hash_one((pool, now.as_nanosecond()));
    f64::from(u32::try_from(hash >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn failures_are_waited_out_ever_longer_until_one_succeeds() {
        // covers: DIS-DRIFT-16
        let mut patience = Patience::default();
        let mut now = 0;
        for minutes in [1, 2, 4, 8, 10, 10] {
            assert!(!patience.is_waiting("p", at(now)));
            patience.failed("p", at(now));
            let wait = patience.pools["p"].until;
            let least = at(now + minutes * 30);
            assert!(least <= wait && wait <= at(now + minutes * 60), "{minutes}: {wait} from {}", at(now));
            assert!(patience.is_waiting("p", at(now + minutes * 30 - 1)));
            // A second failure in the same window is the same failure.
            patience.failed("p", at(now + 1));
            assert_eq!(patience.pools["p"].until, wait);
            assert!(!patience.is_waiting("q", at(now)), "others go on meanwhile");
            now += minutes * 60;
        }
        patience.succeeded("p");
        patience.failed("p", at(now));
        assert!(patience.pools["p"].until <= at(now + 60), "from the beginning");
    }
}
