//! Repair: a node that stays unhealthy longer than its provider bears is replaced, unless so many are that something
//! else must be wrong.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use karpenter_api::NodeClaim;
use karpenter_api::conditions::whole_seconds;
use karpenter_api::labels::{NODEPOOL, TERMINATION_TIMESTAMP};
use karpenter_index::{Change, Key, Kind};
use karpenter_provider::RepairPolicy;
use serde_json::json;

use crate::context::Context;
use crate::error::{Result, unless_gone};
use crate::ownership::{Matches, is_managed_node};
use crate::patch::Lock;
use crate::pods::reschedulable_on;
use crate::reconciler::{Action, Reconciler};
use crate::recorder::{Event, ObjectRef};
use crate::unreadable::LOOK_AGAIN;

/// The share of unhealthy nodes (of a pool, or of the cluster) from which repair stops, in percent.
const BREAKER_PERCENT: usize = 20;
/// What tells that a node is not well, and that most others are.
const READS: [Kind; 3] = [Kind::NodeClaim, Kind::Node, Kind::NodePool];
/// When a repair that the breaker stopped is tried again.
pub const BLOCKED_RETRY: Duration = Duration::from_mins(5);
/// Of the event that says so.
const BLOCKED_WINDOW: Duration = Duration::from_mins(15);

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

/// The controller `node.health`. Only with the feature gate `NodeRepair`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repair;

impl Repair {
    /// Says that the breaker is open: one event each for node, claim and pool, all about the node.
    fn blocked(node: &Node, claim: &NodeClaim, context: &Context) {
        let pool_name = claim.metadata.labels.as_ref().and_then(|labels| labels.get(NODEPOOL));
        let mut uids = vec![node.metadata.uid.clone(), claim.metadata.uid.clone()];
        let whole = match pool_name {
            None => "cluster",
            Some(name) => {
                let Some(pool) = context.index.node_pool(name) else { return };
                uids.push(pool.metadata.uid.clone());
                "nodepool"
            }
        };
        let message = format!("more than {BREAKER_PERCENT}% nodes are unhealthy in the {whole}");
        for uid in uids {
            let event = Event::warning(ObjectRef::node(node), "NodeRepairBlocked", message.clone());
            context.recorder.publish(event.within(BLOCKED_WINDOW).same([uid.unwrap_or_default()]));
        }
    }

    fn may_repair(claim: &NodeClaim, policies: &[RepairPolicy], context: &Context) -> bool {
        let label = |labels: Option<&std::collections::BTreeMap<String, String>>| labels?.get(NODEPOOL).cloned();
        let pool = label(claim.metadata.labels.as_ref());
        let nodes = context.index.nodes();
        let of_pool = |node: &&Arc<Node>| pool.is_none() || label(node.metadata.labels.as_ref()) == pool;
        may_repair(nodes.iter().filter(of_pool).map(|node| &**node), policies)
    }

    async fn replace(claim: &NodeClaim, condition: &str, context: &Context) -> Result<()> {
        // A node that was not heard from may have recovered, and the others may not be well either.
        context.heard_lately(&READS)?;
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let now = context.clock.now();
        if needs_deadline(claim, now) {
            let deadline = whole_seconds(now).to_string();
            let body = json!({"metadata": {"annotations": {TERMINATION_TIMESTAMP: deadline}}});
            if unless_gone(context.merge::<NodeClaim>(name, &body).await)?.is_none() {
                return Ok(());
            }
            tracing::info!(
                claim = name,
                "karpenter.sh/nodeclaim-termination-timestamp" = deadline,
                "annotated nodeclaim"
            );
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let pods = reschedulable_on(claim, context);
        context.delete::<NodeClaim>(name, claim.metadata.uid.as_deref().unwrap_or_default(), &READS).await?;
        tracing::info!(claim = name, "deleting unhealthy node");
        context.metrics.life.disrupted(claim, "unhealthy", "");
        context.metrics.life.pods_disrupted(claim, "unhealthy", "", pods);
        context.metrics.life.unhealthy(claim, snake_case(condition));
        Ok(())
    }
}

#[async_trait]
impl Reconciler for Repair {
    fn name(&self) -> &'static str {
        "node.health"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        let Some(nodes) = change.node() else {
            return Vec::new();
        };
        let new = nodes.new.iter().filter(|node| is_managed_node(node, context.provider.node_class_kinds()));
        new.filter(|node| is_news(nodes.old.as_deref(), node)).map(|_| change.key.clone()).collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(node) = context.index.node(&key.name) else {
            return Ok(Action::Done);
        };
        let found: Matches<Arc<NodeClaim>> = context.index.claims_of_node(&node).into_iter().collect();
        let Some(claim) = found.one() else {
            return Ok(Action::Done);
        };
        if context.index.unreadable(Kind::Node, key).is_some()
            || context.index.unreadable(Kind::NodeClaim, &Key::of(&claim.metadata)).is_some()
        {
            // By now they may say something else.
            return Ok(Action::After(LOOK_AGAIN));
        }
        let policies = context.provider.repair_policies();
        let verdict = judge(&node, &policies, context.clock.now());
        if has_stale_deadline(&claim, &verdict) {
            let mut cleared = (*claim).clone();
            cleared.metadata.annotations.get_or_insert_default().remove(TERMINATION_TIMESTAMP);
            unless_gone(context.write(&*claim, &cleared, Lock::Version).await)?;
        }
        match verdict {
            Verdict::Healthy => Ok(Action::Done),
            Verdict::Tolerated(left) => Ok(Action::After(left)),
            Verdict::Unhealthy { condition } if Self::may_repair(&claim, &policies, context) => {
                Self::replace(&claim, &condition, context).await?;
                Ok(Action::Done)
            }
            Verdict::Unhealthy { .. } => {
                Self::blocked(&node, &claim, context);
                Ok(Action::After(BLOCKED_RETRY))
            }
        }
    }
}

#[cfg(test)]
mod tests;
