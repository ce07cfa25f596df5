//! What a pool uses, in its status.

use karpenter_api::{NodePool, Quantity, ResourceList};
use karpenter_core::Resources;
use karpenter_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS};

/// There even when nothing is used, so that whoever reads them need not tell zero from absent.
const ALWAYS: [&str; 5] = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES];

/// Writes the usage into the status.
pub fn count(pool: &mut NodePool, usage: &Resources) {
    let mut resources: ResourceList =
        ALWAYS.iter().map(|name| ((*name).to_owned(), Quantity("0".to_owned()))).collect();
    resources.extend(usage.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))));
    let status = pool.status.get_or_insert_default();
    status.nodes = usage.get(NODES).units();
    // An amount spelled differently is no change.
    if !status.resources.as_ref().is_some_and(|present| same(present, &resources)) {
        status.resources = Some(resources);
    }
}

fn same(a: &ResourceList, b: &ResourceList) -> bool {
    let amount = |quantity: &Quantity| quantity.0.parse::<karpenter_core::Quantity>().ok();
    a.len() == b.len() && a.iter().all(|(name, left)| b.get(name).is_some_and(|right| amount(left) == amount(right)))
}

#[cfg(test)]
mod tests;
