//! How many nodes a static pool has, and who may add some.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::resources::NODES;
use karpenter_index::{MachineId, Unreadable, reduce};

use crate::context::Context;
use crate::ownership::{claim_provider_id, pool_of};

/// The claims of a pool, from their creation to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Launched or not.
    pub active: u64,
    /// A command is about to replace it; which it is until the command has marked it.
    pub pending: u64,
    pub deleting: u64,
}

/// How a claim counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Active,
    Pending,
    Deleting,
}

impl Counts {
    fn of(stages: impl Iterator<Item = Stage>) -> Self {
        let mut counts = Self::default();
        for stage in stages {
            match stage {
                Stage::Active => counts.active += 1,
                Stage::Pending => counts.pending += 1,
                Stage::Deleting => counts.deleting += 1,
            }
        }
        counts
    }

    fn all(self) -> u64 {
        self.active + self.pending + self.deleting
    }

    /// How many claims are missing. One whose replacement a command is about to create is not made up for twice.
    pub fn missing(self, replicas: u64) -> u64 {
        replicas.saturating_sub(self.active + self.pending)
    }

    pub fn surplus(self, replicas: u64) -> u64 {
        self.active.saturating_sub(replicas)
    }
}

/// What is under way and not to be seen in the cluster yet.
#[derive(Debug, Default)]
pub struct Ledger(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    /// Names of claims.
    pending: BTreeSet<String>,
    /// By pool: claims that are being created.
    reserved: BTreeMap<String, u64>,
}

/// The right to create one claim; given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    books: Arc<Mutex<Books>>,
    pool: String,
}

/// Claims that count as pending until this is dropped.
#[derive(Debug)]
pub(crate) struct Pending {
    books: Arc<Mutex<Books>>,
    claims: Vec<String>,
}

impl Ledger {
    pub fn counts(&self, pool: &str, context: &Context) -> Counts {
        count(&lock(&self.0), pool, context)
    }

    /// How a claim counts; nothing is said of whose it is.
    pub(super) fn stage(&self, claim: &NodeClaim, context: &Context) -> Stage {
        stage(&lock(&self.0), claim, context)
    }

    /// The right to create up to `wanted` claims under the pool's limit on nodes, which counts all that exist and all that
    /// others have the right to create.
    pub fn reserve(&self, pool: &NodePool, wanted: u64, context: &Context) -> Vec<Reservation> {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let mut books = lock(&self.0);
        let granted = wanted.min(room(&books, pool, context));
        self.grant(&mut books, name, granted)
    }

    fn grant(&self, books: &mut Books, pool: &str, count: u64) -> Vec<Reservation> {
        if count > 0 {
            *books.reserved.entry(pool.to_owned()).or_default() += count;
        }
        (0..count).map(|_| Reservation { books: self.0.clone(), pool: pool.to_owned() }).collect()
    }

    /// How many nodes more than it has the pool may have now to replace others: none before too many have gone.
    pub fn spare(&self, pool: &NodePool, context: &Context) -> u32 {
        let (name, books) = (pool.metadata.name.as_deref().unwrap_or_default(), lock(&self.0));
        let counts = count(&books, name, context);
        let replicas = pool.spec.replicas.and_then(|replicas| u64::try_from(replicas).ok()).unwrap_or(0);
        let is_shrinking = counts.active + counts.pending > replicas;
        if is_shrinking { 0 } else { u32::try_from(room(&books, pool, context)).unwrap_or(u32::MAX) }
    }

    pub(crate) fn replacing(&self, claims: Vec<String>) -> Pending {
        lock(&self.0).pending.extend(claims.iter().cloned());
        Pending { books: self.0.clone(), claims }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut books = lock(&self.books);
        if let Some(reserved) = books.reserved.get_mut(&self.pool) {
            *reserved -= 1;
            if *reserved == 0 {
                books.reserved.remove(&self.pool);
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut books = lock(&self.books);
        for claim in &self.claims {
            books.pending.remove(claim);
        }
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(books: &Books, pool: &str, context: &Context) -> Counts {
    let claims = context.index.node_claims();
    let mine = claims.iter().filter(|claim| pool_of(claim) == Some(pool) && context.index.is_managed(claim));
    // One that could never be read is there all the same, and so is its machine.
    let unreadable = context.index.unreadable_claims();
    let never_read = |claim: &&Arc<Unreadable>| context.index.node_claim(&claim.key.name).is_none();
    let unread = unreadable.iter().filter(|claim| claim.pool.as_deref() == Some(pool)).filter(never_read);
    Counts::of(mine.map(|claim| stage(books, claim, context)).chain(unread.map(|_| Stage::Active)))
}

fn stage(books: &Books, claim: &NodeClaim, context: &Context) -> Stage {
    let marked = claim_provider_id(claim).is_some_and(|id| context.index.is_marked(&MachineId::Provider(id.into())));
    if marked || claim.metadata.deletion_timestamp.is_some() {
        Stage::Deleting
    } else if claim.metadata.name.as_ref().is_some_and(|name| books.pending.contains(name)) {
        Stage::Pending
    } else {
        Stage::Active
    }
}

/// What `limits.nodes` leaves; any number where there is no limit. A limit that cannot be read leaves nothing.
fn room(books: &Books, pool: &NodePool, context: &Context) -> u64 {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let Some(limits) = &pool.spec.limits else { return u64::MAX };
    let Ok(limits) = reduce::resource_list(limits) else { return 0 };
    let Some(limit) = limits.0.get(NODES) else { return u64::MAX };
    let reserved = books.reserved.get(name).copied().unwrap_or(0);
    left(u64::try_from(limit.units()).unwrap_or(0), count(books, name, context), reserved)
}

/// What goes away counts as well: its machine is still paid for.
fn left(limit: u64, counts: Counts, reserved: u64) -> u64 {
    limit.saturating_sub(counts.all() + reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_is_too_much() {
        // covers: STATIC-02, STATIC-04, STATIC-08, STATIC-13, SCH-STATIC-04, SCH-STATIC-12
        use Stage::{Active, Deleting, Pending};
        for (stages, replicas, missing, surplus) in [
            (&[][..], 3, 3, 0),
            (&[Active, Active], 3, 1, 0),
            (&[Active, Active, Active], 3, 0, 0),
            (&[Active, Active, Pending], 3, 0, 0),
            (&[Active, Active, Deleting], 3, 1, 0),
            // The replacement is there, and what it replaces is not marked yet.
            (&[Active, Active, Active, Pending], 3, 0, 0),
            (&[Active, Active, Active, Deleting], 3, 0, 0),
            (&[Active, Active, Active, Active], 3, 0, 1),
            (&[Active, Deleting, Pending], 0, 0, 1),
            (&[], 0, 0, 0),
        ] {
            let counts = Counts::of(stages.iter().copied());
            assert_eq!((counts.missing(replicas), counts.surplus(replicas)), (missing, surplus), "{stages:?}");
        }
    }

    #[test]
    fn rights_count_until_they_are_given_back() {
        // covers: STATE-36, STATE-37
        let counts = Counts { active: 2, pending: 1, deleting: 1 };
        assert_eq!([left(7, counts, 0), left(7, counts, 2), left(7, counts, 3), left(3, counts, 0)], [3, 1, 0, 0]);
        let ledger = Ledger::default();
        let reserved = || lock(&ledger.0).reserved.get("p").copied();
        let mut rights = ledger.grant(&mut lock(&ledger.0), "p", 2);
        let other = ledger.grant(&mut lock(&ledger.0), "q", 1);
        assert_eq!((rights.len(), reserved()), (2, Some(2)));
        rights.pop();
        assert_eq!(reserved(), Some(1), "each by itself, whatever became of the attempt");
        drop(rights);
        assert_eq!(reserved(), None);
        // Nobody remembers the pool.
        lock(&ledger.0).reserved.clear();
        drop(other);
        assert!(lock(&ledger.0).reserved.is_empty());
    }

    #[test]
    fn what_is_being_replaced_is_pending_until_it_is_marked() {
        let ledger = Ledger::default();
        let pending = ledger.replacing(vec!["a".to_owned()]);
        assert!(lock(&ledger.0).pending.contains("a"));
        drop(pending);
        assert!(lock(&ledger.0).pending.is_empty());
    }
}
