//! The drift hash of a pool's template, on the pool and, after a change of the hash itself, on its claims.

use std::collections::BTreeMap;

use karpenter_api::conditions::DRIFTED;
use karpenter_api::labels::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use karpenter_api::{NODEPOOL_HASH_VERSION as VERSION, NodeClaim, NodePool, nodepool_hash};

type Annotations = BTreeMap<String, String>;

/// What a claim made by another version of the hash must be given. One that has drifted keeps its old hash: whether it
/// still has cannot be told, so it stays drifted.
pub fn claim_changes(pool: &NodePool, claim: &NodeClaim) -> Annotations {
    if annotation(claim.metadata.annotations.as_ref(), NODEPOOL_HASH_VERSION) == Some(VERSION) {
        return Annotations::new();
    }
    let mut changes = Annotations::from([(NODEPOOL_HASH_VERSION.to_owned(), VERSION.to_owned())]);
    if claim.condition(DRIFTED).is_none() {
        changes.insert(NODEPOOL_HASH.to_owned(), nodepool_hash(pool));
    }
    changes
}

/// Whether the claims come first: the pool was written by another version of the hash.
pub fn is_migrating(pool: &NodePool) -> bool {
    annotation(pool.metadata.annotations.as_ref(), NODEPOOL_HASH_VERSION) != Some(VERSION)
}

/// What the pool must be given; empty when it has it.
pub fn pool_changes(pool: &NodePool) -> Annotations {
    let wanted =
        [(NODEPOOL_HASH.to_owned(), nodepool_hash(pool)), (NODEPOOL_HASH_VERSION.to_owned(), VERSION.to_owned())];
    let present = pool.metadata.annotations.as_ref();
    wanted.into_iter().filter(|(key, value)| annotation(present, key) != Some(value)).collect()
}

fn annotation<'a>(annotations: Option<&'a Annotations>, key: &str) -> Option<&'a str> {
    annotations?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests;
