//! Limits of pools.

use karpenter_core::plan::{PoolReason, Reason};
use karpenter_core::resources::{CPU, MEMORY};
use karpenter_testkit::fake;
use karpenter_testkit::{PoolBuilder, pod, pool, world};

use crate::seen::{Seen, seen};

/// 2, 8 and 16 CPUs with 4Gi, 16Gi and 32Gi.
fn three_sizes() -> PoolBuilder {
    let kind = |cpu: u32| {
        fake::instance_type(&format!("cpu-{cpu:02}"))
            .cpu(&cpu.to_string())
            .memory(&format!("{}Gi", 2 * cpu))
            .pods("100")
    };
    pool("default").types([2, 8, 16].map(|cpu| kind(cpu).build()).into())
}

fn types(seen: &Seen) -> Vec<String> {
    seen.plan.new_nodes.iter().map(|node| seen.type_names(node)).collect()
}

#[test]
fn types_larger_than_what_is_left_are_not_bought() {
    // covers: SCH-NEW-09
    for (cpu, memory, want) in [
        ("16", "100Gi", "cpu-02 cpu-08 cpu-16"),
        ("15999m", "100Gi", "cpu-02 cpu-08"),
        ("8", "100Gi", "cpu-02 cpu-08"),
        ("100", "16Gi", "cpu-02 cpu-08"),
        ("100", "4Gi", "cpu-02"),
        ("1", "100Gi", ""),
    ] {
        let seen = seen(world().pool(three_sizes().limit(CPU, cpu).limit(MEMORY, memory)).pod(pod("p").cpu("1")));
        assert_eq!(types(&seen).join(""), want, "{cpu} {memory}");
        if want.is_empty() {
            let limit = PoolReason::Limit { resource: CPU.to_owned() };
            assert_eq!(seen.reason("p"), &Reason::Pools(vec![(0, limit)]));
        }
    }
}

#[test]
fn a_limit_on_something_no_type_has_limits_nothing() {
    // covers: SCH-NEW-09
    assert_eq!(seen(world().pool(three_sizes().limit("example.com/gpu", "0")).pod(pod("p"))).left(), "");
}

#[test]
fn a_claim_is_charged_with_the_most_it_may_become() {
    // covers: SCH-NEW-11, SCH-NEW-13
    // The first claim may become any type, so that 16 of 20 CPUs are gone; the second may have the smallest.
    let apart =
        |count| pod("p").app("web").cpu("1").anti_affinity("kubernetes.io/hostname", &[("app", "web")]).replicas(count);
    let start = |limit: &str| world().pool(three_sizes().limit(CPU, limit));
    assert_eq!(types(&seen(start("20").pods(apart(3)))), ["cpu-02 cpu-08 cpu-16", "cpu-02", "cpu-02"]);
    let exhausted = seen(start("17").pods(apart(2)));
    assert_eq!((types(&exhausted), exhausted.left().as_str()), (vec!["cpu-02 cpu-08 cpu-16".to_owned()], "p-1"));
    // Whatever each of them becomes in the end, together they stay within the limit.
    for limit in 17..=40 {
        let seen = seen(start(&limit.to_string()).pods(apart(4)));
        let most = |types: &String| types.rsplit("cpu-").next().and_then(|cpu| cpu.parse::<u32>().ok()).unwrap();
        let charged: u32 = types(&seen).iter().map(most).sum();
        assert!(!seen.plan.new_nodes.is_empty() && charged <= limit, "{charged} of {limit}: {:?}", types(&seen));
    }
}

#[test]
fn more_pods_on_a_claim_cost_nothing_more() {
    // covers: SCH-NEW-12
    let seen = seen(world().pool(three_sizes().limit(CPU, "16")).replicas(10, pod("p").cpu("1")));
    assert_eq!((seen.sizes(), seen.left().as_str()), (vec![10], ""));
}

#[test]
fn what_fits_the_limit_is_placed_and_the_rest_is_left() {
    // covers: SCH-NEW-14, SCH-NEW-13
    let first = seen(world().pool(three_sizes().limit(CPU, "32")).replicas(3, pod("p").cpu("10")));
    assert_eq!((first.sizes(), first.left().as_str()), (vec![1, 1], "p-2"));
    let second = seen(first.next_pass());
    assert_eq!((second.sizes(), second.left().as_str()), (vec![], "p-2"), "later passes do not overshoot either");
}

#[test]
fn a_pass_that_was_too_careful_leaves_room_for_the_next() {
    // covers: SCH-NEW-13
    let apart = pod("p").app("web").cpu("1").anti_affinity("kubernetes.io/hostname", &[("app", "web")]).replicas(2);
    let first = seen(world().pool(three_sizes().limit(CPU, "17")).pods(apart));
    assert_eq!(first.left(), "p-1");
    let second = seen(first.next_pass());
    assert_eq!((second.left().as_str(), types(&second)), ("", vec!["cpu-02 cpu-08".to_owned()]), "2 of 17 are in use");
}

#[test]
fn nodes_are_counted_as_they_are_opened() {
    // covers: SCH-NEW-10, SCH-NEW-11, SCH-GAP-09
    for (limit, want) in [("0", 0), ("1", 1), ("2", 2), ("9", 3)] {
        let seen = seen(world().pool(three_sizes().limit("nodes", limit)).replicas(3, pod("p").cpu("10")));
        assert_eq!(seen.sizes().len(), want, "{limit}");
        if want < 3 {
            let reason = PoolReason::Limit { resource: "nodes".to_owned() };
            assert_eq!(seen.reason("p-2"), &Reason::Pools(vec![(0, reason)]));
        }
    }
}

#[test]
fn each_pool_has_its_own_limits() {
    // covers: SCH-NEW-41, SCH-ERR-09
    let named = |name: &str, weight| {
        let PoolBuilder(mut pool) = three_sizes();
        pool.name = name.into();
        PoolBuilder(pool).weight(weight)
    };
    let start = world()
        .pool(named("a", 9).limit(CPU, "16"))
        .pool(named("b", 5).limit(CPU, "16"))
        .pool(named("c", 1).limit("nodes", "0"));
    let seen = seen(start.replicas(3, pod("p").cpu("10")));
    assert_eq!((seen.pool_of("p-0"), seen.pool_of("p-1"), seen.left().as_str()), ("a", "b", "p-2"));
    let limit = |resource: &str| PoolReason::Limit { resource: resource.to_owned() };
    assert_eq!(seen.reason("p-2"), &Reason::Pools(vec![(0, limit(CPU)), (1, limit(CPU)), (2, limit("nodes"))]));
}
