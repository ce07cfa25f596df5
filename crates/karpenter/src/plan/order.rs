//! The order in which a plan is shown: by what people look for, and the same on every machine.

use std::collections::BTreeMap;

use karpenter_core::World;
use karpenter_core::plan::{NewNode, Plan};

/// New nodes by pool, type, zone and first pod; pods by name; leftovers by pod.
pub(crate) fn in_order(world: &World, mut plan: Plan) -> Plan {
    let by_name = |pods: &mut Vec<usize>| pods.sort_by_cached_key(|pod| world.pods[*pod].key());
    plan.new_nodes.iter_mut().for_each(|node| by_name(&mut node.pods));
    plan.existing.values_mut().for_each(by_name);
    plan.new_nodes.sort_by_cached_key(|node| {
        let launch = &node.launch;
        let first = node.pods.first().map(|pod| world.pods[*pod].key());
        let pool = world.pools[node.pool].name.clone();
        (pool, launch.instance_type.clone(), launch.zone.clone(), launch.capacity_type.clone(), first)
    });
    plan.left_over.sort_by_cached_key(|left| world.pods[left.pod].key());
    plan.ignored.sort_by_cached_key(|left| world.pods[left.pod].key());
    plan
}

/// `<pool>-<n>`, counted in the order shown.
pub(crate) fn names(world: &World, nodes: &[NewNode]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    nodes
        .iter()
        .map(|node| {
            let pool = &*world.pools[node.pool].name;
            let count = counts.entry(pool).or_default();
            *count += 1;
            format!("{pool}-{count}")
        })
        .collect()
}
