//! What disruption wants to know of NodePools, Nodes and NodeClaims beyond what places pods.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core_v1;
use karpenter_api::conditions::{self, Status};
use karpenter_api::labels::DO_NOT_DISRUPT;
use karpenter_api::nodepool::consolidation_policy;
use karpenter_api::{GoDuration, NodeClaim, NodePool};
use karpenter_core::InstanceType;
use karpenter_core::node::Stage;
use karpenter_disruption::{Budget, ConsolidationPolicy, Drifted, NodeFacts, PoolFacts};

/// On a NodePool, or on the controller's ConfigMap for all: voluntary disruption stops at once.
pub const PAUSE_DISRUPTION: &str = "karpenter.sh/pause-disruption";

/// A pool with what its node class can launch; nothing where that is not known.
pub fn pool(object: &NodePool, instance_types: Arc<[Arc<InstanceType>]>) -> PoolFacts {
    let disruption = &object.spec.disruption;
    let policy = match disruption.consolidation_policy.as_str() {
        consolidation_policy::WHEN_EMPTY => ConsolidationPolicy::WhenEmpty,
        consolidation_policy::BALANCED => ConsolidationPolicy::Balanced,
        _ => ConsolidationPolicy::WhenEmptyOrUnderutilized,
    };
    let budget = |budget: &karpenter_api::nodepool::Budget| Budget {
        reasons: budget.reasons.clone(),
        nodes: budget.nodes.clone(),
        schedule: budget.schedule.clone(),
        duration: budget.duration.as_ref().map(GoDuration::to_std),
    };
    PoolFacts {
        is_static: object.spec.replicas.is_some(),
        spare: 0,
        policy,
        consolidate_after: disruption.consolidate_after.duration().map(GoDuration::to_std),
        budgets: disruption.budgets.iter().map(budget).collect(),
        paused: is_paused(object.metadata.annotations.as_ref()),
        instance_types,
        cost: None,
    }
}

/// Any value but `false` pauses: a switch thrown in a hurry should work.
pub fn is_paused(annotations: Option<&std::collections::BTreeMap<String, String>>) -> bool {
    annotations.and_then(|all| all.get(PAUSE_DISRUPTION)).is_some_and(|value| value != "false")
}

/// A node and its claim. Whether it is in a command or nominated is known elsewhere.
pub fn node(
    node: Option<&core_v1::Node>,
    claim: Option<&NodeClaim>,
    stage: Stage,
    pool: Option<&PoolFacts>,
) -> NodeFacts {
    let annotated = |annotations: Option<&std::collections::BTreeMap<String, String>>| {
        annotations.and_then(|all| all.get(DO_NOT_DISRUPT)).is_some_and(|value| value == "true")
    };
    let of_claim = claim.and_then(|claim| claim.metadata.annotations.as_ref());
    let of_node = node.and_then(|node| node.metadata.annotations.as_ref());
    let is_true = |name: &str| claim.is_some_and(|claim| claim.condition_status(name) == Status::True);
    let drifted =
        claim.and_then(|claim| claim.condition(conditions::DRIFTED)).filter(|drifted| drifted.status == "True");
    NodeFacts {
        in_queue: false,
        nominated: false,
        do_not_disrupt: annotated(if stage == Stage::Launched { of_claim } else { of_node }),
        ready: node.is_some_and(is_ready),
        instance_terminating: is_true(conditions::INSTANCE_TERMINATING),
        deleting_since: claim.and_then(|claim| claim.metadata.deletion_timestamp.as_ref()).map(|time| time.0),
        consolidatable: is_true(conditions::CONSOLIDATABLE),
        quiet_from: claim.zip(pool).and_then(|(claim, pool)| quiet_from(claim, pool)),
        drifted: drifted
            .map(|drifted| Drifted { reason: drifted.reason.as_str().into(), since: drifted.last_transition_time.0 }),
        bounded_drain: claim.is_some_and(|claim| claim.spec.termination_grace_period.is_some()),
        holds_buffer: false,
        unreadable: None,
    }
}

fn is_ready(node: &core_v1::Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The end of the quiet time: after the last pod event, or after initialization if there was none.
pub fn quiet_from(claim: &NodeClaim, pool: &PoolFacts) -> Option<Timestamp> {
    let after = pool.consolidate_after.filter(|after| !after.is_zero())?;
    let initialized = claim.condition(conditions::INITIALIZED).filter(|condition| condition.status == "True")?;
    let event = claim.status.as_ref().and_then(|status| status.last_pod_event_time.as_ref());
    event.unwrap_or(&initialized.last_transition_time).0.checked_add(after).ok()
}
