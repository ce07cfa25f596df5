//! Consolidation under budgets: what is decided is carried out, and the end is the one that unlimited budgets reach.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

#[path = "budgets/living.rs"]
mod living;

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::pod::Phase;
use karpenter_core::world::DisruptionBudget;
use karpenter_core::{InstanceType, MicroUsd, World};
use karpenter_disruption::validation::{Refusal, Validation};
use karpenter_disruption::{
    Budget, Command, ConsolidationPolicy, Drifted, Memory, Method, NodeFacts, Policy, PoolFacts, Refused, propose_again,
};
use karpenter_testkit::cluster::{Size, cluster};
use karpenter_testkit::dice::Dice;
use karpenter_testkit::fake;
use karpenter_verify::verify_commands;

/// So many seeds in a test; a longer run sets `SEEDS=from..to`.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("SEEDS") else { return 0..usual };
    let (from, to) = asked.split_once("..").expect("SEEDS is from..to");
    from.parse().unwrap()..to.parse().unwrap()
}

/// A half-empty cluster: random ones, fleets that lost most of their pods, with and without constraints.
fn world_of(seed: u64) -> World {
    let types: Arc<[Arc<InstanceType>]> = fake::incremental(10).into_iter().map(Arc::new).collect();
    let size = Size { nodes: 6 + (seed as usize / 4 % 24), pods: 40 + seed as usize % 50, pools: 2, full: 60 };
    match seed % 4 {
        0 => cluster(size, &types, &fake::ZONES, seed),
        1 => living::shrunk(living::mixed(60 + seed as usize % 120, seed), 10 + seed % 60, seed),
        2 => living::shrunk(living::deployments(50 + 5 * (seed as usize % 60)), 8 + seed % 50, seed),
        _ => {
            let full = Size { full: 30 + seed as u32 % 60, pools: 1 + seed as usize % 3, ..size };
            cluster(full, &types, &fake::ZONES, seed)
        }
    }
}

#[test]
fn a_command_holds_on_the_snapshot_that_it_was_decided_on() {
    for seed in seeds(120) {
        let mut dice = Dice::new(seed);
        let mut world = world_of(seed);
        let (mut next, mut memory) = (0, Memory::default());
        let budgets: Vec<&str> = world.pools.iter().map(|_| *dice.pick(&["1", "10%", "20%", "50%", "100%"])).collect();
        let policies = [
            ConsolidationPolicy::WhenEmptyOrUnderutilized,
            ConsolidationPolicy::WhenEmptyOrUnderutilized,
            ConsolidationPolicy::Balanced,
            ConsolidationPolicy::WhenEmpty,
        ];
        let policies: Vec<ConsolidationPolicy> = world.pools.iter().map(|_| *dice.pick(&policies)).collect();
        let policy = Policy { as_scheduled: dice.below(2) == 0, ..Policy::default() };
        for pass in 0..6 {
            let before = world.clone();
            let mut snapshot = living::snapshot(&before, |at| PoolFacts {
                budgets: vec![Budget::always(budgets[at])],
                policy: policies[at],
                ..PoolFacts::default()
            });
            for facts in &mut snapshot.nodes {
                let quiet_from = (dice.below(12) == 0).then(|| before.now + std::time::Duration::from_secs(9));
                let consolidatable = quiet_from.is_none();
                let (nominated, ready) = (dice.below(20) == 0, dice.below(20) != 0);
                *facts = NodeFacts { quiet_from, consolidatable, nominated, ready, ..NodeFacts::default() };
            }
            let commands = propose_again(&mut memory, &snapshot, &policy).commands;
            let faults = verify_commands(&snapshot, &policy, &commands);
            assert!(faults.is_empty(), "seed {seed}, pass {pass}: {faults:?}");
            let mut validation = Validation::new(&snapshot, &policy, &commands);
            for command in &commands {
                let validated = validation.validate(command);
                assert_eq!(validated.refused, None, "seed {seed}, pass {pass}: {command:?}");
                assert_eq!(validated.held.len(), command.candidates.len(), "seed {seed}, pass {pass}");
            }
            // Some are carried out, others are too late.
            let done: Vec<_> = commands.into_iter().filter(|_| dice.below(4) != 0).collect();
            living::carry_out(&mut world, &done, &mut next);
        }
    }
}

fn one_of(dice: &mut Dice, texts: &[&'static str]) -> &'static str {
    let picked: &&str = dice.pick(texts);
    picked
}

/// Whatever may be set, and whatever may be the matter with nodes and pods.
fn policy_of(dice: &mut Dice) -> Policy {
    Policy {
        as_scheduled: dice.below(2) == 0,
        spot_to_spot: dice.below(2) == 0,
        ahead: *dice.pick(&[None, Some(1), Some(3)]),
        threshold: *dice.pick(&[None, None, Some(MicroUsd(2_000)), Some(MicroUsd(20_000))]),
        threads: 1 + dice.below(2),
        ..Policy::default()
    }
}

fn facts_of(dice: &mut Dice, now: Timestamp) -> NodeFacts {
    let quiet_from = (dice.below(12) == 0).then(|| now + std::time::Duration::from_secs(9));
    NodeFacts {
        quiet_from,
        consolidatable: quiet_from.is_none(),
        nominated: dice.below(20) == 0,
        ready: dice.below(20) != 0,
        do_not_disrupt: dice.below(25) == 0,
        holds_buffer: dice.below(15) == 0,
        in_queue: dice.below(25) == 0,
        instance_terminating: dice.below(40) == 0,
        drifted: (dice.below(6) == 0).then(|| Drifted { reason: "NodePoolDrifted".into(), since: now }),
        ..NodeFacts::default()
    }
}

/// Some pods wait, some may not be moved, some nodes are on their way out.
fn unsettle(world: &mut World, dice: &mut Dice) {
    for pod in &mut world.pods {
        match dice.below(25) {
            0 => (pod.node, pod.phase, pod.scheduled_reason) = (None, Phase::Pending, Some("Unschedulable".into())),
            1 => Arc::make_mut(&mut pod.shape).do_not_disrupt = Some("true".into()),
            _ => {}
        }
    }
    world.nodes.iter_mut().for_each(|node| node.deleting = dice.below(20) == 0);
    let budget = DisruptionBudget {
        namespace: "default".into(),
        name: "some".into(),
        selector: Some(karpenter_testkit::express::selecting(&[("app", &format!("app-{:05}", dice.below(8)))])),
        never_allows: false,
        disruptions_allowed: dice.below(3) as i32,
        always_allows_unready: false,
    };
    world.disruption_budgets = vec![budget];
}

#[test]
fn a_command_holds_whatever_is_set_and_whatever_is_the_matter() {
    // covers: DIS-VALID-02, DIS-VALID-04
    let mut seen = std::collections::BTreeMap::new();
    for seed in seeds(240) {
        let mut dice = Dice::new(seed + 7_000);
        let mut world = world_of(seed);
        unsettle(&mut world, &mut dice);
        let mut rules = Vec::new();
        for _ in &world.pools {
            let mut budgets = vec![Budget::always(one_of(&mut dice, &["1", "2", "10%", "20%", "100%"]))];
            if dice.below(3) == 0 {
                let reasons = Some(vec!["Underutilized".to_owned()]);
                budgets.push(Budget { reasons, ..Budget::always(one_of(&mut dice, &["0", "1", "50%"])) });
            }
            let when_underutilized = ConsolidationPolicy::WhenEmptyOrUnderutilized;
            let policy = *dice.pick(&[when_underutilized, when_underutilized, ConsolidationPolicy::Balanced]);
            rules.push(PoolFacts { budgets, policy, ..PoolFacts::default() });
        }
        let mut policy = policy_of(&mut dice);
        let (mut next, mut memory) = (0, Memory::default());
        for pass in 0..5 {
            let before = world.clone();
            let mut snapshot = living::snapshot(&before, |at| rules[at].clone());
            snapshot.nodes.iter_mut().for_each(|facts| *facts = facts_of(&mut dice, before.now));
            let commands = propose_again(&mut memory, &snapshot, &policy).commands;
            let moves = |command: &&Command| matches!(command.method, Method::Multi | Method::Single);
            let again = commands.iter().filter(moves).find(|command| policy.refused.contains(&Refused::of(command)));
            assert_eq!(again, None, "seed {seed}, pass {pass}: it was refused");
            let mut validation = Validation::new(&snapshot, &policy, &commands);
            for command in &commands {
                let validated = validation.validate(command);
                // What was decided in advance waits for its budget, and for nothing else.
                let waits = validated.refused == Some(Refusal::Budget) && command.ahead;
                let shown = format!("seed {seed}, pass {pass}: {validated:?} of {command:?}");
                assert!(validated.refused.is_none() || waits, "{shown}");
                assert_eq!(validated.held.len() + validated.over_budget.len(), command.candidates.len(), "{shown}");
                *seen.entry((command.method, command.buys(), command.ahead)).or_insert(0_usize) += 1;
            }
            // Some are carried out, one that is not may have been refused for whatever reason, others are too late.
            let (done, late): (Vec<_>, Vec<_>) = commands.into_iter().partition(|_| dice.below(4) != 0);
            policy.refused = late.iter().take(1).map(Refused::of).collect();
            living::carry_out(&mut world, &done, &mut next);
        }
    }
    println!("{seen:?}");
    let methods: std::collections::BTreeSet<Method> = seen.keys().map(|(method, ..)| *method).collect();
    assert!(methods.len() >= 4 && seen.keys().any(|(.., ahead)| *ahead), "{seen:?}");
}

struct Rest {
    passes: usize,
    price: u64,
}

/// Until nothing more is proposed.
fn rest(mut world: World, budget: &str, policy: &Policy) -> Rest {
    let mut policy = policy.clone();
    let (mut next, mut memory) = (0, Memory::default());
    for passes in 0.. {
        let before = world.clone();
        let snapshot =
            living::snapshot(&before, |_| PoolFacts { budgets: vec![Budget::always(budget)], ..PoolFacts::default() });
        let commands = propose_again(&mut memory, &snapshot, &policy).commands;
        if commands.is_empty() || passes == 400 {
            return Rest { passes, price: living::price(&snapshot).0 };
        }
        policy.begun = living::begun(&snapshot, &commands).or(policy.begun);
        living::carry_out(&mut world, &commands, &mut next);
    }
    unreachable!("the loop ends by returning")
}

/// Both ends are found by a search that does not try everything, so single clusters differ in both directions. Of 1,002 runs
/// (`SEEDS=0..334`) the mean is 1.000, 72 are above 1.05, the worst is 1.33.
#[test]
fn budgets_reach_what_no_budget_reaches() {
    let (mut ratios, mut dear) = (Vec::new(), Vec::new());
    for seed in seeds(40) {
        let world = world_of(seed);
        let policy = Policy { as_scheduled: seed % 2 == 0, ..Policy::default() };
        let free = rest(world.clone(), "100%", &policy);
        for budget in ["1", "10%", "20%"] {
            let nodes = world.nodes.len();
            let found = rest(world.clone(), budget, &policy);
            // Every node may go once, and what takes its place once more.
            assert!(found.passes <= 2 * nodes + 4, "seed {seed}, {budget}: {} passes for {nodes} nodes", found.passes);
            let ratio = found.price as f64 / free.price as f64;
            ratios.push(ratio);
            if ratio > 1.05 {
                dear.push(format!("seed {seed}, {budget}: {ratio:.3} after {} passes", found.passes));
            }
        }
    }
    let (count, worst) = (ratios.len(), ratios.iter().copied().fold(0.0, f64::max));
    let mean = ratios.iter().sum::<f64>() / count as f64;
    println!("{count} runs, mean {mean:.4}, worst {worst:.3}, {} above 1.05\n{}", dear.len(), dear.join("\n"));
    assert!(mean <= 1.01 && dear.len() * 10 <= count && worst <= 1.4, "mean {mean:.4}, worst {worst:.3}: {dear:#?}");
}
