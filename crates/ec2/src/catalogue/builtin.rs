//! The catalogue that is part of the program, made by `cargo xtask catalogue`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use karpenter_core::MicroUsd;

use super::Catalogue;
use super::compact::{self, NetworkFacts};

/// Checked in; a test and `cargo xtask check` see that nobody edited it by hand.
pub const TEXT: &str = include_str!("../../data/catalogue.txt");

struct Parsed {
    as_of: String,
    sources: String,
    catalogue: Arc<Catalogue>,
    network: BTreeMap<Arc<str>, NetworkFacts>,
}

static PARSED: LazyLock<Parsed> = LazyLock::new(|| {
    let parsed = compact::parse(TEXT).expect("the built-in catalogue is checked by a test");
    Parsed {
        as_of: parsed.as_of,
        sources: parsed.sources,
        catalogue: Arc::new(parsed.catalogue),
        network: parsed.network,
    }
});

/// Parsed at the first call.
pub fn catalogue() -> &'static Catalogue {
    &PARSED.catalogue
}

/// The same one, for whoever takes any catalogue: megabytes that need not be there twice.
pub fn shared() -> Arc<Catalogue> {
    PARSED.catalogue.clone()
}

/// Of what date the facts are.
pub fn as_of() -> &'static str {
    &PARSED.as_of
}

/// Where the facts are from.
pub fn sources() -> &'static str {
    &PARSED.sources
}

/// What EC2's API does not say about a type's network, for types described by EC2 itself.
pub fn network_facts(instance_type: &str) -> NetworkFacts {
    PARSED.network.get(instance_type).copied().unwrap_or_default()
}

/// The region whose list stands in where a region has none of its own.
const FALLBACK_REGION: &str = "us-east-1";

/// On-demand prices to start with, until the price list has been asked: the region's own where they are known, else
/// those of us-east-1. Good enough to compare types, not to tell what they cost.
pub fn initial_on_demand_prices(region: &str) -> &'static BTreeMap<Arc<str>, MicroUsd> {
    let prices_of = |name: &str| {
        let facts = PARSED.catalogue.regions.get(name)?;
        Some(&facts.on_demand).filter(|prices| !prices.is_empty())
    };
    prices_of(region)
        .or_else(|| prices_of(FALLBACK_REGION))
        .expect("the built-in catalogue has prices for us-east-1, as a test checks")
}

#[cfg(test)]
mod tests;
