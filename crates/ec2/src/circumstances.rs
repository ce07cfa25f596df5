//! What is known at the moment beyond the catalogue: capacity that just ran out, zones shifted away from, what real
//! nodes reported. Tools that plan without an account know none of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::{MicroUsd, Quantity};

use crate::catalogue::CapacityClass;
use crate::kubelet::expression::Formulas;

/// Of a placement group: how it is bought, in which zone, and which one.
pub type Partition = (CapacityClass, Arc<str>, Arc<str>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// Memory that registered nodes of a type reported, which takes the place of the estimate.
    pub discovered_memory: BTreeMap<Arc<str>, Quantity>,
    /// Pools that EC2 had no capacity in, by type. Entries made for a placement group belong here only while that
    /// group's node class is looked at.
    pub out_of_stock: BTreeMap<Arc<str>, BTreeSet<(CapacityClass, Arc<str>)>>,
    /// The same for single partitions of the placement group that is looked at.
    pub closed_partitions: BTreeMap<Arc<str>, BTreeSet<Partition>>,
    /// Capacity types that cannot be bought at all.
    pub closed_classes: BTreeSet<CapacityClass>,
    /// Ids of subnets without free addresses.
    pub full_subnets: BTreeSet<Arc<str>>,
    /// Ids of zones that traffic is shifted away from.
    pub shifted_zones: BTreeSet<Arc<str>>,
    /// Prices that overlays give to types which have none.
    pub overlay_prices: BTreeMap<Arc<str>, MicroUsd>,
    /// Formulas of kubelet settings that are compiled already.
    pub formulas: Formulas,
}

impl Circumstances {
    pub(crate) fn is_out_of_stock(&self, class: CapacityClass, instance_type: &str, zone: &Arc<str>) -> bool {
        self.out_of_stock.get(instance_type).is_some_and(|pools| pools.contains(&(class, zone.clone())))
    }
}
