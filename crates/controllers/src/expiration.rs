//! Expiration: nodes do not grow older than their claims say.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::NodeClaim;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Never, or it is on its way out already.
    Stays,
    In(Duration),
    Expired,
}

/// Nothing protects from expiry: not budgets, not pods. The drain that follows respects them.
pub fn judge(claim: &NodeClaim, now: Timestamp) -> Verdict {
    let (Some(created), None) = (&claim.metadata.creation_timestamp, &claim.metadata.deletion_timestamp) else {
        return Verdict::Stays;
    };
    let Some(age) = claim.spec.expire_after.duration() else {
        return Verdict::Stays;
    };
    let end = created.0.checked_add(age.to_std()).unwrap_or(Timestamp::MAX);
    match Duration::try_from(end.duration_since(now)) {
        Ok(left) if !left.is_zero() => Verdict::In(left),
        _ => Verdict::Expired,
    }
}

#[cfg(test)]
mod tests;
