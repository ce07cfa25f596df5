//! A cluster that carries out what is proposed for it: every replacement comes as planned, every pod goes where it was
//! expected.

#![allow(dead_code, unreachable_pub, reason = "each test that shares this uses a part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::labels::ON_DEMAND;
use karpenter_core::pod::Phase;
use karpenter_core::{InstanceType, MicroUsd, Node, World};
use karpenter_disruption::{Begun, Command, NodeFacts, PoolFacts, Snapshot, Target};
use karpenter_testkit::dice::Dice;
use karpenter_testkit::fake::{self, sold};
use karpenter_testkit::{benchmark, launched, pod, pool, world};

/// 2 to 32 CPUs with 2, 4 or 8Gi for each.
pub fn families() -> Vec<InstanceType> {
    let mut types = Vec::new();
    for (name, memory, price) in [("c", 2, 38_250), ("m", 4, 43_000), ("r", 8, 56_500)] {
        for cpu in [2, 4, 8, 16, 32] {
            let kind = fake::instance_type(&format!("{name}-{cpu}")).cpu(&format!("{}m", cpu * 1000 - 80));
            let kind = kind.memory(&format!("{}Mi", cpu * memory * 1024 - 900)).pods("58");
            types.push(kind.offerings(vec![sold(fake::ZONES[0], ON_DEMAND).at(price * cpu)]).build());
        }
    }
    types
}

/// One pool and pods of five shapes, a few Deployments of each.
pub fn deployments(pods: usize) -> World {
    let shapes = [("1", "1Gi"), ("500m", "2Gi"), ("1", "8Gi"), ("2", "4Gi"), ("250m", "256Mi")];
    let shape = |at: usize| shapes[at * shapes.len() / pods];
    let pods = (0..pods).map(|at| pod(&format!("pod-{at:04}")).cpu(shape(at).0).memory(shape(at).1).build());
    world().pool(pool("default").types(families())).pods(pods).build()
}

/// Upstream's benchmark pods, with spreads and affinities.
pub fn mixed(pods: usize, seed: u64) -> World {
    benchmark::mixed_world(pods, fake::incremental(20), seed)
}

/// The world with what a plan buys for it, of which then only some pods are left.
pub fn shrunk(mut world: World, left: u64, seed: u64) -> World {
    let plan = karpenter_scheduling::solve(&world);
    for (number, new) in plan.new_nodes.iter().enumerate() {
        let node = launched(&world, new, &format!("node-{number:05}"));
        for pod in &new.pods {
            let pod = &mut world.pods[*pod];
            (pod.node, pod.phase, pod.scheduled_reason) = (Some(node.name.clone()), Phase::Running, None);
        }
        world.nodes.push(node);
    }
    let mut dice = Dice::new(seed);
    world.pods.retain(|pod| pod.node.is_some() && dice.below(100) < left as usize);
    world
}

/// As if all nodes were quiet and nobody held them.
pub fn snapshot<'w>(world: &'w World, of_pool: impl Fn(usize) -> PoolFacts) -> Snapshot<'w> {
    let nodes = vec![NodeFacts::default(); world.nodes.len()];
    let facts = |(at, pool): (usize, &karpenter_core::Pool)| {
        let types: Arc<[Arc<InstanceType>]> = pool.instance_types.clone();
        (pool.name.clone(), PoolFacts { instance_types: types, ..of_pool(at) })
    };
    let pools: BTreeMap<Arc<str>, PoolFacts> = world.pools.iter().enumerate().map(facts).collect();
    Snapshot { world, nodes, pools }
}

/// Carries out all commands of a pass; `next` numbers the nodes that are bought.
pub fn carry_out(world: &mut World, commands: &[Command], next: &mut usize) {
    let names: Vec<Arc<str>> = world.nodes.iter().map(|node| node.name.clone()).collect();
    let mut gone: Vec<Arc<str>> = Vec::new();
    for command in commands {
        let mut bought: Vec<Node> = Vec::new();
        for new in &command.replacements {
            bought.push(launched(world, &new.node, &format!("new-{next:05}")));
            *next += 1;
        }
        for moved in &command.moves {
            let pod = &mut world.pods[moved.pod];
            (pod.phase, pod.scheduled_reason) = (Phase::Running, None);
            pod.node = Some(match moved.to {
                Target::Node(node) => names[node].clone(),
                Target::Replacement(new) => bought[new].name.clone(),
            });
        }
        gone.extend(command.candidates.iter().map(|candidate| candidate.name.clone()));
        world.nodes.extend(bought);
    }
    world.nodes.retain(|node| !gone.contains(&node.name));
}

/// What the controller notes when it carries out a command that pays only later.
pub fn begun(snapshot: &Snapshot<'_>, commands: &[Command]) -> Option<Begun> {
    let begun = commands.iter().find(|command| command.savings < 0)?;
    let promised = MicroUsd(begun.savings_in_all().unsigned_abs());
    Some(Begun { at: snapshot.world.now, price: price(snapshot), bought: begun.price_after(), promised })
}

/// What the fleet costs.
pub fn price(snapshot: &Snapshot<'_>) -> MicroUsd {
    let mut cluster = karpenter_disruption::candidate::Cluster::new(snapshot);
    let nodes = 0..snapshot.world.nodes.len();
    let class = karpenter_disruption::candidate::Class::Graceful;
    nodes.filter_map(|node| cluster.candidate(node, class).ok()).map(|candidate| candidate.price).sum()
}
