//! Feature gates: those somebody here looks at; the others are read and left alone.

use super::go_bool;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    pub(crate) reserved_capacity: bool,
    pub(crate) node_repair: bool,
    pub(crate) spot_to_spot: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self { reserved_capacity: true, node_repair: false, spot_to_spot: false }
    }
}

impl FeatureGates {
    /// `Name=bool` separated by commas, blanks allowed. Unknown names are ignored, unnamed gates keep their default.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) = entry.split_once('=').ok_or(format!("{entry:?} is not Name=bool"))?;
            let value =
                go_bool(value.trim()).ok_or(format!("{:?} in {entry:?} is neither true nor false", value.trim()))?;
            match name.trim() {
                "ReservedCapacity" => gates.reserved_capacity = value,
                "SpotToSpotConsolidation" => gates.spot_to_spot = value,
                "NodeRepair" => gates.node_repair = value,
                _ => {}
            }
        }
        Ok(gates)
    }
}
