//! The zones a node class reaches.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalogue::RegionFacts;
use crate::nodeclass::NodeClassFacts;

pub(crate) struct Zones {
    /// By zone name.
    pub(crate) with_subnets: BTreeMap<Arc<str>, ReachableZone>,
}

pub(crate) struct ReachableZone {
    pub(crate) id: Option<Arc<str>>,
    pub(crate) subnets: Vec<Arc<str>>,
}

impl Zones {
    /// Those of the node class's subnets; all of the region where nothing is known of subnets.
    pub(crate) fn of(class: &NodeClassFacts, region: &RegionFacts) -> Self {
        let mut with_subnets: BTreeMap<Arc<str>, ReachableZone> = BTreeMap::new();
        match &class.subnets {
            Some(subnets) => {
                for subnet in subnets {
                    let zone = with_subnets
                        .entry(subnet.zone.clone())
                        .or_insert(ReachableZone { id: None, subnets: Vec::new() });
                    if zone.id.is_none() {
                        zone.id = subnet.zone_id.clone();
                    }
                    zone.subnets.push(subnet.id.clone());
                }
            }
            None => {
                for (zone, id) in &region.zones {
                    let reachable = ReachableZone { id: Some(id.clone()), subnets: Vec::new() };
                    with_subnets.insert(zone.clone(), reachable);
                }
            }
        }
        Self { with_subnets }
    }
}
