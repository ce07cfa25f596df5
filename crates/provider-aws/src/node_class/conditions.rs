//! The conditions of a node class: their names, and which of them `Ready` sums up.

use karpenter_api::conditions::{Conditions, Status};
use karpenter_provider::BoxError;
use karpenter_provider::node_class::READY;

pub const AMIS: &str = "AMIsReady";
pub const RESERVATIONS: &str = "CapacityReservationsReady";
pub const PLACEMENT_GROUP: &str = "PlacementGroupReady";
pub const SUBNETS: &str = "SubnetsReady";
pub const SECURITY_GROUPS: &str = "SecurityGroupsReady";
pub const INSTANCE_PROFILE: &str = "InstanceProfileReady";
pub const VALIDATION: &str = "ValidationSucceeded";

const WITH_RESERVATIONS: [&str; 7] =
    [AMIS, SUBNETS, SECURITY_GROUPS, INSTANCE_PROFILE, VALIDATION, PLACEMENT_GROUP, RESERVATIONS];

/// What `Ready` depends on.
pub fn dependents(reserved_capacity: bool) -> &'static [&'static str] {
    if reserved_capacity { &WITH_RESERVATIONS } else { &WITH_RESERVATIONS[..6] }
}

/// Whether a condition is one of ours. Another would keep its last word for ever.
pub fn is_ours(kind: &str, reserved_capacity: bool) -> bool {
    kind == READY || dependents(reserved_capacity).contains(&kind)
}

/// A step that failed leaves what was found out about this spec before. Where nothing was, it says why: a class that
/// cannot be reconciled must not look like one that nobody has got round to yet.
pub(super) fn say_failure(conditions: &mut Conditions<'_>, kind: &str, error: &BoxError) {
    if conditions.status(kind) == Status::Unknown || conditions.is_stale(kind) {
        let text = karpenter_provider::chain(error.as_ref());
        conditions.set_unknown(kind, "ReconciliationFailed", repeatable(&text));
    }
}

/// EC2 ends a denial with a text that is another one every time: a status that held it would change with every attempt,
/// and each change would be the cause of the next.
pub(super) fn repeatable(text: &str) -> &str {
    let end = text.find("Encoded authorization failure message").unwrap_or(text.len());
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_api::{Condition, EC2NodeClass, ObjectMeta};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn class(generation: i64) -> ObjectMeta {
        let mut class = EC2NodeClass::default();
        class.metadata.generation = Some(generation);
        class.metadata.creation_timestamp = Some(karpenter_api::Time(at(0)));
        class.metadata
    }

    fn of(conditions: &[Condition], kind: &str) -> (String, String) {
        let found = conditions.iter().find(|condition| condition.type_ == kind).unwrap();
        (found.status.clone(), found.message.clone())
    }

    fn is(status: &str, message: &str) -> (String, String) {
        (status.to_owned(), message.to_owned())
    }

    #[test]
    fn ready_lists_whatever_is_not_true_the_newest_first() {
        // covers: AWS-NC-01, API-CD-03
        let mut list = Vec::new();
        let set = |list: &mut Vec<Condition>, second, kind: &str, status: Status| {
            let metadata = class(1);
            let mut conditions = Conditions::of(&metadata, list, dependents(false), at(second));
            match status {
                Status::True => conditions.set_true(kind),
                Status::False => conditions.set_false(kind, "Because", "of that"),
                Status::Unknown => conditions.set_unknown(kind, "Because", "of that"),
            };
        };
        for kind in dependents(false) {
            set(&mut list, 5, kind, Status::True);
        }
        assert_eq!(of(&list, READY), is("True", ""));
        set(&mut list, 6, SUBNETS, Status::False);
        set(&mut list, 7, VALIDATION, Status::False);
        assert_eq!(of(&list, READY), is("False", "ValidationSucceeded=False, SubnetsReady=False"));
        set(&mut list, 8, PLACEMENT_GROUP, Status::Unknown);
        let want = "PlacementGroupReady=Unknown, ValidationSucceeded=False, SubnetsReady=False";
        assert_eq!(of(&list, READY), is("False", want), "one that is not known is listed, too");
        let metadata = class(1);
        Conditions::of(&metadata, &mut list, dependents(true), at(9));
        assert!(of(&list, READY).1.contains("CapacityReservationsReady=Unknown"), "with the gate");
        assert!(!is_ours(RESERVATIONS, false) && is_ours(RESERVATIONS, true) && is_ours(READY, false));
    }

    #[test]
    fn a_condition_without_its_gate_goes() {
        let metadata = class(1);
        let mut list = Vec::new();
        let mut conditions = Conditions::of(&metadata, &mut list, dependents(true), at(5));
        for kind in dependents(false) {
            conditions.set_true(kind);
        }
        conditions.set_false(RESERVATIONS, "Unauthorized", "not allowed");
        assert_eq!(of(&list, READY), is("False", "CapacityReservationsReady=False"));
        list.retain(|condition| is_ours(&condition.type_, false));
        Conditions::of(&metadata, &mut list, dependents(false), at(6)).refresh_root();
        assert_eq!(of(&list, READY), is("True", ""));
        assert_eq!(list.len(), 7);
    }

    #[test]
    fn a_failure_is_said_where_nothing_is_known_yet() {
        // covers: AWS-NC-06
        let mut list = Vec::new();
        let error: BoxError = "EC2 does not answer".into();
        let metadata = class(1);
        let mut conditions = Conditions::of(&metadata, &mut list, dependents(false), at(5));
        conditions.set_true(SUBNETS);
        conditions.set_false(AMIS, "AMINotFound", "none");
        for kind in [SUBNETS, AMIS, VALIDATION] {
            say_failure(&mut conditions, kind, &error);
        }
        assert_eq!(of(&list, SUBNETS), is("True", ""), "the last word about this spec stands");
        assert_eq!(of(&list, AMIS), is("False", "none"));
        assert_eq!(of(&list, VALIDATION), is("Unknown", "EC2 does not answer"));
        let denied: BoxError = "not authorized. Encoded authorization failure message: Xy1z".into();
        let mut conditions = Conditions::of(&metadata, &mut list, dependents(false), at(5));
        say_failure(&mut conditions, VALIDATION, &denied);
        assert_eq!(of(&list, VALIDATION), is("Unknown", "not authorized."), "the same at every attempt");
        let metadata = class(2);
        say_failure(&mut Conditions::of(&metadata, &mut list, dependents(false), at(6)), SUBNETS, &error);
        assert_eq!(of(&list, SUBNETS), is("Unknown", "EC2 does not answer"), "that was another spec");
    }
}
