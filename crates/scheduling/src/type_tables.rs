//! What follows from instance types alone. It is the larger part of compiling a world and the same from one pass to the
//! next, so it is kept for as long as somebody holds those very types. No answer can tell whether it was.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use karpenter_core::labels::{HOSTNAME, Vocabulary, ZONE};
use karpenter_core::{InstanceType, World};

use crate::catalog::Catalog;
use crate::columns::{Amounts, ResourceNames};
use crate::terms::Terms;

/// The types of a node class, as pools share them.
type Types = Arc<[Arc<InstanceType>]>;

/// By list: which types, whoever else still holds them.
type Identities = Arc<[Vec<Weak<InstanceType>>]>;

/// Lists of types that are in use at the same time: a plan's and those of a search that still holds the last ones.
const MOST: usize = 4;

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

#[derive(Clone)]
pub(crate) struct TypeTables {
    pub(crate) terms: Terms,
    pub(crate) names: ResourceNames,
    /// One for each list of types, in the order of the first pools that have them.
    pub(crate) catalogs: Vec<Catalog>,
    /// By catalogue and type: what the type has for pods and daemons.
    pub(crate) allocatable: Vec<Arc<[Amounts]>>,
}

/// Tables without the types they were made of, lest those live for ever.
struct Kept {
    of: Vec<Weak<[Arc<InstanceType>]>>,
    kinds: Identities,
    tables: Arc<TypeTables>,
}

impl Kept {
    fn is_of(&self, types: &[Types], vocabulary: &Arc<Vocabulary>) -> bool {
        Arc::ptr_eq(self.tables.terms.vocabulary(), vocabulary)
            && self.of.len() == types.len()
            && self.of.iter().zip(types).all(|(kept, types)| std::ptr::addr_eq(kept.as_ptr(), Arc::as_ptr(types)))
    }

    fn is_in_use(&self) -> bool {
        self.of.iter().all(|types| types.strong_count() > 0)
    }
}

impl TypeTables {
    pub(crate) fn of(world: &World) -> Self {
        let types = lists(world);
        let tables = Self::known(&types, &world.vocabulary).unwrap_or_else(|| {
            let similar = Self::similar(&types, &world.vocabulary);
            let tables = similar.unwrap_or_else(|| Self::compile(&types, &world.vocabulary));
            let tables = Arc::new(tables);
            keep(&types, &tables);
            tables
        });
        let mut tables = Self::clone(&tables);
        tables.catalogs.iter_mut().zip(types).for_each(|(catalog, types)| catalog.types = types);
        tables
    }

    fn known(types: &[Types], vocabulary: &Arc<Vocabulary>) -> Option<Arc<Self>> {
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|kept| kept.is_of(types, vocabulary)).map(|kept| kept.tables.clone())
    }

    /// What is bought runs out and comes back, a type or two at a time: the rest stays.
    fn similar(types: &[Types], vocabulary: &Arc<Vocabulary>) -> Option<Self> {
        let candidates: Vec<(Identities, Arc<Self>)> = {
            let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = kept.iter().rev().filter(|kept| Arc::ptr_eq(kept.tables.terms.vocabulary(), vocabulary));
            kept.map(|kept| (kept.kinds.clone(), kept.tables.clone())).collect()
        };
        candidates.iter().find_map(|(kinds, tables)| tables.offered_anew(kinds, types))
    }

    fn offered_anew(&self, kinds: &[Vec<Weak<InstanceType>>], types: &[Types]) -> Option<Self> {
        let lengths = |list: (&Vec<Weak<InstanceType>>, &Types)| list.0.len() == list.1.len();
        if kinds.len() != types.len() || !kinds.iter().zip(types).all(lengths) {
            return None;
        }
        let mut tables = self.clone();
        for (list, (kinds, types)) in kinds.iter().zip(types).enumerate() {
            let differs = |at: &usize| !std::ptr::eq(kinds[*at].as_ptr(), Arc::as_ptr(&types[*at]));
            let changed: Vec<(usize, &InstanceType)> =
                (0..types.len()).filter(differs).map(|at| (at, &*types[at])).collect();
            if changed.len() > types.len() / 4 {
                return None;
            }
            tables.catalogs[list] = tables.catalogs[list].offered_anew(&changed, &mut tables.terms)?;
            let (names, mut rooms) = (tables.names.len(), None);
            for (at, kind) in changed {
                let room = tables.names.amounts(&kind.allocatable());
                if room != tables.allocatable[list][at] {
                    rooms.get_or_insert_with(|| tables.allocatable[list].to_vec())[at] = room;
                }
            }
            if tables.names.len() != names {
                return None;
            }
            if let Some(rooms) = rooms {
                tables.allocatable[list] = rooms.into();
            }
        }
        Some(tables)
    }

    fn compile(types: &[Types], vocabulary: &Arc<Vocabulary>) -> Self {
        let (mut terms, mut names) = (Terms::new(vocabulary.clone()), ResourceNames::new());
        // Every key a group can be about has its id before anything else, so that lookups never miss.
        terms.key(HOSTNAME);
        terms.key(ZONE);
        let catalogs = types.iter().map(|types| Catalog::new(types, &mut terms)).collect();
        let mut allocatable = |types: &Types| types.iter().map(|kind| names.amounts(&kind.allocatable())).collect();
        let allocatable = types.iter().map(&mut allocatable).collect();
        Self { terms, names, catalogs, allocatable }
    }
}

fn keep(types: &[Types], tables: &Arc<TypeTables>) {
    let of = types.iter().map(Arc::downgrade).collect();
    let kinds = types.iter().map(|types| types.iter().map(Arc::downgrade).collect()).collect();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    // The last ones stay even if their types are gone: what comes next is likely to be much like them.
    let last = kept.pop();
    kept.retain(Kept::is_in_use);
    kept.extend(last);
    if kept.len() >= MOST {
        kept.remove(0);
    }
    kept.push(Kept { of, kinds, tables: tables.clone() });
}

/// Pools that share a node class share its types, and those are compiled once.
fn lists(world: &World) -> Vec<Types> {
    let mut lists: Vec<Types> = Vec::new();
    for pool in &world.pools {
        if !lists.iter().any(|types| Arc::ptr_eq(types, &pool.instance_types)) {
            lists.push(pool.instance_types.clone());
        }
    }
    lists
}

#[cfg(test)]
mod tests;
