//! Lists of quantities.

use std::collections::BTreeMap;

use karpenter_api::Quantity as WireQuantity;
use karpenter_core::{Quantity, Resources};

use super::{Fault, Faults};
use crate::path::Path;

/// A list that stands alone, with its faults.
pub fn resource_list(list: &BTreeMap<String, WireQuantity>) -> Result<Resources, Vec<Fault>> {
    let mut faults = Faults::default();
    let resources = read(Some(list), &Path::Root, &mut faults);
    faults.into_result(resources)
}

pub(super) fn read(list: Option<&BTreeMap<String, WireQuantity>>, at: &Path<'_>, faults: &mut Faults) -> Resources {
    let mut resources = Resources::new();
    for (name, text) in list.into_iter().flatten() {
        match text.0.parse::<Quantity>() {
            Ok(quantity) => resources.set(name, quantity),
            Err(error) => faults.add(&at.field(name), error.to_string()),
        }
    }
    resources
}
