//! The order in which a plan is shown: by what people look for, and the same on every machine.

use std::collections::{BTreeMap, BTreeSet};

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

/// `<pool>-<n>`, counted in the order shown. What is there already keeps its name for itself.
pub(crate) fn names(world: &World, nodes: &[NewNode]) -> Vec<String> {
    let there: BTreeSet<&str> = world.nodes.iter().map(|node| &*node.name).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let next = |node: &NewNode| {
        let pool = &*world.pools[node.pool].name;
        let count = counts.entry(pool).or_default();
        loop {
            *count += 1;
            let name = format!("{pool}-{count}");
            if !there.contains(&*name) {
                return name;
            }
        }
    };
    nodes.iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_nodes_have_names_of_their_own() {
        let mut world = karpenter_testkit::benchmark::mixed_world(20, karpenter_testkit::fake::incremental(4), 1);
        let plan = karpenter_scheduling::solve(&world);
        let pool = world.pools[0].name.clone();
        assert!(plan.new_nodes.len() > 1);
        world.nodes.push(karpenter_testkit::launched(&world, &plan.new_nodes[0], &format!("{pool}-2")));
        let names = names(&world, &plan.new_nodes);
        assert_eq!(names[..2], [format!("{pool}-1"), format!("{pool}-3")]);
    }
}
