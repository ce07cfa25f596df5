//! Whether a claim is still what its pool asks for. What its node class asks for is the provider's business.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::conditions::{self, Status};
use karpenter_api::labels as api;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, Vocabulary};
use karpenter_core::requirement::Requirement;
use karpenter_core::{InstanceType, Labels, Requirements};
use karpenter_index::reduce;

pub const POOL_DRIFTED: &str = "NodePoolDrifted";
pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";

/// Before a claim is so old nobody asks whether its instance type still exists: it was there a moment ago.
pub const TYPE_CHECK_FROM: Duration = Duration::from_hours(1);
/// A type that was found is not looked for again for so long.
pub const TYPE_CHECK_AGAIN: Duration = Duration::from_mins(30);

/// Only what runs can differ from what it should be.
pub fn is_launched(claim: &NodeClaim) -> bool {
    claim.condition_status(conditions::LAUNCHED) == Status::True
}

/// What the pool alone tells: its hash first, then its requirements.
pub fn from_pool(claim: &NodeClaim, pool: &NodePool, words: &Vocabulary) -> Result<Option<&'static str>, String> {
    if hash_differs(claim, pool) {
        return Ok(Some(POOL_DRIFTED));
    }
    let reduced = reduce::pool(pool, Arc::from([])).map_err(|refused| refused.to_string())?;
    let wanted = Requirements::from_expressions(&reduced.requirements, words);
    let has = Requirements::from_labels(&labels(claim), words);
    Ok(has.compatible(&wanted, |_| false).is_err().then_some(REQUIREMENTS_DRIFTED))
}

/// Hashes are compared when both sides have one of the same kind; otherwise nothing can be said.
fn hash_differs(claim: &NodeClaim, pool: &NodePool) -> bool {
    let of = |annotations: Option<&std::collections::BTreeMap<String, String>>| {
        let annotations = annotations?;
        Some((annotations.get(api::NODEPOOL_HASH)?.clone(), annotations.get(api::NODEPOOL_HASH_VERSION)?.clone()))
    };
    match (of(claim.metadata.annotations.as_ref()), of(pool.metadata.annotations.as_ref())) {
        (Some((mine, my_version)), Some((wanted, version))) => my_version == version && mine != wanted,
        _ => false,
    }
}

/// Whether it is time to look for the claim's instance type; `found` is when it was last there.
pub fn is_type_check_due(claim: &NodeClaim, found: Option<Timestamp>, now: Timestamp) -> bool {
    let created = claim.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let past = |since: Timestamp, wait: Duration| now > crate::clock::later(since, wait);
    past(created, TYPE_CHECK_FROM) && found.is_none_or(|found| past(found, TYPE_CHECK_AGAIN))
}

/// Whether the type the claim runs on is still known, in its zone and capacity type, whether it can be bought or not. An
/// instance may fall out of its reservation and stay, so a reserved claim may as well be on-demand; which reservation it
/// is in is the provider's business.
pub fn is_type_known(claim: &NodeClaim, types: &[Arc<InstanceType>], words: &Vocabulary) -> bool {
    let labels = labels(claim);
    let Some(kind) = labels.get(INSTANCE_TYPE).and_then(|name| types.iter().find(|kind| *kind.name == **name)) else {
        return false;
    };
    let mut has = Requirements::from_labels(&labels, words);
    if labels.get(CAPACITY_TYPE).is_some_and(|capacity| capacity == RESERVED) {
        has.0.insert(CAPACITY_TYPE.into(), Requirement::one_of([RESERVED, ON_DEMAND]));
        // An id says nothing here, and neither does what else the provider knows of the reservation.
        let family = words.reservation_id.as_deref().and_then(|key| key.strip_suffix("-id")).unwrap_or("\u{0}");
        has.0.retain(|key, _| !key.starts_with(family));
    }
    let matches = |known: &Requirements| has.compatible(known, |key| words.is_well_known(key)).is_ok();
    kind.offerings.iter().any(|offering| matches(&offering.requirements))
}

fn labels(claim: &NodeClaim) -> Labels {
    claim.metadata.labels.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests;
