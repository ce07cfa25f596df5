//! From a catalogue and a node class to the instance types a scheduler works with.

use karpenter_core::InstanceType;
use karpenter_core::resources::MEMORY;

use crate::capacity;
use crate::catalogue::{Catalogue, RegionError, RegionFacts, TypeFacts, ZoneNames};
use crate::circumstances::Circumstances;
use crate::fit::fits;
use crate::kubelet::{self, expression::ExpressionError};
use crate::nodeclass::NodeClassFacts;
use crate::offerings::Market;
use crate::overhead;
use crate::requirements::requirements;
use crate::settings::Ec2Settings;
use crate::texts::Texts;
use crate::zones::Zones;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstanceTypesError {
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error("the node class has no subnets")]
    NoSubnets,
    #[error(transparent)]
    Expression(#[from] ExpressionError),
}

/// The types of a region that can be bought, as the node class would run them, in the order of their names.
pub fn instance_types(
    catalogue: &Catalogue,
    region: &str,
    class: &NodeClassFacts,
    settings: &Ec2Settings,
) -> Result<Vec<InstanceType>, InstanceTypesError> {
    let facts = catalogue.region(region)?;
    let here = Place { name: region, facts };
    resolve(catalogue.for_sale(facts), here, class, settings, &Circumstances::default())
}

/// A region and its name.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub name: &'a str,
    pub facts: &'a RegionFacts,
}

/// All the given types, also those that nothing sells just now. They fail together: a list that is silently short
/// would read as "sold out".
pub fn resolve<'a>(
    types: impl IntoIterator<Item = &'a TypeFacts>,
    place: Place<'_>,
    class: &NodeClassFacts,
    settings: &Ec2Settings,
    circumstances: &Circumstances,
) -> Result<Vec<InstanceType>, InstanceTypesError> {
    if class.subnets.as_ref().is_some_and(Vec::is_empty) {
        return Err(InstanceTypesError::NoSubnets);
    }
    let zones = Zones::of(class, place.facts);
    let mut texts = Texts::default();
    let market = Market::new(place.facts, class, &zones, circumstances, settings.reserved_capacity, &mut texts);
    let nowhere = ZoneNames::default();
    types
        .into_iter()
        .map(|facts| {
            let offered = place.facts.offered.get(&facts.name).unwrap_or(&nowhere);
            let memory = capacity::estimated_memory(facts, settings.vm_memory_overhead_percent);
            let limits = kubelet::limits(facts, class, settings, &circumstances.formulas)?;
            let node = overhead::Node {
                vcpus: facts.vcpus,
                memory,
                ephemeral_storage: capacity::ephemeral_storage(facts, class),
                pods: limits.pods_for_memory,
            };
            let mut capacity = capacity::capacity(facts, class, memory, limits.pods);
            if let Some(discovered) = circumstances.discovered_memory.get(&facts.name) {
                capacity.set(MEMORY, *discovered);
            }
            Ok(InstanceType {
                name: facts.name.clone(),
                requirements: requirements(facts, place.name, class, &zones, offered, &mut texts),
                capacity,
                overhead: overhead::overhead(&node, &class.kubelet, &limits.reserved),
                offerings: market.offerings(facts, fits(facts, class), offered, &mut texts),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
