//! A world and what became of its pods, in words short enough for a table.

use std::collections::BTreeMap;

use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::plan::{NewNode, Plan, Reason};
use karpenter_core::{InstanceType, Pod, World};
use karpenter_scheduling::{Packing, solve_with};
use karpenter_testkit::fake::{self, sold};
use karpenter_testkit::{NodeBuilder, PoolBuilder, WorldBuilder, node, pod, pool};

pub(crate) const WEB: &[(&str, &str)] = &[("app", "web")];

/// Room for everybody: 16 CPUs, 64Gi and 100 pods, in three zones, spot in the first two.
pub(crate) fn roomy_type() -> InstanceType {
    fake::instance_type("roomy").cpu("16").memory("64Gi").pods("100").build()
}

/// A pool of that one type.
pub(crate) fn roomy() -> PoolBuilder {
    roomy_pool("default")
}

pub(crate) fn roomy_pool(name: &str) -> PoolBuilder {
    pool(name).types(vec![roomy_type()])
}

/// The roomy type, sold on demand in these zones alone.
pub(crate) fn roomy_in(zones: &[&str]) -> Vec<InstanceType> {
    let kind = fake::instance_type("roomy").cpu("16").memory("64Gi").pods("100");
    vec![kind.offerings(zones.iter().map(|zone| sold(&zone_name(zone), "on-demand")).collect()).build()]
}

/// `1` for `test-zone-1`.
pub(crate) fn zone_name(short: &str) -> String {
    format!("test-zone-{short}")
}

/// A node in a zone that takes nobody any more.
pub(crate) fn full_node(name: &str, zone: &str) -> NodeBuilder {
    node(name).zone(&zone_name(zone)).room("pods", "0")
}

/// A full node in each zone with so many web pods running on it.
pub(crate) fn crowds(mut world: WorldBuilder, counts: &[(&str, usize)]) -> WorldBuilder {
    for (zone, count) in counts {
        let name = format!("crowd-{zone}");
        world = world.node(full_node(&name, zone));
        world = world.replicas(*count, pod(&format!("running-{zone}")).app("web").on(&name));
    }
    world
}

pub(crate) struct Seen {
    pub(crate) world: World,
    pub(crate) plan: Plan,
}

/// Solves in the reference's order, and checks that what runs by default does no worse.
pub(crate) fn seen(world: WorldBuilder) -> Seen {
    let world = world.build();
    let plan = solve_with(&world, Packing::FirstMatch);
    let best = solve_with(&world, Packing::Best);
    let (first_placed, best_placed) = (placed(&plan), placed(&best));
    assert!(best_placed >= first_placed, "the default places {best_placed} pods, first match {first_placed}");
    if best_placed == first_placed {
        assert!(best.price() <= plan.price(), "the default pays {:?}, first match {:?}", best.price(), plan.price());
    }
    assert_eq!(solve_with(&world, Packing::FirstMatch), plan, "the same world gives the same plan");
    Seen { world, plan }
}

fn placed(plan: &Plan) -> usize {
    let on_new: usize = plan.new_nodes.iter().map(|node| node.pods.len()).sum();
    on_new + plan.existing.values().map(Vec::len).sum::<usize>()
}

impl Seen {
    fn name(&self, pod: usize) -> &str {
        &self.world.pods[pod].name
    }

    fn names(&self, pods: &[usize]) -> String {
        pods.iter().map(|pod| self.name(*pod)).collect::<Vec<_>>().join(" ")
    }

    /// Pods of each new node, in the order in which they were opened.
    pub(crate) fn new_nodes(&self) -> Vec<String> {
        self.plan.new_nodes.iter().map(|node| self.names(&node.pods)).collect()
    }

    /// How many pods each new node got.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.plan.new_nodes.iter().map(|node| node.pods.len()).collect()
    }

    /// Pods planned onto an existing node.
    pub(crate) fn on(&self, node: &str) -> String {
        let index = self.world.nodes.iter().position(|of| &*of.name == node).expect("the world has the node");
        self.plan.existing.get(&index).map_or(String::new(), |pods| self.names(pods))
    }

    /// Left over, in the order of their names.
    pub(crate) fn left(&self) -> String {
        let mut names: Vec<&str> = self.plan.left_over.iter().map(|left| self.name(left.pod)).collect();
        names.sort_unstable();
        names.join(" ")
    }

    pub(crate) fn ignored(&self) -> String {
        let pods: Vec<usize> = self.plan.ignored.iter().map(|left| left.pod).collect();
        self.names(&pods)
    }

    pub(crate) fn reason(&self, pod: &str) -> &Reason {
        let all = self.plan.left_over.iter().chain(&self.plan.ignored);
        &all.into_iter().find(|left| self.name(left.pod) == pod).expect("the pod is left over").reason
    }

    /// The new node a pod goes to.
    pub(crate) fn node_of(&self, pod: &str) -> &NewNode {
        let has = |node: &&NewNode| node.pods.iter().any(|index| self.name(*index) == pod);
        self.plan.new_nodes.iter().find(has).unwrap_or_else(|| panic!("{pod} is not on a new node"))
    }

    pub(crate) fn pool_of(&self, pod: &str) -> &str {
        &self.world.pools[self.node_of(pod).pool].name
    }

    pub(crate) fn type_names(&self, node: &NewNode) -> String {
        let types = &self.world.pools[node.pool].instance_types;
        node.instance_types.iter().map(|kind| &*types[*kind].name).collect::<Vec<_>>().join(" ")
    }

    /// What a new node says about a key: its values, `*` where it says nothing.
    pub(crate) fn says(&self, node: &NewNode, key: &str) -> String {
        let requirement = node.requirements.get(key);
        if requirement.open { "*".to_owned() } else { requirement.values.iter().cloned().collect::<Vec<_>>().join("|") }
    }

    /// How many of the pass's pods went to each domain of a key, those whose names begin so.
    pub(crate) fn per(&self, key: &str, prefix: &str) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let matching = |pods: &[usize]| pods.iter().filter(|pod| self.name(**pod).starts_with(prefix)).count();
        for (at, node) in self.plan.new_nodes.iter().enumerate() {
            let domain = if key == HOSTNAME { format!("new-{at}") } else { self.says(node, key) };
            *counts.entry(domain).or_default() += matching(&node.pods);
        }
        for (index, pods) in &self.plan.existing {
            let node = &self.world.nodes[*index];
            let domain = node.labels.get(key).map_or("?", String::as_str);
            *counts.entry(domain.to_owned()).or_default() += matching(pods);
        }
        let shown = counts.iter().filter(|(_, count)| **count > 0).map(|(domain, count)| format!("{domain}={count}"));
        shown.collect::<Vec<_>>().join(" ")
    }

    /// The same for zones, whose numbers say enough.
    pub(crate) fn zones_of(&self, prefix: &str) -> String {
        self.per(ZONE, prefix).replace("test-zone-", "")
    }

    pub(crate) fn zones(&self) -> String {
        self.zones_of("")
    }

    /// The world after all new nodes have come up and kube-scheduler has bound what was planned.
    pub(crate) fn next_pass(&self) -> WorldBuilder {
        let mut next = WorldBuilder(self.world.clone());
        for (at, new) in self.plan.new_nodes.iter().enumerate() {
            let of = &self.world.pools[new.pool];
            let kind = of.instance_types.iter().find(|kind| kind.name == new.launch.instance_type);
            let kind = kind.expect("the launch names a type of the pool");
            let name = format!("launched-{}-{at}", self.world.nodes.len());
            let mut became = node(&name).of_pool(&of.name);
            for (key, value) in &new.labels {
                became = became.label(key, value);
            }
            next = next.node(became.of_type(kind, &new.launch.zone, &new.launch.capacity_type));
            new.pods.iter().for_each(|pod| bind(&mut next.0.pods[*pod], &name));
        }
        for (node, pods) in &self.plan.existing {
            let name = self.world.nodes[*node].name.to_string();
            pods.iter().for_each(|pod| bind(&mut next.0.pods[*pod], &name));
        }
        next
    }
}

fn bind(pod: &mut Pod, node: &str) {
    pod.node = Some(node.into());
    pod.scheduled_reason = None;
    pod.phase = karpenter_core::pod::Phase::Running;
}
