//! Whether a pool's nodes manage to launch and register: the last few outcomes, kept in memory and told in a condition.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use karpenter_api::conditions::{LAUNCHED, NODE_REGISTRATION_HEALTHY, Status};
use karpenter_api::{NodeClaim, NodePool};

const REMEMBERED: usize = 4;
/// So many failures among the remembered make a pool unhealthy.
const FAILURES: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Unknown,
    Healthy,
    Unhealthy,
}

/// The last outcomes of one pool; true for a node that registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcomes(VecDeque<bool>);

impl Outcomes {
    fn push(&mut self, registered: bool) {
        self.0.push_back(registered);
        if self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
    }

    fn health(&self) -> Health {
        match (self.0.is_empty(), self.0.iter().filter(|registered| !**registered).count()) {
            (true, _) => Health::Unknown,
            (false, failures) if failures >= FAILURES => Health::Unhealthy,
            (false, _) => Health::Healthy,
        }
    }
}

/// The outcomes of all pools, by UID: a pool made anew under an old name starts afresh.
#[derive(Debug, Default)]
pub struct Registrations(BTreeMap<String, Outcomes>);

impl Registrations {
    pub fn health(&self, pool: &str) -> Health {
        self.0.get(pool).map_or(Health::Unknown, Outcomes::health)
    }

    /// What the health would be with one outcome more.
    pub fn health_with(&self, pool: &str, registered: bool) -> Health {
        let mut outcomes = self.0.get(pool).cloned().unwrap_or_default();
        outcomes.push(registered);
        outcomes.health()
    }

    pub fn record(&mut self, pool: &str, registered: bool) {
        self.0.entry(pool.to_owned()).or_default().push(registered);
    }

    /// Starts over with outcomes that say just this.
    pub fn reset(&mut self, pool: &str, health: Health) {
        let outcomes = match health {
            Health::Unknown => VecDeque::new(),
            Health::Healthy => VecDeque::from([true]),
            Health::Unhealthy => VecDeque::from([false; FAILURES]),
        };
        self.0.insert(pool.to_owned(), Outcomes(outcomes));
    }

    pub fn forget(&mut self, pool: &str) {
        self.0.remove(pool);
    }
}

/// Follows the pool and its class: after a restart the outcomes are refilled from what the condition says; after a
/// change of either, what was is no witness of what will be.
pub fn follow(pool: &mut NodePool, class_generation: i64, registrations: &mut Registrations, now: Timestamp) {
    let uid = pool.metadata.uid.clone().unwrap_or_default();
    if registrations.health(&uid) == Health::Unknown {
        match pool.condition_status(NODE_REGISTRATION_HEALTHY) {
            Status::True => registrations.reset(&uid, Health::Healthy),
            Status::False => registrations.reset(&uid, Health::Unhealthy),
            Status::Unknown => {}
        }
    }
    let observed_class = pool.status.as_ref().and_then(|status| status.node_class_observed_generation);
    let changed = match pool.condition(NODE_REGISTRATION_HEALTHY) {
        None => true,
        Some(condition) => {
            condition.observed_generation.unwrap_or_default() != pool.metadata.generation.unwrap_or_default()
                || observed_class.unwrap_or_default() != class_generation
        }
    };
    if changed {
        let message = "object is awaiting reconciliation";
        pool.conditions_at(now).set_unknown(NODE_REGISTRATION_HEALTHY, "AwaitingReconciliation", message);
        registrations.reset(&uid, Health::Unknown);
    }
    pool.status.get_or_insert_default().node_class_observed_generation = Some(class_generation);
}

/// Whether an outcome of the claim is the pool's: it carries its name and it owns it.
pub fn concerns(pool: &NodePool, claim: &NodeClaim) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.kind == "NodePool" && Some(&owner.uid) == pool.metadata.uid.as_ref())
}

/// What a registration changes in the pool's condition. The outcome is recorded after the write.
pub fn succeed(pool: &mut NodePool, registrations: &Registrations, now: Timestamp) {
    let uid = pool.metadata.uid.clone().unwrap_or_default();
    if registrations.health_with(&uid, true) == Health::Healthy {
        pool.conditions_at(now).set_true(NODE_REGISTRATION_HEALTHY);
    }
}

/// What a timeout changes in the pool's condition: why the last straw broke is what the condition says.
pub fn fail(pool: &mut NodePool, claim: &NodeClaim, registrations: &Registrations, now: Timestamp) {
    let uid = pool.metadata.uid.clone().unwrap_or_default();
    let already = pool.condition_status(NODE_REGISTRATION_HEALTHY) == Status::False;
    if already || registrations.health_with(&uid, false) != Health::Unhealthy {
        return;
    }
    let launched = claim.condition(LAUNCHED);
    let (reason, message) = match (Status::of(launched), launched) {
        (Status::False | Status::Unknown, Some(launched)) => (launched.reason.as_str(), launched.message.as_str()),
        _ => ("RegistrationFailed", "Failed to register node"),
    };
    pool.conditions_at(now).set_false(NODE_REGISTRATION_HEALTHY, reason, message);
}

#[cfg(test)]
mod tests;
