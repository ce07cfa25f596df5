//! Random clusters, consolidated until nothing moves: every pass is within the rules, every pass pays less, and there is a
//! last one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_core::world::DisruptionBudget;
use karpenter_core::{InstanceType, MicroUsd, Node, World};
use karpenter_disruption::{
    Budget, Command, ConsolidationPolicy, NodeFacts, Policy, PoolFacts, Snapshot, Target, propose,
};
use karpenter_testkit::cluster::{Size, cluster};
use karpenter_testkit::dice::Dice;
use karpenter_testkit::express::selecting;
use karpenter_testkit::{fake, launched};
use karpenter_verify::verify_commands;

fn types() -> Arc<[Arc<InstanceType>]> {
    fake::incremental(10).into_iter().map(Arc::new).collect()
}

fn facts(world: &World, rules: impl Fn(usize) -> PoolFacts) -> BTreeMap<Arc<str>, PoolFacts> {
    world.pools.iter().enumerate().map(|(at, pool)| (pool.name.clone(), rules(at))).collect()
}

fn everything(types: &Arc<[Arc<InstanceType>]>) -> PoolFacts {
    PoolFacts { budgets: vec![Budget::always("100%")], instance_types: types.clone(), ..PoolFacts::default() }
}

/// The cluster once a command was carried out and every pod went where it was expected.
fn carry_out(world: &mut World, command: &Command, next: &mut usize) {
    let gone: Vec<Arc<str>> = command.candidates.iter().map(|candidate| candidate.name.clone()).collect();
    let homes: Vec<Arc<str>> = world.nodes.iter().map(|node| node.name.clone()).collect();
    let bought = command.replacements.iter().map(|new| {
        *next += 1;
        launched(world, &new.node, &format!("new-{next:04}"))
    });
    let bought: Vec<Node> = bought.collect();
    for moved in &command.moves {
        world.pods[moved.pod].node = Some(match moved.to {
            Target::Node(node) => homes[node].clone(),
            Target::Replacement(new) => bought[new].name.clone(),
        });
    }
    world.nodes.extend(bought);
    world.nodes.retain(|node| !gone.contains(&node.name));
}

fn price(snapshot: &Snapshot<'_>) -> MicroUsd {
    let proposal = propose(snapshot, &Policy { paused: true, ..Policy::default() });
    proposal.nodes.iter().map(|node| node.price).sum()
}

#[test]
fn two_hundred_clusters_come_to_rest_and_pay_less_with_every_pass() {
    // covers: DIS-CONSOL-02
    let types = types();
    for seed in 0..200 {
        let size = Size { nodes: 6 + (seed as usize % 11), pods: 40, pools: 2, full: 60 };
        let mut world = cluster(size, &types, &fake::ZONES, seed);
        let mut next = 0;
        let mut moved: BTreeMap<usize, u32> = BTreeMap::new();
        for pass in 0.. {
            assert!(pass < 20, "seed {seed} does not come to rest");
            let nodes = vec![NodeFacts::default(); world.nodes.len()];
            let before = world.clone();
            let snapshot = Snapshot { world: &before, nodes, pools: facts(&before, |_| everything(&types)) };
            let commands = propose(&snapshot, &Policy::default()).commands;
            let faults = verify_commands(&snapshot, &Policy::default(), &commands);
            assert!(faults.is_empty(), "seed {seed}, pass {pass}: {faults:?}");
            if commands.is_empty() {
                break;
            }
            // Positions are those of the world the commands were made from, so they are carried out on it, last first.
            let paid = price(&snapshot);
            for moves in commands.iter().map(|command| &command.moves) {
                moves.iter().for_each(|one| *moved.entry(one.pod).or_default() += 1);
            }
            let mut after = before.clone();
            for command in &commands {
                let mut step = World { nodes: before.nodes.clone(), ..after.clone() };
                carry_out(&mut step, command, &mut next);
                let bought: Vec<Node> =
                    step.nodes.iter().filter(|n| before.nodes.iter().all(|old| old.name != n.name)).cloned().collect();
                let gone: Vec<Arc<str>> = command.candidates.iter().map(|c| c.name.clone()).collect();
                after.nodes.retain(|node| !gone.contains(&node.name));
                after.nodes.extend(bought);
                after.pods = step.pods;
            }
            world = after;
            let nodes = vec![NodeFacts::default(); world.nodes.len()];
            let snapshot = Snapshot { world: &world, nodes, pools: facts(&world, |_| everything(&types)) };
            assert!(price(&snapshot) < paid, "seed {seed}, pass {pass}");
        }
    }
}

#[test]
fn rules_drawn_at_random_are_kept() {
    // covers: DIS-BUDGET-12, DIS-CAND-04
    let types = types();
    for seed in 0..150 {
        let mut dice = Dice::new(seed + 1_000);
        let size = Size { nodes: 12, pods: 60, pools: 3, full: 60 };
        let mut world = cluster(size, &types, &fake::ZONES, seed);
        for pod in &mut world.pods {
            if dice.below(20) == 0 {
                let value = *dice.pick(&["true", "10m", "48h"]);
                let mut shape = (*pod.shape).clone();
                shape.do_not_disrupt = Some(value.into());
                pod.shape = Arc::new(shape);
                pod.started = Some("2026-01-01T00:00:00Z".parse().unwrap());
            }
        }
        for at in 0..8 {
            let app = format!("app-{:05}", dice.below(12));
            let allowed = dice.below(3) as i32 - 1;
            world.disruption_budgets.push(DisruptionBudget {
                namespace: "default".into(),
                name: format!("budget-{at}").into(),
                selector: Some(selecting(&[("app", &app)])),
                never_allows: allowed < 0,
                disruptions_allowed: allowed.max(0),
                always_allows_unready: false,
            });
        }
        let mut rules = Vec::new();
        for _ in 0..3 {
            let mut pool = everything(&types);
            pool.policy = *dice.pick(&[
                ConsolidationPolicy::WhenEmpty,
                ConsolidationPolicy::WhenEmptyOrUnderutilized,
                ConsolidationPolicy::Balanced,
            ]);
            pool.budgets = (0..dice.below(4))
                .map(|_| {
                    let nodes = (*dice.pick(&["0", "1", "2", "10%", "50%", "100%"])).to_owned();
                    let reasons = (dice.below(2) == 0)
                        .then(|| vec![(*dice.pick(&["Empty", "Underutilized", "Drifted"])).to_owned()]);
                    let (schedule, hours) = *dice.pick(&[("@daily", 1), ("0 20 * * *", 8), ("30 9 * * mon-fri", 1)]);
                    let scheduled = dice.below(3) == 0;
                    let duration = scheduled.then(|| Duration::from_secs(hours * 3600));
                    Budget { reasons, nodes, schedule: scheduled.then(|| schedule.to_owned()), duration }
                })
                .collect();
            rules.push(pool);
        }
        let nodes = world.nodes.iter().map(|_| NodeFacts {
            nominated: dice.below(15) == 0,
            do_not_disrupt: dice.below(15) == 0,
            consolidatable: dice.below(8) != 0,
            ready: dice.below(12) != 0,
            ..NodeFacts::default()
        });
        let nodes = nodes.collect();
        let snapshot = Snapshot { world: &world, nodes, pools: facts(&world, |at| rules[at].clone()) };
        let proposal = propose(&snapshot, &Policy::default());
        let faults = verify_commands(&snapshot, &Policy::default(), &proposal.commands);
        assert!(faults.is_empty(), "seed {seed}: {faults:?}");
        for node in &proposal.nodes {
            let goes = node.decision != karpenter_disruption::Decision::Keep;
            assert_eq!(goes, node.reasons.is_empty(), "seed {seed}: {node:?}");
        }
    }
}
