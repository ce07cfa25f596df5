//! Feature gates.

use super::table::boolean;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    pub(crate) node_repair: bool,
    pub(crate) reserved_capacity: bool,
    pub(crate) spot_to_spot_consolidation: bool,
    pub(crate) node_overlay: bool,
    pub(crate) static_capacity: bool,
    pub(crate) capacity_buffer: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
        }
    }
}

impl FeatureGates {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for (name, value) in pairs(text)? {
            match name {
                "NodeRepair" => gates.node_repair = value,
                "ReservedCapacity" => gates.reserved_capacity = value,
                "SpotToSpotConsolidation" => gates.spot_to_spot_consolidation = value,
                "NodeOverlay" => gates.node_overlay = value,
                "StaticCapacity" => gates.static_capacity = value,
                "CapacityBuffer" => gates.capacity_buffer = value,
                // Among them Drift, which has long been on for good.
                _ => {}
            }
        }
        Ok(gates)
    }
}

/// `NodeClassCEL`, the one gate of the provider.
pub(crate) fn node_class_cel(text: &str) -> Result<bool, String> {
    let given = pairs(text)?.into_iter().rev().find(|(name, _)| *name == "NodeClassCEL");
    Ok(given.is_some_and(|(_, value)| value))
}

/// `Name=bool` separated by commas, blanks allowed.
fn pairs(text: &str) -> Result<Vec<(&str, bool)>, String> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let pair = |entry: &'_ str| -> Result<(usize, bool), String> {
        let at = entry.find('=').ok_or(format!("{entry:?} is not Name=bool"))?;
        let value = entry[at + 1..].trim();
        let value = boolean(value).ok_or(format!("{value:?} in {entry:?} is neither true nor false"))?;
        Ok((at, value))
    };
    entries.map(|entry| pair(entry).map(|(at, value)| (entry[..at].trim(), value))).collect()
}
