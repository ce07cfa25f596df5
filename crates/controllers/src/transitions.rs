//! Transitions: an Event for every condition that changes its mind, and for every finalizer that goes.
//!
//! They are told from what is seen, not where it is written: whoever writes a condition need not think of it, and what
//! was never stored is never told.

use async_trait::async_trait;
use karpenter_api::conditions as kinds;
use karpenter_api::{Condition, ObjectMeta};
use karpenter_index::{Change, Key, What};

use crate::context::Context;
use crate::error::Result;
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

/// The controller that tells them. It has no work of its own: seeing is all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transitions;

#[async_trait]
impl Reconciler for Transitions {
    fn name(&self) -> &'static str {
        "operatorpkg.status"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        let (object, told) = match &change.what {
            What::NodeClaim(pair) => {
                let Some(old) = &pair.old else { return Vec::new() };
                let of = |claim: &karpenter_api::NodeClaim| {
                    claim.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default()
                };
                let (before, after) = (of(old), pair.new.as_ref().map(|new| of(new)));
                let new = pair.new.as_ref().zip(after.as_deref()).map(|(new, said)| (&new.metadata, said));
                (ObjectRef::node_claim(old), told((&old.metadata, &before), new))
            }
            What::NodePool(pair) => {
                let Some(old) = &pair.old else { return Vec::new() };
                let of = |pool: &karpenter_api::NodePool| {
                    pool.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default()
                };
                let (before, after) = (of(old), pair.new.as_ref().map(|new| of(new)));
                let new = pair.new.as_ref().zip(after.as_deref()).map(|(new, said)| (&new.metadata, said));
                (ObjectRef::node_pool(old), told((&old.metadata, &before), new))
            }
            What::NodeClass(pair) => {
                let Some(old) = &pair.old else { return Vec::new() };
                let kind = context.index.node_class_kind();
                let new = pair.new.as_ref().map(|new| (&new.metadata, new.status.conditions.as_slice()));
                let object = ObjectRef::new(api_version(&kind), kind.kind, &old.metadata);
                (object, told((&old.metadata, &old.status.conditions), new))
            }
            What::Pod(_) | What::Node(_) | What::Other => return Vec::new(),
        };
        for (reason, message) in told {
            // The text is part of what makes it the same: there and back again is two events.
            let same = [object.uid.clone(), message.clone()];
            context.recorder.publish(Event::normal(object.clone(), reason, message).same(same));
        }
        Vec::new()
    }

    async fn reconcile(&self, _key: &Key, _context: &Context) -> Result<Action> {
        Ok(Action::Done)
    }
}

/// The kinds of node classes we know are few, and Events want a name that lives.
fn api_version(kind: &karpenter_index::NodeClassKind) -> &'static str {
    match (kind.group, kind.version) {
        ("karpenter.k8s.aws", "v1") => "karpenter.k8s.aws/v1",
        _ => kind.group,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_api::Time;

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
        // covers: API-EV-25, API-EV-26
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
