//! The life of a pod's containers as plain data: what happened until now, and when something happens next.

use super::behaviour::End;
use crate::clock::later;
use jiff::Timestamp;
use std::time::Duration;

/// Containers that keep failing are restarted ever later.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LAST_BACKOFF: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    pub state: State,
    pub restarts: i32,
    /// How it ended the last time.
    pub last: Option<Ended>,
    pub end: Option<End>,
    pub restart: Restart,
    /// From start to ready.
    pub ready_after: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    Waiting { until: Timestamp, crashed: bool },
    Running { since: Timestamp },
    Done(Ended),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub started: Timestamp,
    pub at: Timestamp,
    pub code: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    pub fn policy(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    fn applies(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

impl Container {
    /// Lets everything happen that is due.
    pub fn advance(&mut self, now: Timestamp) {
        while let Some(at) = self.next_change().filter(|at| *at <= now) {
            match self.state {
                State::Waiting { until, .. } if until <= now => self.state = State::Running { since: until },
                State::Running { since } if self.end.is_some_and(|e| later(since, e.after) <= now) => self.exit(since),
                // Becoming ready changes nothing here; it is read off the clock.
                State::Waiting { .. } | State::Running { .. } | State::Done(_) => break,
            }
            debug_assert!(at <= now);
        }
    }

    fn exit(&mut self, since: Timestamp) {
        let Some(end) = self.end else { return };
        let ended = Ended { started: since, at: later(since, end.after), code: end.code };
        if !self.restart.applies(end.code) {
            self.state = State::Done(ended);
            return;
        }
        self.last = Some(ended);
        self.restarts += 1;
        let pause = match self.restarts {
            1 => Duration::ZERO,
            n => FIRST_BACKOFF.saturating_mul(1 << (n - 2).min(8)).min(LAST_BACKOFF),
        };
        // A pause keeps a container that ends at once from being restarted for ever in the same instant.
        let pause = pause.max(Duration::from_millis(100));
        self.state = State::Waiting { until: later(ended.at, pause), crashed: self.restarts > 1 };
    }

    /// Stops it, if it runs.
    pub fn stop(&mut self, now: Timestamp, code: i32) {
        match self.state {
            State::Running { since } => self.state = State::Done(Ended { started: since, at: now, code }),
            State::Waiting { .. } => {
                self.state = State::Done(self.last.unwrap_or(Ended { started: now, at: now, code }))
            }
            State::Done(_) => {}
        }
    }

    pub fn is_ready(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Running { since } if later(since, self.ready_after) <= now)
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    pub fn has_started(&self) -> bool {
        self.restarts > 0 || !matches!(self.state, State::Waiting { .. })
    }

    /// When its state changes next by itself.
    fn next_change(&self) -> Option<Timestamp> {
        match self.state {
            State::Waiting { until, .. } => Some(until),
            State::Running { since } => self.end.map(|e| later(since, e.after)),
            State::Done(_) => None,
        }
    }

    /// When something visible happens next, readiness included.
    pub fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let ready = match self.state {
            State::Running { since } => Some(later(since, self.ready_after)).filter(|at| *at > now),
            State::Waiting { .. } | State::Done(_) => None,
        };
        self.next_change().into_iter().chain(ready).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn container(restart: Restart, end: Option<(u64, i32)>) -> Container {
        Container {
            state: State::Waiting { until: at(5), crashed: false },
            restarts: 0,
            last: None,
            end: end.map(|(s, code)| End { after: Duration::from_secs(s), code }),
            restart,
            ready_after: Duration::from_secs(3),
        }
    }

    #[test]
    fn containers_start_become_ready_and_end_as_their_policy_says() {
        let mut serving = container(Restart::Always, None);
        serving.advance(at(4));
        assert!(!serving.has_started());
        serving.advance(at(5));
        assert!(serving.has_started() && !serving.is_ready(at(7)) && serving.is_ready(at(8)));
        assert_eq!(serving.next_event(at(5)), Some(at(8)));
        assert_eq!(serving.next_event(at(8)), None);
        for (policy, code, done) in [
            (Restart::Never, 1, true),
            (Restart::OnFailure, 0, true),
            (Restart::OnFailure, 1, false),
            (Restart::Always, 0, false),
        ] {
            let mut c = container(policy, Some((10, code)));
            c.advance(at(15));
            assert_eq!(c.is_done(), done, "{policy:?} {code}");
            assert_eq!(c.restarts, i32::from(!done));
        }
    }

    #[test]
    fn a_crashing_container_backs_off() {
        let mut c = container(Restart::Always, Some((1, 1)));
        c.advance(at(3600));
        let restarts = c.restarts;
        assert!((14..=18).contains(&restarts), "{restarts}: five minutes apart after the first few");
        assert!(c.last.is_some_and(|l| l.code == 1));
    }
}
