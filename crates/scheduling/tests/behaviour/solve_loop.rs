//! The order of the loop: who is tried when, on what, and when it ends.

use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::plan::Reason;
use karpenter_testkit::express::is_in;
use karpenter_testkit::fake;
use karpenter_testkit::{PodBuilder, node, pod, pool, world};

use crate::seen::{WEB, roomy, roomy_pool, seen};

/// A type for one pod, so that nodes are opened in the order in which pods are tried.
fn single() -> karpenter_testkit::PoolBuilder {
    pool("default")
        .types(vec![fake::instance_type("single").cpu("16").memory("64Gi").pods("1").room("gpu", "4").build()])
}

#[test]
fn largest_first_then_oldest_then_by_uid() {
    // covers: SCH-LOOP-01
    let at = |pod: PodBuilder, hour: u32| pod.created(&format!("2026-01-01T{hour:02}:00:00Z"));
    let pods = [
        at(pod("none-late"), 9),
        at(pod("none-early"), 1),
        at(pod("gpu").request("gpu", "4").priority(1_000_000), 10),
        at(pod("memory").memory("1Gi"), 9),
        at(pod("small").cpu("100m"), 9),
        at(pod("same-b").cpu("1"), 5),
        at(pod("same-a").cpu("1"), 5),
        at(pod("more-memory").cpu("1").memory("2Gi"), 9),
        at(pod("large").cpu("1001m"), 12),
    ];
    let start = pods.into_iter().fold(world().pool(single()), |world, pod| world.pod(pod));
    let want = ["large", "more-memory", "same-a", "same-b", "small", "memory", "none-early", "none-late", "gpu"];
    assert_eq!(seen(start).new_nodes(), want);
}

#[test]
fn existing_nodes_before_open_claims_before_new_ones() {
    // covers: SCH-LOOP-02, SCH-LOOP-13
    let start = world().pool(roomy()).node(node("n").cpu("4"));
    let start = start.pod(pod("a").cpu("5")).pod(pod("b").cpu("3")).pod(pod("c").cpu("2")).pod(pod("d").cpu("1"));
    let seen = seen(start);
    assert_eq!((seen.on("n").as_str(), seen.new_nodes()), ("b d", vec!["a c".to_owned()]));
}

#[test]
fn the_first_existing_node_that_accepts_wins() {
    // covers: SCH-LOOP-03
    let start = world().pool(roomy()).node(node("b").cpu("8")).node(node("a").cpu("1")).node(node("c").cpu("8"));
    let seen = seen(start.pod(pod("large").cpu("2")).pod(pod("small").cpu("1")));
    assert_eq!((seen.on("a").as_str(), seen.on("b").as_str(), seen.on("c").as_str()), ("small", "large", ""));
}

#[test]
fn the_claim_with_the_fewest_pods_is_tried_first() {
    // covers: SCH-LOOP-04
    let types = vec![fake::instance_type("t").cpu("7").pods("10").build()];
    let start = world().pool(pool("default").types(types)).pod(pod("a").cpu("4")).pod(pod("b").cpu("4"));
    let seen = seen(start.replicas(4, pod("s").cpu("500m")));
    assert_eq!(seen.new_nodes(), ["a s-0 s-2", "b s-1 s-3"]);
}

#[test]
fn the_first_pool_that_accepts_wins_whatever_it_costs() {
    // covers: SCH-LOOP-05, SCH-NEW-20, SCH-NEW-40
    let priced = |name: &str, price| pool(name).types(vec![fake::instance_type("t").price(price).build()]);
    let start = || world().pool(priced("cheap", 1)).pool(priced("dear", 9_000_000).weight(1));
    assert_eq!(seen(start().pod(pod("p"))).pool_of("p"), "dear");
    let named = pod("p").select("karpenter.sh/nodepool", "cheap");
    assert_eq!(seen(start().pod(named)).pool_of("p"), "cheap", "a pod may name its pool");
}

#[test]
fn equal_weights_go_by_name_backwards() {
    // covers: SCH-LOOP-05, SCH-BATCH-16
    let start = |weights: [i32; 3]| {
        let mut world = world();
        for (name, weight) in ["a", "c", "b"].iter().zip(weights) {
            world = world.pool(roomy_pool(name).weight(weight));
        }
        seen(world.pod(pod("p"))).pool_of("p").to_owned()
    };
    assert_eq!((start([0, 0, 0]).as_str(), start([1, 0, 1]).as_str(), start([5, 0, 1]).as_str()), ("c", "b", "a"));
}

#[test]
fn one_wish_is_given_up_and_all_targets_are_tried_again() {
    // covers: SCH-LOOP-06, SCH-PREF-01, SCH-PREF-08
    // Neither wish can be kept; with both gone the existing node is the first target again.
    let wishing = || pod("p").prefer(2, vec![is_in(ZONE, &["none"])]).prefer(1, vec![is_in("team", &["none"])]);
    assert_eq!(seen(world().pool(roomy()).node(node("n")).pod(wishing())).on("n"), "p");
    let lighter = || pod("p").prefer(2, vec![is_in(ZONE, &["none"])]).prefer(1, vec![is_in(ZONE, &["test-zone-3"])]);
    let second = seen(world().pool(roomy()).node(node("n")).pod(lighter()));
    assert_eq!(second.zones(), "3=1", "the next wish counts before it is given up");
}

#[test]
fn a_pod_that_failed_starts_whole_again() {
    // covers: SCH-LOOP-07, SCH-LOOP-08, SCH-LOOP-09, SCH-PREF-14
    // The follower is tried first, gives up its zone wish in vain, and keeps the wish once its leader is placed.
    let follower = pod("follower").cpu("2").affinity(HOSTNAME, WEB).prefer(1, vec![is_in(ZONE, &["test-zone-2"])]);
    let seen = seen(world().pool(roomy()).pod(follower).pod(pod("web").app("web").cpu("1")));
    assert_eq!((seen.zones().as_str(), seen.left().as_str(), seen.sizes()), ("2=2", "", vec![2]));
}

#[test]
fn the_loop_ends_with_those_nobody_can_take() {
    // covers: SCH-LOOP-09
    let start = world().pool(roomy()).replicas(3, pod("huge").cpu("100")).replicas(2, pod("p").cpu("1"));
    let seen = seen(start);
    assert_eq!((seen.left().as_str(), seen.sizes()), ("huge-0 huge-1 huge-2", vec![2]));
}

#[test]
fn pods_with_devices_are_not_tried_while_devices_are_ignored() {
    // covers: SCH-LOOP-11
    let start = |ignore| {
        let pod = pod("p").wants_devices().prefer(1, vec![is_in(ZONE, &["none"])]);
        world()
            .pool(roomy())
            .pod(pod)
            .pod(pod_plain())
            .settings(move |settings| settings.ignore_device_requests = ignore)
    };
    let ignoring = seen(start(true));
    assert_eq!((ignoring.left().as_str(), ignoring.reason("p")), ("p", &Reason::DevicesIgnored));
    assert_eq!(seen(start(false)).left(), "");
}

fn pod_plain() -> PodBuilder {
    pod("plain")
}

#[test]
fn a_plan_accounts_for_every_pod_once() {
    // covers: SCH-LOOP-15, SCH-LOOP-13
    let start = world().pool(roomy().limit("nodes", "1")).node(node("n").cpu("2"));
    let start =
        start.replicas(3, pod("a").cpu("1")).replicas(3, pod("b").cpu("10")).pod(pod("bad").select(HOSTNAME, "x"));
    let seen = seen(start);
    let plan = &seen.plan;
    let mut all: Vec<usize> = plan.new_nodes.iter().flat_map(|node| node.pods.clone()).collect();
    all.extend(plan.existing.values().flatten());
    all.extend(plan.left_over.iter().chain(&plan.ignored).map(|left| left.pod));
    all.sort_unstable();
    assert_eq!(all, (0..7).collect::<Vec<_>>());
    assert_eq!((seen.on("n").as_str(), seen.new_nodes()), ("a-0 a-1", vec!["b-0 a-2".to_owned()]));
    assert_eq!((seen.left().as_str(), seen.ignored().as_str()), ("b-1 b-2", "bad"));
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    // covers: SCH-LOOP-01, SCH-LOOP-14
    let start =
        world().pool(roomy_pool("a")).pool(roomy_pool("b")).node(node("n1")).node(node("n2").zone("test-zone-1"));
    let start = start.replicas(5, pod("web").app("web").cpu("1").zone_spread(1)).replicas(5, pod("p").cpu("2"));
    let by_name = |seen: &crate::seen::Seen| (seen.new_nodes(), seen.on("n1"), seen.on("n2"), seen.left());
    let mut with_uids = start.clone();
    with_uids.0.pods.iter_mut().for_each(|pod| pod.created = "2026-01-01T00:00:00Z".parse().unwrap());
    let want = by_name(&seen(with_uids.clone()));
    for seed in 0..8 {
        let other = karpenter_testkit::world::reordered(&with_uids.0, seed);
        assert_eq!(by_name(&seen(karpenter_testkit::WorldBuilder(other))), want, "seed {seed}");
    }
}
