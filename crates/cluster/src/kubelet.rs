//! Kubelets of simulated machines.
//!
//! A machine comes as plain data, so that a cloud can hand it over. From then on it boots, registers its node, becomes
//! ready, runs the pods bound to it and renews its lease, until it disappears. Delays are drawn from the seed and the
//! names involved, so that one more pod does not change the fate of the others.

pub mod behaviour;
pub mod containers;
pub mod fleet;
pub mod machine;
pub mod node;
pub mod pods;
pub mod status;

pub use fleet::Fleet;
pub use machine::{CsiDriver, Machine};

use std::time::Duration;

/// How simulated kubelets behave.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    /// How long pulling an image takes that the machine does not have yet.
    pub image_pull: Span,
    /// How long sandbox and containers take to start.
    pub start: Span,
    /// How long containers take to stop when asked, unless their grace period ends first.
    pub stop: Span,
    /// How long an init container runs, and a container of a job, unless its command says so.
    pub init_run: Span,
    pub job_run: Span,
    pub heartbeats: Heartbeats,
    pub events: Events,
}

/// A range of durations.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub least: Duration,
    pub most: Duration,
}

impl Span {
    pub const fn millis(least: u64, most: u64) -> Self {
        Self { least: Duration::from_millis(least), most: Duration::from_millis(most) }
    }

    /// The duration for these words.
    pub fn draw(self, seed: u64, words: &[&str]) -> Duration {
        let (least, most) = (self.least.as_millis() as u64, self.most.as_millis() as u64);
        Duration::from_millis(crate::chance::between(seed, words, least, most.max(least)))
    }
}

/// Whether leases and node statuses are renewed for real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeats {
    /// Every ten seconds, as kubelets do.
    Written,
    /// Only where it makes a difference: at the start, and once more when the machine stops, so that whoever counts from
    /// the last renewal counts from the same moment. A week of fifty nodes is three million writes less.
    Folded,
}

/// Which pod events kubelets write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    All,
    /// Only what went wrong.
    Warnings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            image_pull: Span::millis(1_000, 8_000),
            start: Span::millis(500, 2_000),
            stop: Span::millis(200, 2_000),
            init_run: Span::millis(500, 3_000),
            job_run: Span::millis(5_000, 60_000),
            heartbeats: Heartbeats::Written,
            events: Events::All,
        }
    }
}

#[cfg(test)]
mod tests;
