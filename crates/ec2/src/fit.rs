//! Whether a type can run under a node class at all. One that cannot stays listed, with nothing for sale.

use crate::capacity::efa_only;
use crate::catalogue::TypeFacts;
use crate::family::AmiFamily;
use crate::nodeclass::{NetworkInterface, NodeClassFacts};

pub(crate) fn fits(facts: &TypeFacts, class: &NodeClassFacts) -> bool {
    image_boots(facts, class.ami_family)
        && class.network_interfaces.as_deref().is_none_or(|interfaces| attaches(facts, interfaces))
        && (!class.nested_virtualization || has(&facts.cpu_features, "nested-virtualization"))
        && class.placement_group.as_ref().is_none_or(|group| has(&facts.placement_strategies, group.strategy.as_str()))
        && (!class.connection_tracking || facts.hypervisor.as_deref() == Some("nitro"))
}

/// AL2023 needs newer processors than the first Graviton.
fn image_boots(facts: &TypeFacts, family: AmiFamily) -> bool {
    !(family == AmiFamily::Al2023 && facts.name.starts_with("a1."))
}

fn attaches(facts: &TypeFacts, interfaces: &[NetworkInterface]) -> bool {
    let slot_exists = |interface: &NetworkInterface| {
        let card = facts.network_cards.get(interface.card as usize);
        card.is_some_and(|card| interface.device < card.max_enis)
    };
    !facts.network_cards.is_empty()
        && facts.ena != Some(false)
        && interfaces.iter().all(slot_exists)
        && efa_only(interfaces) <= facts.efa_max
}

fn has(list: &[std::sync::Arc<str>], wanted: &str) -> bool {
    list.iter().any(|item| &**item == wanted)
}

#[cfg(test)]
mod tests;
