//! Whether everything that runs still moves, for whoever restarts us when it does not.
//!
//! What waits for the network has a deadline of its own, so a loop that is far behind the deadlines here is a bug:
//! something waits for what will never come, or computes without an end. Nobody inside the process can mend that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use karpenter_index::Key;
use tokio::time::Instant;

/// The engine shows that it lives this often, however little there is to do.
pub(crate) const BEAT: Duration = Duration::from_secs(15);
/// The engine is one task. It stands still while something is computed in it, which takes seconds in the largest
/// clusters.
pub(crate) const STANDSTILL: Duration = Duration::from_mins(3);
/// What one round of work may take: many calls in a row, each with a deadline of half a minute, in an hour in which
/// every second one is answered late.
pub const ROUND: Duration = Duration::from_mins(10);

/// The loops of a process.
#[derive(Debug, Default)]
pub struct Pulse(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the engine last showed itself, while it runs.
    beat: Option<Instant>,
    rounds: BTreeMap<u64, Round>,
    next: u64,
}

#[derive(Debug)]
struct Round {
    name: &'static str,
    key: Option<Key>,
    since: Instant,
    longest: Duration,
}

/// A round of work that is under way until this is dropped.
#[derive(Debug)]
pub struct UnderWay {
    pulse: Arc<Pulse>,
    id: u64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.pulse.state().rounds.remove(&self.id);
    }
}

impl Pulse {
    /// The engine has come round once more.
    pub(crate) fn beat(&self) {
        self.state().beat = Some(Instant::now());
    }

    /// It has ended, as it was asked to.
    pub(crate) fn rest(&self) {
        self.state().beat = None;
    }

    /// Work begins that is over after `longest` at the latest.
    pub fn begin(self: &Arc<Self>, name: &'static str, key: Option<Key>, longest: Duration) -> UnderWay {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        state.rounds.insert(id, Round { name, key, since: Instant::now(), longest });
        drop(state);
        UnderWay { pulse: self.clone(), id }
    }

    /// What does not move any more, each with how long not.
    pub fn hung(&self) -> Vec<String> {
        let (now, state) = (Instant::now(), self.state());
        let still = state.beat.map(|beat| now.duration_since(beat)).filter(|still| *still > STANDSTILL);
        let engine = still.map(|still| format!("the engine stands still for {} s", still.as_secs()));
        let late = state.rounds.values().filter(|round| now.duration_since(round.since) > round.longest);
        let late = late.map(|round| {
            let seconds = now.duration_since(round.since).as_secs();
            match &round.key {
                Some(key) => format!("{} is busy with {key} for {seconds} s", round.name),
                None => format!("{} is busy for {seconds} s", round.name),
            }
        });
        engine.into_iter().chain(late).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn work_beyond_its_deadline_is_hung_until_it_ends() {
        let pulse = Arc::new(Pulse::default());
        let quick = pulse.begin("quick", None, SECOND);
        let long = pulse.begin("long", Some(Key::cluster("a")), 10 * SECOND);
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(pulse.hung(), ["quick is busy for 2 s"]);
        drop(quick);
        assert!(pulse.hung().is_empty());
        tokio::time::advance(9 * SECOND).await;
        assert_eq!(pulse.hung(), ["long is busy with a for 11 s"]);
        drop(long);
        assert!(pulse.hung().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_stands_still_is_hung_and_one_that_has_ended_is_not() {
        let pulse = Pulse::default();
        tokio::time::advance(2 * STANDSTILL).await;
        assert!(pulse.hung().is_empty(), "it has not begun");
        pulse.beat();
        tokio::time::advance(STANDSTILL).await;
        assert!(pulse.hung().is_empty());
        tokio::time::advance(SECOND).await;
        assert_eq!(pulse.hung(), ["the engine stands still for 181 s"]);
        pulse.rest();
        assert!(pulse.hung().is_empty());
    }
}
