//! Whether what is known of the cluster is also recent: when each watch was last heard from.
//!
//! A connection that a gateway forgot stays open for ever and says nothing. What was listed once then still looks
//! complete, while pods come and go unseen, so nothing is destroyed on the word of a watch that has been silent.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use karpenter_index::Kind;
use tokio::time::Instant;

use crate::pulse::STANDSTILL;

/// A watch that says nothing for so long is dead, or its connection is: it asked for bookmarks, which come about once a
/// minute.
pub const SILENCE: Duration = Duration::from_secs(75);
/// What was heard longer ago is not recent. A little more than [`SILENCE`]: a quiet kind, for which some servers send no
/// bookmarks, is watched anew in time.
pub const RECENT: Duration = Duration::from_secs(90);
/// A watch this much behind its own deadline is stuck. The engine polls it, so it is no sooner late than the engine is.
const STUCK: Duration = STANDSTILL;

/// What each watch was last heard to say, and when it has to move on.
#[derive(Debug, Default)]
pub struct Freshness {
    watches: Mutex<BTreeMap<Kind, Watch>>,
}

#[derive(Debug)]
struct Watch {
    /// Never, while the first list is still to come.
    heard: Option<Instant>,
    /// We may read it; otherwise nothing waits for it.
    readable: bool,
    /// Whatever it is waiting for has come by then, or was given up.
    due: Instant,
    /// The server's history is another one than ours.
    went_back: bool,
}

impl Freshness {
    /// From now on the kind is watched, and what is decided from it waits until it was heard from.
    pub(crate) fn watch(&self, kind: Kind) {
        let now = Instant::now();
        self.watches().insert(kind, Watch { heard: None, readable: true, due: now + RECENT, went_back: false });
    }

    /// All that is known of the kind is as the server has it now: a list has ended, a watch was taken up again, an event
    /// or a bookmark came.
    pub(crate) fn heard(&self, kind: Kind) {
        if let Some(watch) = self.watches().get_mut(&kind) {
            (watch.heard, watch.readable) = (Some(Instant::now()).filter(|_| !watch.went_back), true);
        }
    }

    /// The server has gone back to an earlier state. Versions tell nothing any more: nothing is decided until another
    /// process starts from what there is now.
    pub(crate) fn went_back(&self, kind: Kind) {
        if let Some(watch) = self.watches().get_mut(&kind) {
            watch.went_back = true;
        }
    }

    /// Kinds of which the server has gone back to an earlier state.
    pub fn gone_back(&self) -> Vec<Kind> {
        self.watches().iter().filter(|(_, watch)| watch.went_back).map(|(kind, _)| *kind).collect()
    }

    /// It may not be read, and everything else works without it.
    pub(crate) fn goes_without(&self, kind: Kind) {
        if let Some(watch) = self.watches().get_mut(&kind) {
            watch.readable = false;
        }
    }

    /// What the watch waits for now takes no longer than this.
    pub(crate) fn waits(&self, kind: Kind, longest: Duration) {
        if let Some(watch) = self.watches().get_mut(&kind) {
            watch.due = Instant::now() + longest;
        }
    }

    /// Those of the kinds that were not heard from lately, and for how long not.
    pub fn stale(&self, kinds: &[Kind]) -> Vec<(Kind, Option<Duration>)> {
        let now = Instant::now();
        let watches = self.watches();
        let of_interest = watches.iter().filter(|(kind, watch)| watch.readable && kinds.contains(kind));
        let silence = of_interest.map(|(kind, watch)| (*kind, watch.heard.map(|at| now.duration_since(at))));
        silence.filter(|(_, silent)| silent.is_none_or(|silent| silent > RECENT)).collect()
    }

    pub fn is_fresh(&self, kinds: &[Kind]) -> bool {
        self.stale(kinds).is_empty()
    }

    /// Watches that have neither moved nor given up when they had to. The network cannot do that: it is a bug.
    pub fn stuck(&self) -> Vec<Kind> {
        let now = Instant::now();
        self.watches().iter().filter(|(_, watch)| now > watch.due + STUCK).map(|(kind, _)| *kind).collect()
    }

    fn watches(&self) -> MutexGuard<'_, BTreeMap<Kind, Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names of kinds, for people, with how long they were silent.
pub fn named(stale: &[(Kind, Option<Duration>)]) -> String {
    let name = |(kind, silent): &(Kind, Option<Duration>)| match silent {
        None => format!("{} (never)", kind.name()),
        Some(silent) => format!("{} ({} s)", kind.name(), silent.as_secs()),
    };
    stale.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_kinds_that_are_watched_and_may_be_read_can_be_stale() {
        let freshness = Freshness::default();
        assert!(freshness.is_fresh(&Kind::ALL), "nothing is watched yet");
        freshness.watch(Kind::Pod);
        freshness.watch(Kind::Service);
        assert_eq!(freshness.stale(&[Kind::Pod, Kind::Node]), [(Kind::Pod, None)]);
        freshness.heard(Kind::Pod);
        freshness.goes_without(Kind::Service);
        assert!(freshness.is_fresh(&Kind::ALL));
        tokio::time::advance(RECENT + Duration::from_secs(1)).await;
        assert_eq!(named(&freshness.stale(&Kind::ALL)), "Pod (91 s)");
        assert!(freshness.is_fresh(&[Kind::Node]));
        freshness.heard(Kind::Pod);
        freshness.heard(Kind::Service);
        assert!(freshness.is_fresh(&Kind::ALL));
        tokio::time::advance(RECENT + Duration::from_secs(1)).await;
        assert_eq!(freshness.stale(&[Kind::Service]).len(), 1, "granted meanwhile, it counts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_behind_its_own_deadline_is_stuck() {
        let freshness = Freshness::default();
        freshness.watch(Kind::Pod);
        freshness.waits(Kind::Pod, SILENCE);
        tokio::time::advance(SILENCE + STUCK).await;
        assert!(freshness.stuck().is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(freshness.stuck(), [Kind::Pod]);
        freshness.waits(Kind::Pod, Duration::from_secs(1));
        tokio::time::advance(STANDSTILL).await;
        assert!(freshness.stuck().is_empty(), "while the engine computes for so long, nothing of it has hung");
    }
}
