//! The overlays in force, as the last evaluation left them, and the types they make of others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use karpenter_api::labels::{CAPACITY_OVERLAY_APPLIED, PRICE_OVERLAY_APPLIED};
use karpenter_api::{NodePool, ObjectMeta};
use karpenter_core::labels::Vocabulary;
use karpenter_core::{MicroUsd, Requirements};

use super::{Accepted, pool_requirements};
use crate::{InstanceTypes, TypesError};

/// What overlays changed of some types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub price: bool,
    pub capacity: bool,
}

impl Marks {
    /// A claim says by which prices and capacities it was chosen.
    pub fn annotate(self, metadata: &mut ObjectMeta) {
        for (key, _) in [(PRICE_OVERLAY_APPLIED, self.price), (CAPACITY_OVERLAY_APPLIED, self.capacity)]
            .into_iter()
            .filter(|(_, applied)| *applied)
        {
            metadata.annotations.get_or_insert_default().insert(key.to_owned(), "true".to_owned());
        }
    }
}

/// Shared by whoever evaluates and whoever applies.
#[derive(Debug)]
pub struct Store {
    words: Vocabulary,
    evaluated: RwLock<Arc<Evaluated>>,
}

#[derive(Debug, Default)]
struct Evaluated {
    accepted: Accepted,
    pools: BTreeMap<String, OfPool>,
}

/// A pool as it was when it was evaluated.
#[derive(Debug)]
struct OfPool {
    requirements: Requirements,
    last: Mutex<Option<Applied>>,
}

/// What was made of a list of types. The same list is asked for at every pass, and mostly one of a thousand has changed
/// when it is another, so what follows from the same type is the very same.
#[derive(Clone, Debug)]
struct Applied {
    from: InstanceTypes,
    to: InstanceTypes,
    marks: Arc<[Marks]>,
}

impl Store {
    /// Nothing has been evaluated yet.
    pub fn new(words: Vocabulary) -> Self {
        Self { words, evaluated: RwLock::default() }
    }

    /// What holds from now on, and for which pools.
    pub fn put<'a>(&self, accepted: Accepted, pools: impl IntoIterator<Item = &'a NodePool>) {
        let pools = pools.into_iter().map(|pool| {
            let requirements = pool_requirements(pool, &self.words);
            (pool.metadata.name.clone().unwrap_or_default(), OfPool { requirements, last: Mutex::default() })
        });
        let evaluated = Arc::new(Evaluated { accepted, pools: pools.collect() });
        *self.evaluated.write().unwrap_or_else(PoisonError::into_inner) = evaluated;
    }

    /// The types as the pool shall see them; a pool that nobody has looked at yet sees none.
    pub fn apply(&self, pool: &str, types: &InstanceTypes) -> Result<InstanceTypes, TypesError> {
        let evaluated = self.evaluated();
        match evaluated.pools.get(pool) {
            Some(of_pool) => Ok(of_pool.apply(&evaluated.accepted, types).to),
            None => Err(TypesError::Unevaluated { pool: pool.to_owned() }),
        }
    }

    /// What is said of these types of the pool, as they were last applied.
    pub fn marks(&self, pool: &str, types: &[&str]) -> Marks {
        let evaluated = self.evaluated();
        let last = evaluated.pools.get(pool).and_then(OfPool::last);
        let Some(last) = last.filter(|_| !evaluated.accepted.is_empty()) else { return Marks::default() };
        let marks: BTreeMap<&str, Marks> =
            last.to.iter().map(|kind| &*kind.name).zip(last.marks.iter().copied()).collect();
        types.iter().filter_map(|name| marks.get(name)).fold(Marks::default(), |all, one| Marks {
            price: all.price || one.price,
            capacity: all.capacity || one.capacity,
        })
    }

    /// See [`Accepted::named_prices`].
    pub fn named_prices(&self) -> BTreeMap<Arc<str>, MicroUsd> {
        self.evaluated().accepted.named_prices().clone()
    }

    fn evaluated(&self) -> Arc<Evaluated> {
        self.evaluated.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl OfPool {
    fn last(&self) -> Option<Applied> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn apply(&self, accepted: &Accepted, types: &InstanceTypes) -> Applied {
        let last = self.last();
        if let Some(last) = last.as_ref().filter(|last| Arc::ptr_eq(&last.from, types)) {
            return last.clone();
        }
        let mut to = Vec::with_capacity(types.len());
        let mut marks = Vec::with_capacity(types.len());
        for (at, kind) in types.iter().enumerate() {
            let before = last.as_ref().filter(|last| last.from.get(at).is_some_and(|from| Arc::ptr_eq(from, kind)));
            let (changed, marked) = match before {
                Some(last) => (last.to[at].clone(), last.marks[at]),
                None => accepted.applied(&self.requirements, kind).unwrap_or_else(|| (kind.clone(), Marks::default())),
            };
            to.push(changed);
            marks.push(marked);
        }
        let to = if accepted.is_empty() { types.clone() } else { to.into() };
        let applied = Applied { from: types.clone(), to, marks: marks.into() };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(applied.clone());
        applied
    }
}
