//! Resource lists as they are shown.

use std::collections::BTreeMap;

use karpenter_core::quantity::Format;
use karpenter_core::{Quantity, Resources};

/// Canonical, zeros left out.
pub fn shown(list: &Resources) -> BTreeMap<String, String> {
    let present = list.iter().filter(|(_, quantity)| !quantity.is_zero());
    present.map(|(name, quantity)| (name.to_owned(), canonical(quantity).to_string())).collect()
}

/// Exponents are for machines: what was written as `1e9` prints in binary units.
fn canonical(quantity: Quantity) -> Quantity {
    match quantity.format() {
        Format::DecimalExponent => Quantity::from_bytes(quantity.units()),
        Format::DecimalSi | Format::BinarySi => quantity,
    }
}

/// `cpu 1, memory 2Gi`, for messages.
pub fn listed(list: &Resources) -> String {
    shown(list).into_iter().map(|(name, text)| format!("{name} {text}")).collect::<Vec<_>>().join(", ")
}
