//! Resources as columns, and for each amount the set of types that have at least as much.

use std::sync::Arc;

use karpenter_core::Resources;
use karpenter_core::resources::{CPU, MEMORY};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::bits::Bits;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResId(pub(crate) u32);

impl ResId {
    pub(crate) const CPU: Self = Self(0);
    pub(crate) const MEMORY: Self = Self(1);
}

/// Nano units: exact for everything Kubernetes can write.
pub(crate) type Amount = i128;

/// Few entries, sorted by resource. A resource that is not listed is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Amounts(pub(crate) SmallVec<[(ResId, Amount); 4]>);

#[derive(Clone, Default)]
pub(crate) struct ResourceNames {
    names: Vec<Arc<str>>,
    ids: FxHashMap<Arc<str>, ResId>,
}

impl ResourceNames {
    /// With [`ResId::CPU`] and [`ResId::MEMORY`] in their places.
    pub(crate) fn new() -> Self {
        let mut names = Self::default();
        names.id(CPU);
        names.id(MEMORY);
        names
    }

    pub(crate) fn id(&mut self, name: &str) -> ResId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let (id, name) = (ResId(self.names.len() as u32), Arc::<str>::from(name));
        self.names.push(name.clone());
        self.ids.insert(name, id);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, id: ResId) -> &Arc<str> {
        &self.names[id.0 as usize]
    }

    pub(crate) fn amounts(&mut self, resources: &Resources) -> Amounts {
        let mut amounts: SmallVec<[(ResId, Amount); 4]> =
            resources.iter().map(|(name, quantity)| (self.id(name), quantity.nanos())).collect();
        amounts.sort_unstable();
        Amounts(amounts)
    }
}

impl Amounts {
    pub(crate) fn get(&self, id: ResId) -> Amount {
        self.0.binary_search_by_key(&id, |(id, _)| *id).map_or(0, |at| self.0[at].1)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (id, amount) in &other.0 {
            match self.0.binary_search_by_key(id, |(id, _)| *id) {
                Ok(at) => self.0[at].1 += amount,
                Err(at) => self.0.insert(at, (*id, *amount)),
            }
        }
    }

    /// Leaves the entries of `other` behind, zero or not: which resources a node has does not change.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (id, amount) in &other.0 {
            match self.0.binary_search_by_key(id, |(id, _)| *id) {
                Ok(at) => self.0[at].1 -= amount,
                Err(at) => self.0.insert(at, (*id, -*amount)),
            }
        }
    }

    /// Whether `self` can be taken out of `available`, of which nothing may be negative.
    pub(crate) fn fits(&self, available: &Self) -> bool {
        available.0.iter().all(|(_, amount)| *amount >= 0)
            && self.0.iter().all(|(id, amount)| *amount <= available.get(*id))
    }
}

/// For each resource, the types by how much they have left for pods.
#[derive(Clone)]
pub(crate) struct FitIndex {
    /// Descending amounts, each with the types that have at least that much. By resource id.
    columns: Vec<Vec<(Amount, Bits)>>,
    count: usize,
}

impl FitIndex {
    /// `room` is by type; only `eligible` types are indexed.
    pub(crate) fn new(room: &[Amounts], eligible: &Bits, resources: usize) -> Self {
        let mut columns = Vec::with_capacity(resources);
        for resource in 0..resources {
            let id = ResId(resource as u32);
            let mut have: Vec<(Amount, usize)> =
                eligible.iter().map(|kind| (room[kind].get(id), kind)).filter(|(amount, _)| *amount > 0).collect();
            have.sort_unstable_by(|a, b| b.cmp(a));
            let mut column: Vec<(Amount, Bits)> = Vec::new();
            let mut so_far = Bits::zeros(room.len());
            for (amount, kind) in have {
                so_far.insert(kind);
                match column.last_mut() {
                    Some((last, types)) if *last == amount => types.insert(kind),
                    _ => column.push((amount, so_far.clone())),
                }
            }
            columns.push(column);
        }
        Self { columns, count: room.len() }
    }

    /// Keeps the types that have at least `amount` of the resource.
    pub(crate) fn keep(&self, types: &mut Bits, resource: ResId, amount: Amount) {
        if amount <= 0 {
            return;
        }
        let column = &self.columns[resource.0 as usize];
        match column.partition_point(|(have, _)| *have >= amount) {
            0 => *types = Bits::zeros(self.count),
            enough => types.and(&column[enough - 1].1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(items: &[(u32, Amount)]) -> Amounts {
        Amounts(items.iter().map(|(id, amount)| (ResId(*id), *amount)).collect())
    }

    #[test]
    fn an_amount_keeps_the_types_that_have_as_much() {
        let room = [amounts(&[(0, 5)]), amounts(&[(0, 10)]), amounts(&[(0, 5), (1, 1)])];
        let index = FitIndex::new(&room, &Bits::full(3), 2);
        for (resource, amount, want) in
            [(0, 5, vec![0, 1, 2]), (0, 6, vec![1]), (0, 11, vec![]), (1, 1, vec![2]), (1, 0, vec![0, 1, 2])]
        {
            let mut types = Bits::full(3);
            index.keep(&mut types, ResId(resource), amount);
            assert_eq!(types.iter().collect::<Vec<_>>(), want, "{resource} {amount}");
        }
    }

    #[test]
    fn fitting_refuses_negative_room() {
        // covers: SCH-RES-11
        assert!(amounts(&[(0, 1)]).fits(&amounts(&[(0, 1), (1, 0)])));
        assert!(!amounts(&[(0, 1)]).fits(&amounts(&[(0, 1), (1, -1)])));
        assert!(!amounts(&[(2, 1)]).fits(&amounts(&[(0, 1)])));
        assert!(amounts(&[(2, 0)]).fits(&amounts(&[(0, 1)])));
    }
}
