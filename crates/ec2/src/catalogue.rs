//! What EC2 sells: facts about instance types, and for each region its zones, what is offered where, and prices.
//!
//! A catalogue comes from the files of a folder ([`text`], [`folder`]) or is the one built into the program
//! ([`builtin`]). It knows nothing of node classes; `instance_types` gives its facts their meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::MicroUsd;

pub use facts::{
    Accelerator, AcceleratorKind, BranchLimits, CapacityClass, EbsOptimization, Gpu, NetworkCard, TypeFacts,
};

pub mod builtin;
pub mod compact;
mod facts;
pub mod folder;
pub mod refresh;
mod rows;
pub mod text;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// Where the facts are from and of what date, for people.
    pub origin: String,
    /// Sorted by name, each name once.
    pub types: Vec<TypeFacts>,
    pub regions: BTreeMap<String, RegionFacts>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionFacts {
    /// By name. Zone names are one account's; ids mean the same place to everybody.
    pub zones: BTreeMap<Arc<str>, ZoneId>,
    /// The zones, by name, in which a type is offered. Names types that have no facts as well.
    pub offered: BTreeMap<Arc<str>, ZoneNames>,
    pub on_demand: BTreeMap<Arc<str>, MicroUsd>,
    pub spot: SpotPrices,
}

pub type ZoneId = Arc<str>;
/// Shared, because most types of a region are offered in the same few combinations of zones.
pub type ZoneNames = Arc<BTreeSet<Arc<str>>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpotPrices {
    /// Nobody told us: every zone sells at [`ASSUMED_SPOT_FRACTION`] of the on-demand price. Output says so.
    #[default]
    Assumed,
    /// The same as on demand: how a controller starts, until EC2 has told it the spot prices.
    LikeOnDemand,
    /// By type, then zone name. What is not listed has no price, and so cannot be bought.
    Known(PricesByZone),
}

pub type PricesByZone = BTreeMap<Arc<str>, BTreeMap<Arc<str>, MicroUsd>>;

impl SpotPrices {
    /// The known prices; where there were none, from now on only those that are added.
    pub fn known_mut(&mut self) -> &mut PricesByZone {
        if !matches!(self, Self::Known(_)) {
            *self = Self::Known(PricesByZone::new());
        }
        match self {
            Self::Known(prices) => prices,
            Self::Assumed | Self::LikeOnDemand => unreachable!("replaced above"),
        }
    }
}

/// Numerator and denominator. Spot discounts move between 50 and 90 percent; 60 is the usual planning figure.
pub const ASSUMED_SPOT_FRACTION: (u64, u64) = (4, 10);

/// A catalogue cannot answer for a region. The text says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    #[error(
        "region {region:?} is not in the catalogue ({origin}), which knows {known}; give one that does with --catalog, \
         for example made by `karpenter catalogue refresh --region {region}`"
    )]
    Unknown { region: String, origin: String, known: String },
    #[error(
        "the catalogue ({origin}) has no on-demand prices for region {region:?}, only for {priced}; give one that has \
         with --catalog, for example made by `karpenter catalogue refresh --region {region}`"
    )]
    NoPrices { region: String, origin: String, priced: String },
    #[error("the catalogue ({origin}) has no instance type that is both offered and priced in region {region:?}")]
    NothingForSale { region: String, origin: String },
}

impl Catalogue {
    /// A region in which something can be bought.
    pub fn region(&self, name: &str) -> Result<&RegionFacts, RegionError> {
        let (region, origin) = (name.to_owned(), self.origin.clone());
        let Some(facts) = self.regions.get(name).filter(|facts| !facts.zones.is_empty()) else {
            let known = self.names(|facts| !facts.zones.is_empty());
            return Err(RegionError::Unknown { region, origin, known });
        };
        if facts.on_demand.is_empty() {
            let priced = self.names(|facts| !facts.on_demand.is_empty() && !facts.zones.is_empty());
            return Err(RegionError::NoPrices { region, origin, priced });
        }
        if self.for_sale(facts).next().is_none() {
            return Err(RegionError::NothingForSale { region, origin });
        }
        Ok(facts)
    }

    /// The types that count in a region: offered in one of its zones, priced there, and of an architecture that
    /// Kubernetes nodes run on. In the order of their names.
    pub fn for_sale<'a>(&'a self, region: &'a RegionFacts) -> impl Iterator<Item = &'a TypeFacts> {
        self.types.iter().filter(|facts| {
            facts.runs_kubernetes()
                && region.on_demand.contains_key(&*facts.name)
                && region.offered.get(&*facts.name).is_some_and(|zones| !zones.is_empty())
        })
    }

    pub fn find(&self, name: &str) -> Option<&TypeFacts> {
        let found = self.types.binary_search_by(|facts| (*facts.name).cmp(name)).ok()?;
        Some(&self.types[found])
    }

    fn names(&self, wanted: impl Fn(&RegionFacts) -> bool) -> String {
        let names: Vec<&str> =
            self.regions.iter().filter(|(_, facts)| wanted(facts)).map(|(name, _)| name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

impl RegionFacts {
    /// Every zone in which anything is offered.
    pub fn zones_with_offers(&self) -> BTreeSet<Arc<str>> {
        self.offered.values().flat_map(|zones| zones.iter()).cloned().collect()
    }

    pub fn on_demand_price(&self, instance_type: &str) -> Option<MicroUsd> {
        self.on_demand.get(instance_type).copied()
    }

    pub fn spot_price(&self, instance_type: &str, zone: &str) -> Option<MicroUsd> {
        match &self.spot {
            SpotPrices::Known(prices) => prices.get(instance_type)?.get(zone).copied(),
            SpotPrices::LikeOnDemand => self.on_demand_price(instance_type),
            SpotPrices::Assumed => {
                let (numerator, denominator) = ASSUMED_SPOT_FRACTION;
                let on_demand = self.on_demand_price(instance_type)?;
                Some(on_demand.fraction(numerator, denominator))
            }
        }
    }

    /// Whether spot prices are a rule of thumb; whoever shows a price made from them says so.
    pub fn spot_is_assumed(&self) -> bool {
        self.spot == SpotPrices::Assumed
    }
}

#[cfg(test)]
mod tests;
