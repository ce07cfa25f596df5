//! Transitions: an Event for every condition that changes its mind, and for every finalizer that goes.
//!
//! They are told from what is seen, not where it is written: whoever writes a condition need not think of it, and what
//! was never stored is never told.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use karpenter_api::conditions as kinds;
use karpenter_api::{Condition, NodeClaim, NodePool, ObjectMeta, Time};
use karpenter_index::{Change, Key, NodeClass, What};

use crate::clock::until;
use crate::context::Context;
use crate::error::Result;
use crate::metrics::{StatusKind, Transition};
use crate::reconciler::{Action, Reconciler};
use crate::recorder::{Event, ObjectRef};

/// The reasons of such Events are the types of conditions; those of node classes are their provider's.
const TYPES: [&str; 20] = [
    kinds::READY,
    kinds::LAUNCHED,
    kinds::REGISTERED,
    kinds::INITIALIZED,
    kinds::CONSOLIDATABLE,
    kinds::DRIFTED,
    kinds::DISRUPTION_REASON,
    kinds::DRAINED,
    kinds::VOLUMES_DETACHED,
    kinds::INSTANCE_TERMINATING,
    kinds::CONSISTENT_STATE_FOUND,
    kinds::VALIDATION_SUCCEEDED,
    kinds::NODE_CLASS_READY,
    kinds::NODE_REGISTRATION_HEALTHY,
    "AMIsReady",
    "SubnetsReady",
    "SecurityGroupsReady",
    "InstanceProfileReady",
    "CapacityReservationsReady",
    "PlacementGroupReady",
];

/// What is worth telling of an object that changed: reason and text of each.
pub fn told(
    (old, old_conditions): (&ObjectMeta, &[Condition]),
    new: Option<(&ObjectMeta, &[Condition])>,
) -> Vec<(&'static str, String)> {
    let mut told = Vec::new();
    let remaining = new.and_then(|(metadata, _)| metadata.finalizers.as_deref()).unwrap_or_default();
    for finalizer in old.finalizers.iter().flatten().filter(|finalizer| !remaining.contains(finalizer)) {
        told.push(("Finalized", format!("Finalized {finalizer}")));
    }
    let conditions = new.map(|(_, conditions)| conditions).unwrap_or_default();
    for condition in conditions {
        let before = old_conditions.iter().find(|before| before.type_ == condition.type_);
        let reason = TYPES.into_iter().find(|kind| *kind == condition.type_);
        let (Some(before), Some(reason)) = (before.filter(|before| before.status != condition.status), reason) else {
            continue;
        };
        let Condition { type_, status, reason: why, message, .. } = condition;
        let mut text = format!(
            "Status condition transitioned, Type: {type_}, Status: {} -> {status}, Reason: {why}",
            before.status
        );
        if !message.is_empty() {
            text += &format!(", Message: {message}");
        }
        told.push((reason, text));
    }
    told
}

/// The controllers that tell them, one for each kind. They have no work of their own: seeing is all.
#[derive(Clone, Copy, Debug)]
pub struct Transitions(pub StatusKind);

#[async_trait]
impl Reconciler for Transitions {
    fn name(&self) -> &'static str {
        match self.0 {
            StatusKind::NodeClaim => "operatorpkg.nodeclaim.status",
            StatusKind::NodePool => "operatorpkg.nodepool.status",
            StatusKind::Node => "operatorpkg.node.status",
            StatusKind::NodeClass => "operatorpkg.ec2nodeclass.status",
        }
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        match (self.0, &change.what) {
            (StatusKind::NodeClaim, What::NodeClaim(pair)) => {
                let of = |claim: &Arc<NodeClaim>| {
                    let said = claim.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
                    Seen { metadata: claim.metadata.clone(), conditions: said }
                };
                let object = pair.latest().map(|claim| ObjectRef::node_claim(claim));
                self.saw(object, pair.old.as_ref().map(of), pair.new.as_ref().map(of), context);
            }
            (StatusKind::NodePool, What::NodePool(pair)) => {
                let of = |pool: &Arc<NodePool>| {
                    let said = pool.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
                    Seen { metadata: pool.metadata.clone(), conditions: said }
                };
                let object = pair.latest().map(|pool| ObjectRef::node_pool(pool));
                self.saw(object, pair.old.as_ref().map(of), pair.new.as_ref().map(of), context);
            }
            (StatusKind::NodeClass, What::NodeClass(pair)) => {
                let of = |class: &Arc<NodeClass>| Seen {
                    metadata: class.metadata.clone(),
                    conditions: class.status.conditions.clone(),
                };
                let kind = context.index.node_class_kind();
                let object = pair.latest().map(|class| ObjectRef::new(api_version(&kind), kind.kind, &class.metadata));
                self.saw(object, pair.old.as_ref().map(of), pair.new.as_ref().map(of), context);
            }
            (StatusKind::Node, What::Node(pair)) => {
                let of = |node: &Arc<Node>| Seen { metadata: node.metadata.clone(), conditions: conditions_of(node) };
                // Kubelets tell of their nodes themselves.
                self.saw(None, pair.old.as_ref().map(of), pair.new.as_ref().map(of), context);
            }
            _ => {}
        }
        Vec::new()
    }

    async fn reconcile(&self, _key: &Key, _context: &Context) -> Result<Action> {
        Ok(Action::Done)
    }
}

/// What of an object is told of.
struct Seen {
    metadata: ObjectMeta,
    conditions: Vec<Condition>,
}

impl Transitions {
    /// Counts what changed, and publishes it if it is about an object.
    fn saw(&self, object: Option<ObjectRef>, old: Option<Seen>, new: Option<Seen>, context: &Context) {
        let status = &context.metrics.status;
        if let Some(new) = &new {
            let before = old.as_ref().map(|old| old.conditions.as_slice()).unwrap_or_default();
            for condition in &new.conditions {
                let was = before.iter().find(|was| was.type_ == condition.type_);
                if was.is_some_and(|was| was.status == condition.status) {
                    continue;
                }
                let lasted = |was: &Condition| until(was.last_transition_time.0, condition.last_transition_time.0);
                let transition = Transition {
                    condition: &condition.type_,
                    status: &condition.status,
                    reason: &condition.reason,
                    before: was.map(|was| (was.status.as_str(), lasted(was))),
                };
                status.transition(self.0, &new.metadata, &transition);
            }
        }
        let Some(old) = old else { return };
        if let Some(deleted) = old.metadata.deletion_timestamp.as_ref().filter(|_| new.is_none()) {
            status.terminated(self.0, &old.metadata, until(deleted.0, context.clock.now()));
        }
        let Some(object) = object else { return };
        let new = new.as_ref().map(|new| (&new.metadata, new.conditions.as_slice()));
        for (reason, message) in told((&old.metadata, &old.conditions), new) {
            // The text is part of what makes it the same: there and back again is two events.
            let same = [object.uid.clone(), message.clone()];
            context.recorder.publish(Event::normal(object.clone(), reason, message).same(same));
        }
    }
}

/// A node's conditions, in the words of ours.
fn conditions_of(node: &Node) -> Vec<Condition> {
    let given = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition = |condition: &NodeCondition| Condition {
        last_transition_time: condition.last_transition_time.clone().unwrap_or(Time(Timestamp::UNIX_EPOCH)),
        message: condition.message.clone().unwrap_or_default(),
        observed_generation: None,
        reason: condition.reason.clone().unwrap_or_default(),
        status: condition.status.clone(),
        type_: condition.type_.clone(),
    };
    given.into_iter().flatten().map(condition).collect()
}

/// The kinds of node classes we know are few, and Events want a name that lives.
pub(crate) fn api_version(kind: &karpenter_index::NodeClassKind) -> &'static str {
    match (kind.group, kind.version) {
        ("karpenter.k8s.aws", "v1") => "karpenter.k8s.aws/v1",
        _ => kind.group,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str, message: &str) -> Condition {
        Condition {
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            message: message.to_owned(),
            observed_generation: None,
            reason: "Why".to_owned(),
            status: status.to_owned(),
            type_: kind.to_owned(),
        }
    }

    fn with(finalizers: &[&str]) -> ObjectMeta {
        let finalizers = finalizers.iter().map(|name| (*name).to_owned()).collect();
        ObjectMeta { finalizers: Some(finalizers), ..ObjectMeta::default() }
    }

    #[test]
    fn changes_of_status_and_finalizers_are_told() {
        // covers: API-EV-25
        let before = [
            condition("Launched", "Unknown", ""),
            condition("Registered", "Unknown", ""),
            condition("Ready", "True", ""),
        ];
        let after = [
            condition("Launched", "True", ""),
            condition("Registered", "Unknown", "another word"),
            condition("Ready", "False", "Registered=False"),
            condition("Drained", "Unknown", "new"),
        ];
        let (old, new) = (with(&["a", "b"]), with(&["b"]));
        let want = [
            ("Finalized", "Finalized a"),
            ("Launched", "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Why"),
            (
                "Ready",
                "Status condition transitioned, Type: Ready, Status: True -> False, Reason: Why, Message: Registered=False",
            ),
        ];
        let found = told((&old, &before), Some((&new, &after)));
        assert_eq!(found, want.map(|(reason, text)| (reason, text.to_owned())));
        let gone = told((&old, &before), None);
        assert_eq!(gone, [("Finalized", "Finalized a".to_owned()), ("Finalized", "Finalized b".to_owned())]);
        assert!(told((&old, &before), Some((&old, &before))).is_empty());
    }
}
