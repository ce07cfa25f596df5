//! Conditions: what an object says about itself, with the root `Ready` computed from those it depends on.
//!
//! Every timeout counts from `lastTransitionTime`, so the one rule that matters most here is that it moves with the
//! status and with nothing else.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};

use crate::{NodeClaim, NodeOverlay, NodePool};

pub const READY: &str = "Ready";

// NodeClaim; the first three feed `Ready`.
pub const LAUNCHED: &str = "Launched";
pub const REGISTERED: &str = "Registered";
pub const INITIALIZED: &str = "Initialized";
pub const CONSOLIDATABLE: &str = "Consolidatable";
pub const DRIFTED: &str = "Drifted";
pub const DISRUPTION_REASON: &str = "DisruptionReason";
pub const DRAINED: &str = "Drained";
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";

// NodePool; the first two feed `Ready`. NodeOverlay has the first only.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
pub const NODE_CLASS_READY: &str = "NodeClassReady";
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

const TRUE: &str = "True";
const FALSE: &str = "False";
const UNKNOWN: &str = "Unknown";

/// What one condition says. A condition that is not there says nothing yet, which is also unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    True,
    False,
    Unknown,
}

impl Status {
    pub fn of(condition: Option<&Condition>) -> Self {
        match condition.map(|condition| condition.status.as_str()) {
            Some(TRUE) => Self::True,
            Some(FALSE) => Self::False,
            _ => Self::Unknown,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => TRUE,
            Self::False => FALSE,
            Self::Unknown => UNKNOWN,
        }
    }
}

/// The condition of that type.
pub fn find<'a>(conditions: Option<&'a Vec<Condition>>, kind: &str) -> Option<&'a Condition> {
    conditions?.iter().find(|condition| condition.type_ == kind)
}

/// Reading and changing the conditions of a kind, given what its `Ready` depends on.
macro_rules! conditioned {
    ($kind:ty, $dependents:expr) => {
        impl $kind {
            pub fn condition(&self, kind: &str) -> Option<&Condition> {
                find(self.status.as_ref().and_then(|status| status.conditions.as_ref()), kind)
            }

            pub fn condition_status(&self, kind: &str) -> Status {
                Status::of(self.condition(kind))
            }

            /// The conditions, to be changed at `now`; those that feed `Ready` are there from then on.
            pub fn conditions_at(&mut self, now: Timestamp) -> Conditions<'_> {
                let list = self.status.get_or_insert_default().conditions.get_or_insert_default();
                Conditions::of(&self.metadata, list, &$dependents, now)
            }
        }
    };
}

conditioned!(NodeClaim, [LAUNCHED, REGISTERED, INITIALIZED]);
conditioned!(NodePool, [VALIDATION_SUCCEEDED, NODE_CLASS_READY]);
conditioned!(NodeOverlay, [VALIDATION_SUCCEEDED]);

/// The conditions of one object while they are changed.
#[derive(Debug)]
pub struct Conditions<'a> {
    list: &'a mut Vec<Condition>,
    /// What the root depends on.
    dependents: &'a [&'a str],
    generation: i64,
    created: Option<Time>,
    deleting: bool,
    now: Time,
}

impl<'a> Conditions<'a> {
    /// Those the root depends on are made Unknown if they are missing, as of the object's creation: what has not been
    /// looked at has been waiting since then.
    pub fn of(metadata: &ObjectMeta, list: &'a mut Vec<Condition>, dependents: &'a [&'a str], now: Timestamp) -> Self {
        let mut conditions = Self {
            list,
            dependents,
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.clone(),
            deleting: metadata.deletion_timestamp.is_some(),
            now: Time(whole_seconds(now)),
        };
        // The root first, so that it is as old as the others.
        for kind in std::iter::once(READY).chain(dependents.iter().copied()) {
            if conditions.get(kind).is_none() {
                conditions.set_unknown(kind, "AwaitingReconciliation", "object is awaiting reconciliation");
            }
        }
        conditions
    }

    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.list.iter().find(|condition| condition.type_ == kind)
    }

    pub fn status(&self, kind: &str) -> Status {
        Status::of(self.get(kind))
    }

    /// True, the type being reason enough. Answers whether anything changed, as all setters do.
    pub fn set_true(&mut self, kind: &str) -> bool {
        self.set(kind, Status::True, kind, "")
    }

    pub fn set_true_because(&mut self, kind: &str, reason: &str, message: &str) -> bool {
        self.set(kind, Status::True, reason, message)
    }

    pub fn set_false(&mut self, kind: &str, reason: &str, message: &str) -> bool {
        self.set(kind, Status::False, reason, message)
    }

    pub fn set_unknown(&mut self, kind: &str, reason: &str, message: &str) -> bool {
        self.set(kind, Status::Unknown, reason, message)
    }

    /// Says the same again of the present generation.
    pub fn refresh(&mut self, kind: &str) -> bool {
        let Some(Condition { status: _, reason, message, .. }) = self.get(kind).cloned() else {
            return false;
        };
        self.set(kind, self.status(kind), &reason, &message)
    }

    /// Whether a condition speaks of another generation of the object.
    pub fn is_stale(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|condition| self.is_outdated(condition))
    }

    /// Sums up anew, for when what the root depends on is another list than when it was last computed.
    pub fn refresh_root(&mut self) {
        self.recompute_root();
    }

    /// Takes a condition away. Those the root depends on stay.
    pub fn clear(&mut self, kind: &str) -> bool {
        if self.is_dependent(kind) || self.get(kind).is_none() {
            return false;
        }
        self.list.retain(|condition| condition.type_ != kind);
        self.list.sort_by(|a, b| a.type_.cmp(&b.type_));
        true
    }

    fn is_dependent(&self, kind: &str) -> bool {
        kind == READY || self.dependents.contains(&kind)
    }

    fn set(&mut self, kind: &str, status: Status, reason: &str, message: &str) -> bool {
        let before = self.get(kind);
        let last_transition_time = match before {
            Some(before) if before.status == status.as_str() => before.last_transition_time.clone(),
            None if self.is_dependent(kind) => self.created.clone().unwrap_or_else(|| self.now.clone()),
            _ => self.now.clone(),
        };
        let condition = Condition {
            last_transition_time,
            message: message.to_owned(),
            observed_generation: Some(self.generation),
            reason: reason.to_owned(),
            status: status.as_str().to_owned(),
            type_: kind.to_owned(),
        };
        if before.is_some_and(|before| same(before, &condition)) {
            return false;
        }
        self.list.retain(|other| other.type_ != kind);
        if self.deleting {
            // A deletion raises the generation, and nobody will look at the others again.
            self.list.iter_mut().for_each(|other| other.observed_generation = Some(self.generation));
        }
        self.list.push(condition);
        // For whoever reads the list: in the order of events, the summary last.
        self.list.sort_by(|a, b| {
            (a.type_ == READY).cmp(&(b.type_ == READY)).then(a.last_transition_time.cmp(&b.last_transition_time))
        });
        if kind != READY {
            self.recompute_root();
        }
        true
    }

    fn recompute_root(&mut self) {
        let mut unhappy: Vec<&Condition> = self
            .list
            .iter()
            .filter(|condition| self.dependents.contains(&condition.type_.as_str()))
            .filter(|condition| condition.status != TRUE || self.is_outdated(condition))
            .collect();
        if unhappy.is_empty() {
            self.set_true(READY);
            return;
        }
        unhappy.sort_by(|a, b| b.last_transition_time.cmp(&a.last_transition_time));
        let message: Vec<String> = unhappy.iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
        let failed = unhappy.iter().any(|condition| condition.status == FALSE && !self.is_outdated(condition));
        let (status, reason) = match failed {
            true => (Status::False, "UnhealthyDependents"),
            false => (Status::Unknown, "ReconcilingDependents"),
        };
        self.set(READY, status, reason, &message.join(", "));
    }

    fn is_outdated(&self, condition: &Condition) -> bool {
        condition.observed_generation.unwrap_or_default() != self.generation
    }
}

/// An absent generation and zero are the same on the wire.
fn same(a: &Condition, b: &Condition) -> bool {
    a.observed_generation.unwrap_or_default() == b.observed_generation.unwrap_or_default()
        && (&a.last_transition_time, &a.message, &a.reason, &a.status)
            == (&b.last_transition_time, &b.message, &b.reason, &b.status)
}

/// Times on the wire have no fraction; one in memory would make an object differ from itself.
pub fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests;
