//! While a node starts, the reason why it is not ready yet changes every other moment. Each is a write that nobody reads:
//! what a claim waits for is written once it has waited a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_api::NodeClaim;
use tokio::time::Instant;

/// So long a new reason waits for the next one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Claims, by uid, whose new reason is not written yet, and since when.
#[derive(Debug, Default)]
pub(super) struct Patience {
    since: Mutex<BTreeMap<String, Instant>>,
}

impl Patience {
    /// How long the write of this change can wait; not at all if more changed than what is waited for.
    pub(super) fn left(&self, before: &NodeClaim, after: &NodeClaim, now: Instant) -> Option<Duration> {
        let uid = before.metadata.uid.clone().unwrap_or_default();
        if !is_another_reason(before, after) {
            self.since().remove(&uid);
            return None;
        }
        let since = *self.since().entry(uid).or_insert(now);
        let left = (since + PATIENCE).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    pub(super) fn forget(&self, claim: &NodeClaim) {
        self.since().remove(claim.metadata.uid.as_deref().unwrap_or_default());
    }

    fn since(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nothing changed but why conditions are unknown that were unknown before.
fn is_another_reason(before: &NodeClaim, after: &NodeClaim) -> bool {
    before != after && without_reasons(before) == without_reasons(after)
}

fn without_reasons(claim: &NodeClaim) -> NodeClaim {
    let mut claim = claim.clone();
    let conditions = claim.status.as_mut().and_then(|status| status.conditions.as_mut());
    for condition in conditions.into_iter().flatten().filter(|condition| condition.status == "Unknown") {
        condition.reason.clear();
        condition.message.clear();
        condition.last_transition_time = Time(Timestamp::UNIX_EPOCH);
    }
    claim
}

#[cfg(test)]
mod tests {
    use karpenter_api::conditions::{INITIALIZED, REGISTERED};

    use super::*;

    fn claim(change: impl Fn(&mut NodeClaim)) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.uid = Some("u".to_owned());
        claim.conditions_at(Timestamp::UNIX_EPOCH).set_unknown(INITIALIZED, "NodeNotReady", "Node status is NotReady");
        change(&mut claim);
        claim
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_reason_waits_and_everything_else_does_not() {
        let (patience, now, later) = (Patience::default(), Instant::now(), Timestamp::MAX);
        let before = claim(|_| ());
        let tainted = claim(|claim| {
            claim.conditions_at(later).set_unknown(INITIALIZED, "KnownEphemeralTaintsExist", "still exists");
        });
        assert_eq!(patience.left(&before, &before, now), None, "there is nothing to write");
        assert_eq!(patience.left(&before, &tainted, now), Some(PATIENCE));
        let half = PATIENCE / 2;
        assert_eq!(patience.left(&before, &tainted, now + half), Some(PATIENCE - half), "since the first time");
        assert_eq!(patience.left(&before, &tainted, now + PATIENCE), None, "nobody is left in the dark");
        for changed in [
            claim(|claim| {
                claim.conditions_at(later).set_true(REGISTERED);
            }),
            claim(|claim| claim.metadata.annotations.get_or_insert_default().extend([(String::new(), String::new())])),
        ] {
            assert_eq!(patience.left(&before, &changed, now), None);
        }
        assert_eq!(patience.left(&before, &tainted, now + PATIENCE), Some(PATIENCE), "from now on, after a write");
    }
}
