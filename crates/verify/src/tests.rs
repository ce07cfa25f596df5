//! For each rule a plan that breaks it and nothing else, and one close by that does not.

mod bookkeeping;
mod draft;
mod existing;
mod fresh;
mod left_over;
mod matching;
mod pools;
mod topology;

use karpenter_core::World;
use karpenter_core::plan::Plan;
use karpenter_testkit::fake::{instance_type, sold};
use karpenter_testkit::{PoolBuilder, pool};

use crate::{Violation, verify};
use draft::draft;

/// Two types in three zones, spot in two of them, spot no cheaper: `small` has 2 CPUs at 100, `large` 8 at 400.
fn catalogue() -> PoolBuilder {
    let small = instance_type("small").cpu("2").memory("4Gi").pods("10").price(100);
    let large = instance_type("large").cpu("8").memory("32Gi").pods("20").price(400);
    pool("default").types(vec![small.build(), large.build()])
}

/// As [`catalogue`], with one reserved unit of `small` in the first zone.
fn reserved_catalogue(remaining: u32) -> PoolBuilder {
    let offerings =
        vec![sold("test-zone-1", "reserved").reserved("cr-1", remaining).at(0), sold("test-zone-1", "on-demand")];
    let small = instance_type("small").cpu("2").memory("4Gi").pods("10").price(100).offerings(offerings);
    pool("default").types(vec![small.build()])
}

fn assert_sound(world: &World, plan: &Plan) {
    let found: Vec<String> = verify(world, plan).iter().map(Violation::to_string).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// That the plan breaks this rule and no other.
#[track_caller]
fn assert_only(world: &World, plan: &Plan, expected: Violation) {
    assert_eq!(verify(world, plan), [expected]);
}
