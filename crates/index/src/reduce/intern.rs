//! Equal values share one allocation: the replicas of a workload differ in little more than their name.

use std::hash::Hash;
use std::sync::Arc;

use karpenter_core::pod::Owner;
use karpenter_core::{PodShape, Resources};
use rustc_hash::FxHashSet;

/// Hands out one `Arc` for equal values. Sharing is all it does: nothing depends on the order in which values came.
#[derive(Default)]
pub struct Interner {
    shapes: FxHashSet<Arc<PodShape>>,
    texts: FxHashSet<Arc<str>>,
    owners: FxHashSet<Arc<[Owner]>>,
    claims: FxHashSet<Arc<[Arc<str>]>>,
    resources: FxHashSet<Arc<Resources>>,
    /// How many values make the next sweep worth its time.
    sweep_at: usize,
}

/// Below this many values, what is no longer used costs nothing worth a sweep.
const SWEEP_FROM: usize = 1024;

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

    pub(super) fn resources(&mut self, resources: Resources) -> Arc<Resources> {
        shared(&mut self.resources, resources)
    }

    /// Forgets what nobody else holds, each time twice as much is kept as after the last sweep: the cost is spread over
    /// the values that came in.
    pub fn sweep_if_due(&mut self) {
        let kept = self.len();
        if kept < self.sweep_at.max(SWEEP_FROM) {
            return;
        }
        self.shapes.retain(|value| Arc::strong_count(value) > 1);
        self.owners.retain(|value| Arc::strong_count(value) > 1);
        self.claims.retain(|value| Arc::strong_count(value) > 1);
        self.texts.retain(|value| Arc::strong_count(value) > 1);
        self.resources.retain(|value| Arc::strong_count(value) > 1);
        self.sweep_at = self.len() * 2;
    }

    fn len(&self) -> usize {
        self.shapes.len() + self.texts.len() + self.owners.len() + self.claims.len() + self.resources.len()
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
