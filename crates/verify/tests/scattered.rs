//! A fleet that loses half of its pods beside a scheduler that knows no plan: whoever has to move goes to the emptiest node,
//! and what does not fit then has to be bought. How soon it comes to rest, and at what price.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::labels::ON_DEMAND;
use karpenter_core::pod::Phase;
use karpenter_core::resources::{CPU, MEMORY};
use karpenter_core::{InstanceType, MicroUsd, Node, Resources, World};
use karpenter_disruption::{Budget, Memory, NodeFacts, Policy, PoolFacts, Snapshot, propose_again};
use karpenter_testkit::dice::Dice;
use karpenter_testkit::fake::{self, sold};
use karpenter_testkit::{launched, pod, pool, world};

/// 2 to 16 CPUs with 2, 4 or 8Gi for each.
fn types() -> Vec<InstanceType> {
    let mut types = Vec::new();
    for (name, memory, price) in [("c", 2, 38_250), ("m", 4, 43_000), ("r", 8, 56_500)] {
        for cpu in [2, 4, 8, 16] {
            let kind = fake::instance_type(&format!("{name}-{cpu}")).cpu(&format!("{}m", cpu * 1000 - 80));
            let kind = kind.memory(&format!("{}Mi", cpu * memory * 1024 - 900)).pods("58");
            types.push(kind.offerings(vec![sold(fake::ZONES[0], ON_DEMAND).at(price * cpu)]).build());
        }
    }
    types
}

fn price(world: &World, node: &Node) -> MicroUsd {
    let name = node.labels.get(karpenter_core::labels::INSTANCE_TYPE).unwrap();
    let kind = world.pools[0].instance_types.iter().find(|kind| *kind.name == **name).unwrap();
    kind.offerings[0].price
}

/// Pods that wait go to the emptiest node that has room, in the order of the dice.
fn scatter(world: &mut World, dice: &mut Dice) {
    let mut free: Vec<Resources> = world.nodes.iter().map(|node| node.allocatable.clone()).collect();
    for pod in &world.pods {
        if let Some(at) = world.nodes.iter().position(|node| pod.node.as_ref() == Some(&node.name)) {
            free[at] = free[at].minus(&pod.shape.requests);
        }
    }
    let mut waiting: Vec<usize> = (0..world.pods.len()).filter(|pod| world.pods[*pod].node.is_none()).collect();
    while !waiting.is_empty() {
        let pod = waiting.swap_remove(dice.below(waiting.len()));
        let requests = world.pods[pod].shape.requests.clone();
        let alike = |at: &usize| {
            let there = world.pods.iter().filter(|other| other.node.as_ref() == Some(&world.nodes[*at].name));
            there.filter(|other| other.shape.requests == requests).count() as f64 + 2.0
        };
        let fits: Vec<usize> = (0..free.len()).filter(|at| requests.fits(&free[*at])).collect();
        let (least, most) = fits.iter().map(alike).fold((f64::MAX, 0.0), |(a, b), one| (one.min(a), one.max(b)));
        let score = |at: &usize| {
            let left = free[*at].minus(&requests);
            let share = |name| left.get(name).nanos() as f64 / world.nodes[*at].allocatable.get(name).nanos() as f64;
            let (cpu, memory) = (share(CPU), share(MEMORY));
            // LeastAllocated, BalancedAllocation, and twice the spread over hosts.
            let spread = (most + least - alike(at)) / most;
            (cpu + memory) / 2.0 + 1.0 - (cpu - memory).abs() / 2.0 + 2.0 * spread
        };
        let best = fits.into_iter().max_by(|a, b| score(a).total_cmp(&score(b)));
        if let Some(at) = best {
            free[at] = free[at].minus(&requests);
            let name = world.nodes[at].name.clone();
            let pod = &mut world.pods[pod];
            (pod.node, pod.phase, pod.scheduled_reason) = (Some(name), Phase::Running, None);
        }
    }
}

/// Buys what those who still wait need; answers how many nodes.
fn buy(world: &mut World, next: &mut usize) -> usize {
    let plan = karpenter_scheduling::solve(world);
    for new in &plan.new_nodes {
        let node = launched(world, new, &format!("node-{next:05}"));
        *next += 1;
        for pod in &new.pods {
            let pod = &mut world.pods[*pod];
            (pod.node, pod.phase, pod.scheduled_reason) = (Some(node.name.clone()), Phase::Running, None);
        }
        world.nodes.push(node);
    }
    plan.new_nodes.len()
}

#[derive(Debug, PartialEq)]
struct Rest {
    passes: usize,
    /// Nodes that were bought for pods that found no place.
    bought: usize,
    moved: usize,
    /// In per mille of a fresh plan.
    price: u64,
}

fn halve(seed: u64, as_scheduled: bool) -> Rest {
    let shapes = [("1", "1Gi"), ("500m", "2Gi"), ("1", "8Gi"), ("2", "4Gi"), ("250m", "256Mi")];
    let shape = |at: usize| shapes[at / 200];
    let pods = (0..1000).map(|at| pod(&format!("pod-{at:04}")).cpu(shape(at).0).memory(shape(at).1).build());
    let mut world = world().pool(pool("default").types(types())).pods(pods).build();
    let (mut next, mut dice) = (0, Dice::new(seed));
    buy(&mut world, &mut next);
    world.pods.retain(|_| dice.below(2) == 0);
    let fresh = {
        let mut fresh = world.clone();
        fresh.nodes.clear();
        for pod in &mut fresh.pods {
            (pod.node, pod.phase, pod.scheduled_reason) = (None, Phase::Pending, Some("Unschedulable".into()));
        }
        karpenter_scheduling::solve(&fresh).price()
    };
    let facts = PoolFacts {
        budgets: vec![Budget::always("100%")],
        instance_types: world.pools[0].instance_types.clone(),
        ..PoolFacts::default()
    };
    let policy = Policy { as_scheduled, ..Policy::default() };
    let mut rest = Rest { passes: 0, bought: 0, moved: 0, price: 0 };
    let mut memory = Memory::default();
    for _ in 0..100 {
        let nodes = vec![NodeFacts::default(); world.nodes.len()];
        let pools = BTreeMap::from([(Arc::from("default"), facts.clone())]);
        let snapshot = Snapshot { world: &world, nodes, pools };
        let commands = propose_again(&mut memory, &snapshot, &policy).commands;
        if commands.is_empty() {
            break;
        }
        rest.passes += 1;
        let names: Vec<Arc<str>> =
            commands.iter().flat_map(|command| &command.candidates).map(|one| one.name.clone()).collect();
        rest.moved += commands.iter().map(|command| command.moves.len()).sum::<usize>();
        for new in commands.iter().flat_map(|command| &command.replacements) {
            let node = launched(&world, &new.node, &format!("node-{next:05}"));
            world.nodes.push(node);
            next += 1;
        }
        world.nodes.retain(|node| !names.contains(&node.name));
        for pod in &mut world.pods {
            if pod.node.as_ref().is_some_and(|node| names.contains(node)) {
                (pod.node, pod.phase, pod.scheduled_reason) = (None, Phase::Pending, Some("Unschedulable".into()));
            }
        }
        scatter(&mut world, &mut dice);
        rest.bought += buy(&mut world, &mut next);
    }
    let now: MicroUsd = world.nodes.iter().map(|node| price(&world, node)).sum();
    rest.price = now.0 * 1000 / fresh.0;
    rest
}

#[test]
fn what_a_scheduler_that_scatters_finds_room_for_comes_to_rest_sooner_for_the_same_price() {
    let all = |as_scheduled| (0..10).map(move |seed| halve(seed, as_scheduled)).collect::<Vec<_>>();
    let (packed, scattered) = (all(false), all(true));
    println!("packed {packed:#?}\nscattered {scattered:#?}");
    let sum = |rests: &[Rest], of: fn(&Rest) -> usize| rests.iter().map(of).sum::<usize>();
    assert!(sum(&scattered, |rest| rest.bought) * 3 <= sum(&packed, |rest| rest.bought));
    assert!(sum(&scattered, |rest| rest.moved) <= sum(&packed, |rest| rest.moved));
    assert!(sum(&scattered, |rest| rest.passes) * 3 <= sum(&packed, |rest| rest.passes) * 2);
    let prices: Vec<u64> = scattered.iter().map(|rest| rest.price).collect();
    assert!(prices.iter().sum::<u64>() <= 1040 * 10 && prices.iter().all(|price| *price <= 1070), "{prices:?}");
}
