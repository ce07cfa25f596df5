//! Small clusters by hand, and what becomes of them.

mod balanced;
mod budgets;
mod candidates;
mod consolidation;
mod drift;
mod memory;
mod simulation;
mod spot;
mod spot_noise;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_core::labels::{CAPACITY_TYPE, ON_DEMAND, SPOT};
use karpenter_core::{InstanceType, World};
use karpenter_testkit::express::is_in;
use karpenter_testkit::fake::{TypeBuilder, instance_type, sold};
use karpenter_testkit::{NodeBuilder, PodBuilder, PoolBuilder, WorldBuilder, node, pool, world};

use crate::*;

const ZONE_A: &str = "test-zone-1";

/// Two CPUs cost twice what one does; spot costs 40 %.
fn kind(name: &str, cpu: u64) -> TypeBuilder {
    let price = cpu * 10_000;
    let offerings = vec![sold(ZONE_A, ON_DEMAND).at(price), sold(ZONE_A, SPOT).at(price * 4 / 10)];
    let memory = format!("{}Gi", 4 * cpu);
    instance_type(name).cpu(&cpu.to_string()).memory(&memory).pods("110").offerings(offerings)
}

fn kinds() -> Arc<[Arc<InstanceType>]> {
    let all = [kind("nano", 1), kind("small", 2), kind("medium", 4), kind("large", 8)];
    all.into_iter().map(|kind| Arc::new(kind.build())).collect()
}

/// A cluster under construction. Unless told otherwise everything may go at once, on-demand is bought, nothing is empty.
struct Scene {
    types: Arc<[Arc<InstanceType>]>,
    world: WorldBuilder,
    nodes: Vec<NodeFacts>,
    pools: BTreeMap<Arc<str>, PoolFacts>,
    policy: Policy,
}

fn scene() -> Scene {
    Scene::with(kinds())
}

impl Scene {
    fn with(types: Arc<[Arc<InstanceType>]>) -> Self {
        let empty =
            Self { types, world: world(), nodes: Vec::new(), pools: BTreeMap::new(), policy: Policy::default() };
        empty.pool("default", |pool| pool.require(is_in(CAPACITY_TYPE, &[ON_DEMAND])), |_| {})
    }

    /// Replaces the pool of that name if there is one.
    fn pool(
        mut self,
        name: &str,
        shape: impl FnOnce(PoolBuilder) -> PoolBuilder,
        rules: impl FnOnce(&mut PoolFacts),
    ) -> Self {
        self.world.0.pools.retain(|pool| &*pool.name != name);
        self.world = self.world.pool(shape(pool(name)).shared_types(&self.types));
        let mut facts =
            PoolFacts { budgets: vec![budget("100%")], instance_types: self.types.clone(), ..PoolFacts::default() };
        rules(&mut facts);
        self.pools.insert(name.into(), facts);
        self
    }

    fn rules(mut self, change: impl FnOnce(&mut PoolFacts)) -> Self {
        change(self.pools.get_mut("default").unwrap());
        self
    }

    fn of_type(&self, name: &str, kind: &str, capacity_type: &str) -> NodeBuilder {
        let kind = self.types.iter().find(|known| &*known.name == kind).unwrap();
        node(name).of_pool("default").of_type(kind, ZONE_A, capacity_type)
    }

    fn node(self, name: &str, kind: &str) -> Self {
        let built = self.of_type(name, kind, ON_DEMAND);
        self.add(built, |_| {})
    }

    fn spot(self, name: &str, kind: &str) -> Self {
        let built = self.of_type(name, kind, SPOT);
        self.add(built, |_| {})
    }

    fn add(mut self, node: NodeBuilder, facts: impl FnOnce(&mut NodeFacts)) -> Self {
        self.world = self.world.node(node);
        let mut of_node = NodeFacts::default();
        facts(&mut of_node);
        self.nodes.push(of_node);
        self
    }

    fn pod(mut self, pod: PodBuilder) -> Self {
        self.world = self.world.pod(pod);
        self
    }

    fn propose(&self) -> Proposal {
        let world: &World = &self.world.0;
        let snapshot = Snapshot { world, nodes: self.nodes.clone(), pools: self.pools.clone() };
        propose(&snapshot, &self.policy)
    }

    /// One line per command: method, nodes and the types bought.
    fn commands(&self) -> Vec<String> {
        self.propose().commands.iter().map(shown).collect()
    }

    /// Why a node stays.
    fn why(&self, name: &str) -> String {
        let proposal = self.propose();
        let node = proposal.nodes.iter().find(|node| &*node.name == name).unwrap();
        let reasons: Vec<String> = node.reasons.iter().map(ToString::to_string).collect();
        reasons.join("; ")
    }
}

fn shown(command: &Command) -> String {
    let mut nodes: Vec<&str> = command.candidates.iter().map(|candidate| &*candidate.name).collect();
    nodes.sort_unstable();
    let bought: Vec<String> = command
        .replacements
        .iter()
        .map(|new| format!("{} {}", new.node.launch.instance_type, new.node.launch.capacity_type))
        .collect();
    format!("{} {} -> {}", command.method.label(), nodes.join(","), bought.join(","))
}

fn budget(nodes: &str) -> Budget {
    Budget::always(nodes)
}
