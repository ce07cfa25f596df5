//! Equal values share one allocation: the replicas of a workload differ in little more than their name.

use std::hash::Hash;
use std::sync::Arc;

use karpenter_core::PodShape;
use karpenter_core::pod::Owner;
use rustc_hash::FxHashSet;

/// Hands out one `Arc` for equal values. Sharing is all it does: nothing depends on the order in which values came.
#[derive(Default)]
pub struct Interner {
    shapes: FxHashSet<Arc<PodShape>>,
    texts: FxHashSet<Arc<str>>,
    owners: FxHashSet<Arc<[Owner]>>,
    claims: FxHashSet<Arc<[Arc<str>]>>,
}

impl Interner {
    pub fn shape(&mut self, shape: PodShape) -> Arc<PodShape> {
        shared(&mut self.shapes, shape)
    }

    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        shared(&mut self.texts, text)
    }

    pub(super) fn owners(&mut self, owners: Vec<Owner>) -> Arc<[Owner]> {
        shared(&mut self.owners, owners)
    }

    pub(super) fn claims(&mut self, claims: Vec<Arc<str>>) -> Arc<[Arc<str>]> {
        shared(&mut self.claims, claims)
    }

    /// How many different shapes were seen.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }
}

fn shared<T: ?Sized + Eq + Hash>(known: &mut FxHashSet<Arc<T>>, value: impl Into<Arc<T>>) -> Arc<T> {
    let value = value.into();
    match known.get(&value) {
        Some(same) => same.clone(),
        None => {
            known.insert(value.clone());
            value
        }
    }
}
