//! Patience with what failed: pools whose drifted nodes cannot be replaced, offerings that were sold out. Each failure is
//! waited out, ever longer, so that nobody runs against the same wall again and again.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::plan::Launch;
use rustc_hash::FxHasher;

use crate::clock::later;

const FIRST: Duration = Duration::from_mins(1);
const LAST: Duration = Duration::from_mins(10);

/// What failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Wall {
    /// Drift of a pool.
    Drift(String),
    /// What a replacement was expected to become.
    Offering { instance_type: String, zone: String, capacity_type: String },
}

impl Wall {
    pub(super) fn drift(pool: &str) -> Self {
        Self::Drift(pool.to_owned())
    }

    pub(super) fn offering(launch: &Launch) -> Self {
        Self::Offering {
            instance_type: launch.instance_type.to_string(),
            zone: launch.zone.to_string(),
            capacity_type: launch.capacity_type.to_string(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Patience {
    walls: BTreeMap<Wall, Wait>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    failures: u32,
    until: Timestamp,
}

impl Patience {
    pub(super) fn is_waiting(&self, wall: &Wall, now: Timestamp) -> bool {
        self.walls.get(wall).is_some_and(|wait| now < wait.until)
    }

    pub(super) fn is_drift_waiting(&self, now: Timestamp) -> bool {
        self.walls.iter().any(|(wall, wait)| matches!(wall, Wall::Drift(_)) && now < wait.until)
    }

    /// It failed, and has not succeeded since.
    pub(super) fn is_known(&self, wall: &Wall) -> bool {
        self.walls.contains_key(wall)
    }

    /// Doubles the wait, half of which is chance, so that those with the same trouble do not come back together. What
    /// fails during a wait was started before and says nothing new.
    pub(super) fn failed(&mut self, wall: Wall, now: Timestamp) {
        if self.is_waiting(&wall, now) {
            return;
        }
        let failures = self.walls.get(&wall).map_or(0, |wait| wait.failures);
        let whole = FIRST.saturating_mul(1 << failures.min(10)).min(LAST);
        let until = later(now, whole / 2 + (whole / 2).mul_f64(chance(&wall, now)));
        self.walls.insert(wall, Wait { failures: failures + 1, until });
    }

    pub(super) fn succeeded(&mut self, wall: &Wall) {
        self.walls.remove(wall);
    }
}

/// From 0 to 1, different for each wall and moment and the same whenever those are.
fn chance(wall: &Wall, now: Timestamp) -> f64 {
    let hash = BuildHasherDefault::<FxHasher>::default().hash_one((wall, now.as_nanosecond()));
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
        let (mut patience, wall, other) = (Patience::default(), Wall::drift("p"), Wall::drift("q"));
        let mut now = 0;
        for minutes in [1, 2, 4, 8, 10, 10] {
            assert!(!patience.is_waiting(&wall, at(now)));
            patience.failed(wall.clone(), at(now));
            let until = patience.walls[&wall].until;
            assert!(
                at(now + minutes * 30) <= until && until <= at(now + minutes * 60),
                "{minutes}: {until} from {now}"
            );
            assert!(patience.is_waiting(&wall, at(now + minutes * 30 - 1)));
            // A second failure in the same window is the same failure.
            patience.failed(wall.clone(), at(now + 1));
            assert_eq!(patience.walls[&wall].until, until);
            assert!(!patience.is_waiting(&other, at(now)), "others go on meanwhile");
            now += minutes * 60;
        }
        patience.succeeded(&wall);
        assert!(!patience.is_known(&wall));
        patience.failed(wall.clone(), at(now));
        assert!(patience.walls[&wall].until <= at(now + 60), "from the beginning");
    }
}
