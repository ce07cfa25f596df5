//! What pools may have in all.

use std::collections::BTreeMap;

use karpenter_core::Resources;
use karpenter_core::labels::NODEPOOL;
use karpenter_core::resources::{GPU, NODES};

use crate::amounts::Amounts;
use crate::cluster::Cluster;
use crate::violation::Violation;

const ONE: i128 = 1_000_000_000;

/// Nodes that stay count with their capacity, new ones with the largest they may become: whatever is launched, no limit
/// is overshot.
pub(crate) fn judge(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for (i, pool) in cluster.world.pools.iter().enumerate() {
        let mine: Vec<_> = cluster.claims.iter().filter(|claim| claim.node.pool == i).collect();
        if mine.is_empty() || pool.limits.0.is_empty() {
            continue;
        }
        let of_pool = |node: &&karpenter_core::Node| {
            !node.deleting && node.labels.get(NODEPOOL).is_some_and(|p| **p == *pool.name)
        };
        let mut used = Amounts::default();
        for node in cluster.world.nodes.iter().filter(of_pool) {
            used.add(&node.capacity);
            *used.0.entry(NODES).or_default() += ONE;
            *used.0.entry(GPU).or_default() += gpus(&node.capacity);
        }
        for claim in mine {
            let mut largest: BTreeMap<&str, i128> = BTreeMap::new();
            for kind in claim.types() {
                for (name, quantity) in &kind.capacity.0 {
                    let most = largest.entry(name).or_default();
                    *most = (*most).max(quantity.nanos());
                }
                let most = largest.entry(GPU).or_default();
                *most = (*most).max(gpus(&kind.capacity));
            }
            largest.insert(NODES, ONE);
            used.add_amounts(&Amounts(largest));
        }
        for (resource, limit) in &pool.limits.0 {
            if used.get(resource) > limit.nanos() {
                found.push(Violation::Limit {
                    pool: pool.name.to_string(),
                    resource: resource.to_string(),
                    used: used.get(resource),
                    limit: limit.nanos(),
                });
            }
        }
    }
}

/// What a limit on `gpu` counts: the devices of each vendor.
fn gpus(capacity: &Resources) -> i128 {
    let of = |vendor: &str| capacity.0.get(vendor).map_or(0, |quantity| quantity.nanos());
    of("nvidia.com/gpu") + of("amd.com/gpu")
}
