//! Node classes as everybody but their provider sees them: a kind, a name and a `Ready` condition.

use karpenter_api::{Condition, ObjectMeta};

/// Enough to watch the kind without knowing its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClassKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

/// Whether nodes can be made from a node class now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady {
        reason: String,
        message: String,
    },
    /// Not looked at yet, at all or since its spec changed.
    Unknown {
        message: String,
    },
    Deleting,
}

/// The type of the condition that sums the others up.
pub const READY: &str = "Ready";

/// Readiness from an object's metadata and conditions.
pub fn readiness(metadata: &ObjectMeta, conditions: &[Condition]) -> Readiness {
    if metadata.deletion_timestamp.is_some() {
        return Readiness::Deleting;
    }
    let Some(ready) = conditions.iter().find(|condition| condition.type_ == READY) else {
        return Readiness::Unknown { message: "the node class has no Ready condition yet".to_owned() };
    };
    match ready.status.as_str() {
        "True" if metadata.generation == ready.observed_generation => Readiness::Ready,
        "True" => Readiness::Unknown {
            message: "nodeclass status has not been reconciled against the latest spec".to_owned(),
        },
        "False" => Readiness::NotReady { reason: ready.reason.clone(), message: ready.message.clone() },
        _ => Readiness::Unknown { message: ready.message.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_api::Time;

    #[test]
    fn readiness_follows_the_condition_of_the_current_generation() {
        let condition = |status: &str, generation| Condition {
            type_: READY.to_owned(),
            status: status.to_owned(),
            reason: "R".to_owned(),
            message: "m".to_owned(),
            observed_generation: Some(generation),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        };
        let metadata = ObjectMeta { generation: Some(2), ..Default::default() };
        let not_ready = Readiness::NotReady { reason: "R".to_owned(), message: "m".to_owned() };
        for (conditions, want) in [
            (vec![condition("True", 2)], Some(Readiness::Ready)),
            (vec![condition("True", 1)], None),
            (vec![condition("False", 1)], Some(not_ready)),
            (vec![condition("Unknown", 2)], Some(Readiness::Unknown { message: "m".to_owned() })),
            (vec![], None),
        ] {
            let found = readiness(&metadata, &conditions);
            match want {
                Some(want) => assert_eq!(found, want),
                None => assert!(matches!(found, Readiness::Unknown { .. }), "{found:?}"),
            }
        }
        let deleting = ObjectMeta { deletion_timestamp: Some(Time(jiff::Timestamp::UNIX_EPOCH)), ..metadata };
        assert_eq!(readiness(&deleting, &[condition("True", 2)]), Readiness::Deleting);
    }
}
