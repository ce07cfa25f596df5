//! minValues: how many values of a key the types of a claim must keep.

use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_core::plan::{PoolReason, Reason};
use karpenter_core::settings::MinValuesPolicy;
use karpenter_testkit::express::{at_least, exists, is_in, with_min_values};
use karpenter_testkit::fake::{self, INTEGER, sold};
use karpenter_testkit::{PoolBuilder, WorldBuilder, pod, pool, world};

use crate::seen::{roomy_pool, seen};

/// `fake-it-0` to `fake-it-4` of 1 to 5 CPUs.
fn flexible(count: u32) -> PoolBuilder {
    pool("default").types(fake::incremental(5)).require(with_min_values(exists(INSTANCE_TYPE), count))
}

fn best_effort(world: WorldBuilder) -> WorldBuilder {
    world.settings(|settings| settings.min_values = MinValuesPolicy::BestEffort)
}

#[test]
fn a_claim_takes_no_pod_that_would_leave_too_few() {
    // covers: SCH-NEW-22, SCH-NEW-23
    // Each further pod rules out the smallest type that is left.
    for (count, want) in [(1, vec![5]), (2, vec![4, 1]), (3, vec![3, 2]), (5, vec![1, 1, 1, 1, 1])] {
        let seen = seen(world().pool(flexible(count)).replicas(5, pod("p").cpu("900m")));
        assert_eq!(seen.sizes(), want, "minValues {count}");
        assert!(seen.plan.new_nodes.iter().all(|node| node.instance_types.len() >= count as usize));
    }
}

#[test]
fn a_pod_only_few_types_can_hold_is_left_when_strict() {
    // covers: SCH-NEW-25
    let start = |asked: &str| world().pool(flexible(3)).pod(pod("p").cpu(asked));
    assert_eq!(seen(start("2800m")).left(), "");
    let left = seen(start("3"));
    assert_eq!(left.left(), "p");
    let short = PoolReason::MinValues { keys: vec![INSTANCE_TYPE.into()] };
    assert_eq!(left.reason("p"), &Reason::Pools(vec![(0, short)]));
    let two = world().pool(flexible(3).weight(9)).pool(roomy_pool("other")).pod(pod("p").cpu("3"));
    assert_eq!(seen(two).pool_of("p"), "other", "the next pool is tried");
}

#[test]
fn values_are_counted_as_types_declare_them() {
    // covers: SCH-NEW-22
    // The pod pins the claim to one zone; the types still declare three.
    let zones = |count| {
        let pool = pool("default").types(fake::incremental(2)).require(with_min_values(exists(ZONE), count));
        seen(world().pool(pool).pod(pod("p").zone("test-zone-1"))).left()
    };
    assert_eq!((zones(3).as_str(), zones(4).as_str()), ("", "p"));
    // Two types of one size are one value.
    let equal = |count| {
        let types = vec![fake::instance_type("a").cpu("4").build(), fake::instance_type("b").cpu("4").build()];
        seen(world().pool(pool("default").types(types).require(with_min_values(exists(INTEGER), count))).pod(pod("p")))
            .left()
    };
    assert_eq!((equal(1).as_str(), equal(2).as_str()), ("", "p"));
}

#[test]
fn the_largest_of_several_counts_and_all_keys_must_have_enough() {
    // covers: SCH-NEW-24, SCH-REQ-11
    let both = |first, second| {
        let pool = pool("default").types(fake::incremental(5));
        let pool = pool
            .require(with_min_values(at_least(INTEGER, 1), first))
            .require(with_min_values(at_least(INTEGER, 2), second));
        seen(world().pool(pool).pod(pod("p").cpu("1"))).left()
    };
    assert_eq!(
        (both(4, 1).as_str(), both(1, 4).as_str(), both(1, 5).as_str(), both(5, 1).as_str()),
        ("", "", "p", "p")
    );
    let keys = |types, capacities| {
        let pool = pool("default").types(fake::incremental(5)).require(with_min_values(exists(INSTANCE_TYPE), types));
        let pool = pool.require(with_min_values(is_in(CAPACITY_TYPE, &["spot", "on-demand"]), capacities));
        seen(world().pool(pool).pod(pod("p"))).left()
    };
    assert_eq!((keys(5, 2).as_str(), keys(6, 2).as_str(), keys(5, 3).as_str()), ("", "p", "p"));
}

#[test]
fn with_best_effort_a_new_claim_asks_for_what_there_is() {
    // covers: SCH-NEW-26, SCH-NEW-28
    let start = |asked: &str| best_effort(world().pool(flexible(4)).pod(pod("p").cpu(asked)));
    for (asked, relaxed, written) in [("1500m", false, 4), ("1900m", false, 4), ("2500m", true, 3), ("4500m", true, 1)]
    {
        let seen = seen(start(asked));
        let node = seen.node_of("p");
        assert_eq!(node.min_values_relaxed, relaxed, "{asked}");
        assert_eq!(node.requirements.get(INSTANCE_TYPE).min_values, Some(written), "{asked}");
        let list = node.written_requirements(&seen.world.pools[0]).get(INSTANCE_TYPE);
        assert_eq!((list.min_values, list.values.len()), (Some(written), node.instance_types.len()), "{asked}");
    }
}

#[test]
fn open_claims_are_not_lowered_any_further() {
    // covers: SCH-NEW-26
    // Together the pods would leave one type; lowered to three by the first, the claim refuses the second.
    let seen = seen(best_effort(world().pool(flexible(4))).pod(pod("a").cpu("2500m")).pod(pod("b").cpu("1500m")));
    assert_eq!(seen.new_nodes(), ["a", "b"]);
    assert!(seen.node_of("a").min_values_relaxed && !seen.node_of("b").min_values_relaxed);
}

#[test]
fn best_effort_lowers_before_a_lighter_pool_is_used() {
    // covers: SCH-NEW-27
    let start = world().pool(flexible(5).weight(9)).pool(roomy_pool("other"));
    assert_eq!(seen(best_effort(start.clone()).pod(pod("p").cpu("3"))).pool_of("p"), "default");
    assert_eq!(seen(start.pod(pod("p").cpu("3"))).pool_of("p"), "other");
}

#[test]
fn a_pool_that_can_never_have_enough_is_dropped_when_strict() {
    // covers: SCH-NEW-05, SCH-NEW-06, SCH-NEW-08
    let strict = seen(world().pool(flexible(6)).pod(pod("p")));
    assert_eq!((strict.left().as_str(), strict.reason("p")), ("p", &Reason::NoInstanceTypes));
    assert_eq!(seen(best_effort(world().pool(flexible(6))).pod(pod("p"))).left(), "");
}

#[test]
fn the_cut_list_must_still_have_enough_when_strict() {
    // covers: SCH-NEW-31
    // The only type of a second size is the dearest of 601.
    let types: Vec<_> = (0..601)
        .map(|i| {
            let cpu = if i == 600 { "8" } else { "4" };
            fake::instance_type(&format!("t-{i:03}"))
                .cpu(cpu)
                .offerings(vec![sold("test-zone-1", "spot").at(1_000 + i)])
                .build()
        })
        .collect();
    let start = || {
        world().pool(pool("default").types(types.clone()).require(with_min_values(exists(INTEGER), 2))).pod(pod("p"))
    };
    let strict = seen(start());
    let short = PoolReason::MinValues { keys: vec![INTEGER.into()] };
    assert_eq!((strict.sizes(), strict.reason("p")), (vec![], &Reason::Pools(vec![(0, short)])));
    let kept = seen(best_effort(start()));
    assert_eq!((kept.sizes(), kept.plan.new_nodes[0].instance_types.len()), (vec![1], 600));
}
