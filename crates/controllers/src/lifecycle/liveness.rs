//! Liveness: a claim that does not become a node in time is given up, so that its pods are tried elsewhere.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{LAUNCHED, REGISTERED, Status};

/// A launch is one call; what has not worked for so long is not going to.
pub const LAUNCH_TIMEOUT: Duration = Duration::from_mins(5);
/// The slowest images boot within ten minutes.
pub const REGISTRATION_TIMEOUT: Duration = Duration::from_mins(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Registered: from now on nobody asks.
    Alive,
    Wait(Duration),
    TimedOut {
        timeout: Duration,
        /// For the counter of disrupted claims.
        reason: &'static str,
    },
}

/// The times are those of the conditions, which start with the claim and restart when a status changes.
pub fn judge(claim: &NodeClaim, launch_timeout: Duration, now: Timestamp) -> Verdict {
    if claim.condition_status(REGISTERED) == Status::True {
        return Verdict::Alive;
    }
    if claim.condition_status(LAUNCHED) != Status::True {
        match time_left(claim, LAUNCHED, launch_timeout, now) {
            None => return Verdict::TimedOut { timeout: launch_timeout, reason: "launch_timeout" },
            Some(left) => return Verdict::Wait(left),
        }
    }
    match time_left(claim, REGISTERED, REGISTRATION_TIMEOUT, now) {
        None => Verdict::TimedOut { timeout: REGISTRATION_TIMEOUT, reason: "registration_timeout" },
        Some(left) => Verdict::Wait(left),
    }
}

/// `None` once it is over. A condition that is not there yet has all the time from now on.
fn time_left(claim: &NodeClaim, kind: &str, timeout: Duration, now: Timestamp) -> Option<Duration> {
    let since = claim.condition(kind).map_or(now, |condition| condition.last_transition_time.0);
    let end = since.checked_add(timeout).unwrap_or(Timestamp::MAX);
    Duration::try_from(end.duration_since(now)).ok().filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
