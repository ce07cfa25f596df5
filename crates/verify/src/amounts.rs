//! Sums of resources in nanos.

use std::collections::BTreeMap;

use karpenter_core::{InstanceType, Resources};

/// Nanos by resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts<'w>(pub(crate) BTreeMap<&'w str, i128>);

impl<'w> Amounts<'w> {
    pub(crate) fn of(resources: &'w Resources) -> Self {
        let mut amounts = Self::default();
        amounts.add(resources);
        amounts
    }

    pub(crate) fn add(&mut self, resources: &'w Resources) {
        for (name, quantity) in &resources.0 {
            *self.0.entry(name).or_default() += quantity.nanos();
        }
    }

    pub(crate) fn add_amounts(&mut self, other: &Self) {
        for (name, nanos) in &other.0 {
            *self.0.entry(name).or_default() += nanos;
        }
    }

    pub(crate) fn get(&self, name: &str) -> i128 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The first resource of which there is not enough: its name, what is wanted, what there is.
    pub(crate) fn first_over(&self, allocatable: &Amounts<'_>) -> Option<(&'w str, i128, i128)> {
        let over = |(name, wanted): (&&'w str, &i128)| {
            let have = allocatable.get(name);
            (*wanted > 0 && *wanted > have).then_some((*name, *wanted, have))
        };
        self.0.iter().find_map(over)
    }
}

/// Capacity less the three kinds of overhead, and memory also less all huge pages, though never below nothing.
pub(crate) fn allocatable(kind: &InstanceType) -> Amounts<'_> {
    let mut left = Amounts::of(&kind.capacity);
    let overhead = &kind.overhead;
    for taken in [&overhead.kube_reserved, &overhead.system_reserved, &overhead.eviction_threshold] {
        for (name, quantity) in &taken.0 {
            if let Some(mine) = left.0.get_mut(&**name) {
                *mine -= quantity.nanos();
            }
        }
    }
    let huge: i128 = kind
        .capacity
        .0
        .iter()
        .filter(|(name, _)| name.starts_with("hugepages-"))
        .map(|(_, quantity)| quantity.nanos())
        .sum();
    if huge > 0
        && let Some(memory) = left.0.get_mut("memory")
    {
        *memory = (*memory - huge).max(0);
    }
    left
}
