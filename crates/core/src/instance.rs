//! What can be bought: instance types, and the offerings in which each is sold.

use std::sync::Arc;

use crate::labels::{CAPACITY_TYPE, ZONE};
use crate::price::MicroUsd;
use crate::quantity::Quantity;
use crate::requirements::Requirements;
use crate::resources::{HUGEPAGES_PREFIX, MEMORY, Resources};

/// One instance type as a node class would run it. Immutable during a pass and shared between pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    pub name: Arc<str>,
    /// Has an entry for every well-known label, `DoesNotExist` where it does not apply.
    pub requirements: Requirements,
    pub capacity: Resources,
    pub overhead: Overhead,
    pub offerings: Vec<Offering>,
}

/// What a node keeps for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    pub kube_reserved: Resources,
    pub system_reserved: Resources,
    pub eviction_threshold: Resources,
}

/// One way to buy a type: a zone and a capacity type, at a price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// At least zone and capacity type.
    pub requirements: Requirements,
    pub price: MicroUsd,
    pub available: bool,
    pub reservation: Option<Reservation>,
}

/// Capacity paid for in advance. Offerings with the same id draw from the same units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub id: Arc<str>,
    pub remaining: u32,
}

impl Overhead {
    pub fn total(&self) -> Resources {
        let mut total = self.kube_reserved.clone();
        total.add(&self.system_reserved);
        total.add(&self.eviction_threshold);
        total
    }
}

impl InstanceType {
    /// Capacity less overhead, for each resource of the capacity; huge pages come out of memory, which they never
    /// make negative.
    pub fn allocatable(&self) -> Resources {
        let mut allocatable = self.capacity.minus(&self.overhead.total());
        let huge = self.capacity.iter().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX));
        let huge = huge.fold(Quantity::ZERO, |sum, (_, quantity)| sum + quantity);
        if !huge.is_zero() && allocatable.0.contains_key(MEMORY) {
            let left = allocatable.get(MEMORY) - huge;
            allocatable.set(MEMORY, left.max(Quantity::ZERO));
        }
        allocatable
    }
}

impl Offering {
    pub fn zone(&self) -> Option<Arc<str>> {
        self.requirements.0.get(ZONE)?.pick()
    }

    pub fn capacity_type(&self) -> Option<Arc<str>> {
        self.requirements.0.get(CAPACITY_TYPE)?.pick()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[(&str, &str)]) -> Resources {
        items.iter().map(|(name, text)| (*name, text.parse().unwrap())).collect()
    }

    fn with(capacity: &[(&str, &str)], overhead: Overhead) -> Resources {
        let (requirements, offerings) = (Requirements::new(), Vec::new());
        InstanceType { name: "t".into(), requirements, capacity: list(capacity), overhead, offerings }.allocatable()
    }

    #[test]
    fn allocatable_is_capacity_less_all_overhead() {
        // covers: SCH-RES-13
        let overhead = Overhead {
            kube_reserved: list(&[("cpu", "100m"), ("memory", "1Gi")]),
            system_reserved: list(&[("cpu", "100m"), ("gpu", "1")]),
            eviction_threshold: list(&[("memory", "100Mi")]),
        };
        let allocatable = with(&[("cpu", "2"), ("memory", "4Gi"), ("pods", "10")], overhead);
        assert_eq!(allocatable, list(&[("cpu", "1800m"), ("memory", "2972Mi"), ("pods", "10")]));
    }

    #[test]
    fn huge_pages_come_out_of_memory() {
        // covers: SCH-RES-14
        let sizes = [("hugepages-2Mi", "1Gi"), ("hugepages-1Gi", "2Gi"), ("memory", "4Gi")];
        assert_eq!(with(&sizes, Overhead::default()).get("memory"), "1Gi".parse().unwrap());
        let more = [("hugepages-2Mi", "5Gi"), ("memory", "4Gi")];
        assert_eq!(with(&more, Overhead::default()).get("memory"), Quantity::ZERO);
    }
}
