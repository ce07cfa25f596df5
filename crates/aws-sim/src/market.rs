//! What a region sells, at what price, and how much of it there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::MicroUsd;
use karpenter_ec2::Catalogue;
use karpenter_ec2::catalogue::{CapacityClass, RegionFacts, TypeFacts};

use crate::chance::{between, share};
use crate::options::{Capacity, Options};

/// Spot prices move this often.
const EPOCH_SECONDS: i64 = 4 * 3600;

pub(crate) struct Market {
    catalogue: Arc<Catalogue>,
    region: RegionFacts,
    seed: u64,
    capacity: Capacity,
    /// Zone names with subnets, in order.
    pub(crate) zones: Vec<(String, String)>,
}

impl Market {
    pub(crate) fn new(options: &Options) -> Self {
        // A region without prices of its own borrows those of us-east-1, as the provider does.
        let mut region = options.catalogue.regions.get(&options.region).cloned().unwrap_or_default();
        if region.on_demand.is_empty() {
            region.on_demand = karpenter_ec2::catalogue::builtin::initial_on_demand_prices(&options.region).clone();
        }
        if region.zones.is_empty() {
            let short: String = options.region.split('-').filter_map(|word| word.chars().next()).collect();
            for (position, letter) in ["a", "b", "c"].into_iter().enumerate() {
                let id = format!("{short}-az{}", position + 1);
                region.zones.insert(Arc::from(format!("{}{letter}", options.region)), Arc::from(id));
            }
        }
        if region.offered.is_empty() {
            let zones = Arc::new(region.zones.keys().cloned().collect());
            let names = options.catalogue.types.iter().map(|facts| facts.name.clone());
            region.offered = names.map(|name| (name, Arc::clone(&zones))).collect();
        }
        let zones = region.zones.iter().take(options.zones.max(1));
        let zones = zones.map(|(name, id)| (name.to_string(), id.to_string())).collect();
        Self { catalogue: options.catalogue.clone(), region, seed: options.seed, capacity: options.capacity, zones }
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = &TypeFacts> {
        self.catalogue
            .types
            .iter()
            .filter(|facts| facts.runs_kubernetes() && self.region.offered.contains_key(&facts.name))
    }

    pub(crate) fn find(&self, name: &str) -> Option<&TypeFacts> {
        self.catalogue.find(name)
    }

    pub(crate) fn offerings(&self) -> impl Iterator<Item = (String, String)> {
        let known = |(name, _): &(&Arc<str>, _)| self.find(name).is_some();
        self.region
            .offered
            .iter()
            .filter(known)
            .flat_map(|(name, zones)| zones.iter().map(move |zone| (name.to_string(), zone.to_string())))
    }

    pub(crate) fn region_facts(&self) -> &RegionFacts {
        &self.region
    }

    pub(crate) fn on_demand(&self) -> &BTreeMap<Arc<str>, MicroUsd> {
        &self.region.on_demand
    }

    pub(crate) fn is_metal(&self, name: &str) -> bool {
        self.find(name).is_some_and(|facts| facts.bare_metal)
    }

    fn is_sold(&self, class: CapacityClass, name: &str, zone: &str) -> bool {
        let here = self.region.offered.get(name).is_some_and(|zones| zones.iter().any(|found| &**found == zone));
        here && self.find(name).is_some_and(|facts| facts.usage_classes.contains(&class))
    }

    /// What an instance costs in an hour.
    pub(crate) fn price(&self, class: CapacityClass, name: &str, zone: &str, now: Timestamp) -> Option<MicroUsd> {
        if !self.is_sold(class, name, zone) {
            return None;
        }
        let on_demand = *self.region.on_demand.get(name)?;
        match class {
            CapacityClass::OnDemand => Some(on_demand),
            CapacityClass::Spot => Some(self.spot(on_demand, name, zone, now)),
            CapacityClass::CapacityBlock => None,
        }
    }

    /// A discount of its own for each pool, that wanders from epoch to epoch. In one pool in fifty spot costs more
    /// than on-demand, as it now and then does.
    fn spot(&self, on_demand: MicroUsd, name: &str, zone: &str, now: Timestamp) -> MicroUsd {
        let base = if share(self.seed, &["dear", name, zone]) < 0.02 {
            1.05
        } else {
            0.25 + 0.4 * share(self.seed, &["discount", name, zone])
        };
        let epoch = now.as_second().div_euclid(EPOCH_SECONDS);
        let wander = |epoch: i64| 0.9 + 0.2 * share(self.seed, &["wander", name, zone, &epoch.to_string()]);
        let within = now.as_second().rem_euclid(EPOCH_SECONDS) as f64 / EPOCH_SECONDS as f64;
        let factor = wander(epoch) * (1.0 - within) + wander(epoch + 1) * within;
        MicroUsd::from_dollars(on_demand.dollars() * base * factor).unwrap_or(on_demand)
    }

    /// How many instances the pool has in all.
    pub(crate) fn stock(&self, class: CapacityClass, name: &str, zone: &str) -> u32 {
        if !self.is_sold(class, name, zone) {
            return 0;
        }
        match self.capacity {
            Capacity::Unlimited => u32::MAX,
            Capacity::Exactly(count) => count,
            Capacity::Drawn => {
                let words = ["stock", class.as_str(), name, zone];
                let luck = share(self.seed, &words);
                let drawn = |low, high| between(self.seed, &["count", class.as_str(), name, zone], low, high) as u32;
                match luck {
                    luck if luck < 0.05 => 0,
                    luck if luck < 0.2 => drawn(1, 5),
                    luck if luck < 0.5 => drawn(6, 50),
                    _ => drawn(51, 500),
                }
            }
        }
    }
}
