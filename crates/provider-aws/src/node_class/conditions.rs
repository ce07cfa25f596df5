//! The conditions of a node class, and the one that sums them up.

use jiff::Timestamp;
use karpenter_api::{Condition, EC2NodeClass, Time};
use karpenter_provider::node_class::READY;

pub const AMIS: &str = "AMIsReady";
pub const RESERVATIONS: &str = "CapacityReservationsReady";
pub const PLACEMENT_GROUP: &str = "PlacementGroupReady";
pub const SUBNETS: &str = "SubnetsReady";
pub const SECURITY_GROUPS: &str = "SecurityGroupsReady";
pub const INSTANCE_PROFILE: &str = "InstanceProfileReady";
pub const VALIDATION: &str = "ValidationSucceeded";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    True,
    False,
    Unknown,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

pub struct Conditions {
    held: Vec<Condition>,
    dependents: Vec<&'static str>,
    generation: Option<i64>,
    now: Time,
}

impl Conditions {
    pub fn of(class: &EC2NodeClass, now: Timestamp, reserved_capacity: bool) -> Self {
        let mut dependents = vec![AMIS, SUBNETS, SECURITY_GROUPS, INSTANCE_PROFILE, VALIDATION, PLACEMENT_GROUP];
        if reserved_capacity {
            dependents.push(RESERVATIONS);
        }
        let held = class.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
        let mut conditions = Self { held, dependents: dependents.clone(), generation: class.metadata.generation, now };
        // A condition that is no longer ours would keep its last word for ever.
        conditions.held.retain(|condition| condition.type_ == READY || dependents.contains(&condition.type_.as_str()));
        for dependent in dependents {
            if conditions.get(dependent).is_none() {
                conditions.unknown(dependent, "AwaitingReconciliation", "object is awaiting reconciliation");
            }
        }
        conditions
    }

    pub fn get(&self, name: &str) -> Option<&Condition> {
        self.held.iter().find(|condition| condition.type_ == name)
    }

    pub fn verdict(&self, name: &str) -> Verdict {
        match self.get(name).map(|condition| condition.status.as_str()) {
            Some("True") => Verdict::True,
            Some("False") => Verdict::False,
            _ => Verdict::Unknown,
        }
    }

    pub fn good(&mut self, name: &'static str) {
        self.set(name, Verdict::True, name, "");
    }

    /// True, with something worth knowing.
    pub fn good_but(&mut self, name: &'static str, message: &str) {
        self.set(name, Verdict::True, name, message);
    }

    pub fn bad(&mut self, name: &'static str, reason: &str, message: &str) {
        self.set(name, Verdict::False, reason, message);
    }

    pub fn unknown(&mut self, name: &'static str, reason: &str, message: &str) {
        self.set(name, Verdict::Unknown, reason, message);
    }

    /// The time of transition moves only when the status does.
    fn set(&mut self, name: &'static str, verdict: Verdict, reason: &str, message: &str) {
        let held = self.held.iter().position(|condition| condition.type_ == name);
        let unchanged = held.filter(|at| self.held[*at].status == verdict.as_str());
        let condition = Condition {
            type_: name.to_owned(),
            status: verdict.as_str().to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: self.generation,
            last_transition_time: unchanged.map_or(self.now.clone(), |at| self.held[at].last_transition_time.clone()),
        };
        match held {
            Some(at) => self.held[at] = condition,
            None => self.held.push(condition),
        }
    }

    /// With `Ready`: true when all are, false when one is.
    pub fn finish(mut self) -> Vec<Condition> {
        let current = |condition: &&Condition| condition.observed_generation == self.generation;
        let of = |status: &str| -> Vec<String> {
            let dependents = self.dependents.iter().filter_map(|name| self.get(name));
            let found = dependents.filter(|condition| match status {
                "False" => condition.status == "False" && current(condition),
                // An old word about an old spec says nothing about this one.
                _ => condition.status == "Unknown" || !current(condition),
            });
            found.map(|condition| format!("{}={status}", condition.type_)).collect()
        };
        let (bad, open) = (of("False"), of("Unknown"));
        if !bad.is_empty() {
            self.set(READY, Verdict::False, "UnhealthyDependents", &bad.join(", "));
        } else if !open.is_empty() {
            self.set(READY, Verdict::Unknown, "ReconcilingDependents", &open.join(", "));
        } else {
            self.set(READY, Verdict::True, READY, "");
        }
        self.held.sort_by(|a, b| a.type_.cmp(&b.type_));
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn class(generation: i64, conditions: Vec<Condition>) -> EC2NodeClass {
        let mut class = EC2NodeClass::default();
        class.metadata.generation = Some(generation);
        class.status.get_or_insert_default().conditions = Some(conditions);
        class
    }

    fn all_good(mut conditions: Conditions) -> Vec<Condition> {
        for name in [AMIS, SUBNETS, SECURITY_GROUPS, INSTANCE_PROFILE, VALIDATION, PLACEMENT_GROUP] {
            conditions.good(name);
        }
        conditions.finish()
    }

    fn ready(conditions: &[Condition]) -> (&str, &str) {
        let ready = conditions.iter().find(|condition| condition.type_ == READY).unwrap();
        (ready.status.as_str(), ready.message.as_str())
    }

    #[test]
    fn ready_sums_the_others_up() {
        // covers: AWS-NC-01
        let fresh = || Conditions::of(&class(1, vec![]), at(5), false);
        assert_eq!(ready(&all_good(fresh())).0, "True");
        assert_eq!(ready(&fresh().finish()).0, "Unknown");
        let mut one_bad = fresh();
        one_bad.bad(SUBNETS, "SubnetsNotFound", "none");
        assert_eq!(ready(&one_bad.finish()), ("False", "SubnetsReady=False"));
        let with_gate = all_good(Conditions::of(&class(1, vec![]), at(5), true));
        assert_eq!(ready(&with_gate), ("Unknown", "CapacityReservationsReady=Unknown"));
    }

    #[test]
    fn transitions_are_timed_and_generations_told() {
        let first = all_good(Conditions::of(&class(1, vec![]), at(5), false));
        let again = all_good(Conditions::of(&class(1, first.clone()), at(9), false));
        assert_eq!(first, again, "nothing changed, so nothing is written");
        let older = Conditions::of(&class(2, first.clone()), at(9), false).finish();
        assert_eq!(ready(&older).0, "Unknown", "words about generation 1");
        let mut changed = Conditions::of(&class(1, first), at(9), false);
        changed.bad(AMIS, "AMINotFound", "none");
        let changed = changed.finish();
        let amis = changed.iter().find(|condition| condition.type_ == AMIS).unwrap();
        assert_eq!(amis.last_transition_time, Time(at(9)));
    }

    #[test]
    fn a_condition_without_its_gate_goes() {
        // covers: AWS-CR-16
        let with_gate = all_good(Conditions::of(&class(1, vec![]), at(5), true));
        let without = Conditions::of(&class(1, with_gate), at(6), false).finish();
        assert!(without.iter().all(|condition| condition.type_ != RESERVATIONS));
    }
}
