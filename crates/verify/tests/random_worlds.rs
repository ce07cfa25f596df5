//! Whatever the world, the solver's plan is sound and does not depend on the order in which things are listed.
//!
//! A failure names its seed and comes with the smallest world that still fails. `WORLDS_FROM` starts at another seed.

use std::collections::BTreeSet;

use karpenter_core::World;
use karpenter_core::plan::Plan;
use karpenter_scheduling::solve;
use karpenter_testkit::random::{Recipe, Size, recipes};
use karpenter_testkit::world::reordered;
use karpenter_verify::verify;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

fn from() -> u64 {
    let given = std::env::var("WORLDS_FROM").ok();
    given.map_or(0, |text| text.parse().expect("WORLDS_FROM is a number"))
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: 1, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn for_each(size: Size, cases: u64, property: fn(&Recipe) -> Result<(), TestCaseError>) {
    let seeds = from()..from() + cases;
    println!("{size:?} worlds, seeds {seeds:?}");
    for seed in seeds {
        if let Err(failure) = runner(seed).run(&recipes(size), |recipe| property(&recipe)) {
            panic!("{size:?} world, seed {seed}: {failure}");
        }
    }
}

fn is_sound(recipe: &Recipe) -> Result<(), TestCaseError> {
    let world = recipe.world();
    let found = verify(&world, &solve(&world));
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    prop_assert!(found.is_empty(), "{found:#?}");
    Ok(())
}

#[test]
fn plans_for_small_worlds_are_sound() {
    for_each(Size::Small, 1500, is_sound);
}

#[test]
fn plans_for_medium_worlds_are_sound() {
    for_each(Size::Medium, 500, is_sound);
}

/// A plan by names instead of positions.
fn by_name(world: &World, plan: &Plan) -> BTreeSet<String> {
    let names = |pods: &[usize]| {
        let names: BTreeSet<String> = pods.iter().map(|pod| world.pods[*pod].key()).collect();
        format!("{names:?}")
    };
    let new = plan.new_nodes.iter().map(|node| {
        let pool = &world.pools[node.pool];
        let types: Vec<&str> = node.instance_types.iter().map(|kind| &*pool.instance_types[*kind].name).collect();
        format!("{} {:?} {types:?} {} {}", pool.name, node.launch, node.requirements, names(&node.pods))
    });
    let existing = plan.existing.iter();
    let existing = existing.map(|(node, pods)| format!("{} {}", world.nodes[*node].name, names(pods)));
    let left = plan.left_over.iter().map(|left| format!("left over {}", names(&[left.pod])));
    let ignored = plan.ignored.iter().map(|left| format!("ignored {}", names(&[left.pod])));
    new.chain(existing).chain(left).chain(ignored).collect()
}

#[test]
fn plans_do_not_depend_on_the_order_of_the_input() {
    for_each(Size::Medium, 200, |recipe| {
        let world = recipe.world();
        let shuffled = reordered(&world, 7);
        prop_assert_eq!(by_name(&world, &solve(&world)), by_name(&shuffled, &solve(&shuffled)));
        Ok(())
    });
}

/// Worlds in which nothing or everything can be placed would prove little.
#[test]
fn most_pods_of_random_worlds_can_be_placed() {
    let (mut placed, mut left) = (0, 0);
    for seed in 0..300 {
        let tree = recipes(Size::Medium).new_tree(&mut runner(seed)).expect("nothing is filtered out");
        let plan = solve(&tree.current().world());
        let new = plan.new_nodes.iter().map(|node| node.pods.len()).sum::<usize>();
        placed += new + plan.existing.values().map(Vec::len).sum::<usize>();
        left += plan.left_over.len();
    }
    let percent = 100 * placed / (placed + left);
    assert!((70..=95).contains(&percent), "{percent} % of the pods are placed");
}
