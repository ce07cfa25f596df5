//! Whatever the world, the solver's plan is sound and does not depend on the order in which things are listed.

use karpenter_core::World;
use karpenter_scheduling::solve;
use karpenter_testkit::random::{Recipe, Size, recipes};
use karpenter_verify::verify;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn judge(recipe: &Recipe) -> Result<(), TestCaseError> {
    let world: World = recipe.world();
    let plan = solve(&world);
    let found: Vec<String> = verify(&world, &plan).iter().map(ToString::to_string).collect();
    prop_assert!(found.is_empty(), "{found:#?}");
    Ok(())
}

fn run(size: Size, cases: u32) {
    let config = Config { cases, ..Config::default() };
    let mut runner = TestRunner::new(config);
    if let Err(failure) = runner.run(&recipes(size), |recipe| judge(&recipe)) {
        panic!("{failure}");
    }
}

#[test]
fn plans_for_small_worlds_are_sound() {
    run(Size::Small, 1500);
}

#[test]
fn plans_for_medium_worlds_are_sound() {
    run(Size::Medium, 500);
}
