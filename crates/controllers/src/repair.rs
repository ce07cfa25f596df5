//! Repair: a node that stays unhealthy longer than its provider bears is replaced, unless so many are that something
//! else must be wrong.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use karpenter_api::NodeClaim;
use karpenter_api::labels::TERMINATION_TIMESTAMP;
use karpenter_provider::RepairPolicy;

/// The share of unhealthy nodes (of a pool, or of the cluster) from which repair stops, in percent.
const BREAKER_PERCENT: usize = 20;
/// When a repair that the breaker stopped is tried again.
pub const BLOCKED_RETRY: Duration = Duration::from_mins(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Healthy,
    /// Borne for so long.
    Tolerated(Duration),
    /// By this condition, for too long.
    Unhealthy {
        condition: String,
    },
}

/// The condition whose time ends first decides.
pub fn judge(node: &Node, policies: &[RepairPolicy], now: Timestamp) -> Verdict {
    let first = policies
        .iter()
        .filter_map(|policy| {
            let condition = matching(node, policy)?;
            let since = condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            Some((since.checked_add(policy.toleration).unwrap_or(Timestamp::MAX), condition))
        })
        .min_by_key(|(end, _)| *end);
    match first {
        None => Verdict::Healthy,
        Some((end, condition)) => match Duration::try_from(end.duration_since(now)) {
            Ok(left) if !left.is_zero() => Verdict::Tolerated(left),
            _ => Verdict::Unhealthy { condition: condition.type_.clone() },
        },
    }
}

/// Whether so few nodes show any of the conditions, borne or not, that one of them may be repaired.
pub fn may_repair<'a>(nodes: impl IntoIterator<Item = &'a Node>, policies: &[RepairPolicy]) -> bool {
    let (mut all, mut unhealthy) = (0, 0);
    for node in nodes {
        all += 1;
        unhealthy += usize::from(policies.iter().any(|policy| matching(node, policy).is_some()));
    }
    unhealthy <= (all * BREAKER_PERCENT).div_ceil(100)
}

/// Whether the drain must be told that its time is up: not if it was before.
pub fn needs_deadline(claim: &NodeClaim, now: Timestamp) -> bool {
    let annotation = claim.metadata.annotations.as_ref().and_then(|all| all.get(TERMINATION_TIMESTAMP));
    annotation.and_then(|text| text.parse::<Timestamp>().ok()).is_none_or(|deadline| deadline >= now)
}

/// Whether a deadline was set for a repair that then never happened: the claim is not going, and its node is well again.
/// Left there, it would turn the next graceful disruption into a forced one.
pub fn has_stale_deadline(claim: &NodeClaim, verdict: &Verdict) -> bool {
    let annotated = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(TERMINATION_TIMESTAMP));
    annotated && claim.metadata.deletion_timestamp.is_none() && *verdict == Verdict::Healthy
}

/// Whether anything changed that a verdict depends on.
pub fn is_news(old: Option<&Node>, new: &Node) -> bool {
    fn said(node: &Node) -> Vec<(&str, &str, Option<Timestamp>)> {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let mut said: Vec<_> = conditions
            .iter()
            .map(|c| (c.type_.as_str(), c.status.as_str(), c.last_transition_time.as_ref().map(|time| time.0)))
            .collect();
        said.sort_unstable();
        said
    }
    old.is_none_or(|old| said(old) != said(new))
}

fn matching<'a>(node: &'a Node, policy: &RepairPolicy) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == policy.condition_type)?;
    Some(condition).filter(|condition| condition.status == policy.unhealthy.as_str())
}

/// `AcceleratedHardwareReady` as `accelerated_hardware_ready`, for a metric.
pub fn snake_case(text: &str) -> String {
    let mut out = String::new();
    for (position, letter) in text.char_indices() {
        if letter.is_uppercase() && position > 0 {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests;
