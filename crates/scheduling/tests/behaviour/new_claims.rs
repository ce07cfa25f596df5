//! New claims: which pools have any, what is written on them, and what falls through to the next pool.

use karpenter_core::Requirement;
use karpenter_core::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE};
use karpenter_core::plan::{PoolReason, Reason};
use karpenter_core::taints::Effect;
use karpenter_testkit::express::{at_least, at_most, exists, is_absent, is_in, not_in};
use karpenter_testkit::fake::{self, SIZE, sold};
use karpenter_testkit::pool::NODE_CLASS;
use karpenter_testkit::{node, pod, pool, world};

use crate::seen::{roomy, roomy_in, roomy_pool, seen};

#[test]
fn a_claim_carries_the_labels_of_its_pool() {
    // covers: SCH-NEW-02, SCH-NEW-03
    let seen =
        seen(world().pool(roomy_pool("blue").label("team", "a").require(is_in("tier", &["1", "2"]))).pod(pod("p")));
    let node = seen.node_of("p");
    let labels: Vec<_> = node.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(labels, [(NODEPOOL, "blue"), (NODE_CLASS, "default"), ("team", "a"), ("tier", "1")]);
    for (key, want) in [(NODEPOOL, "blue"), (NODE_CLASS, "default"), ("team", "a"), ("tier", "1|2")] {
        assert_eq!(seen.says(node, key), want, "{key}");
    }
}

#[test]
fn requirements_and_labels_of_a_pool_are_intersected() {
    // covers: SCH-NEW-03, SCH-NEW-07, SCH-NEW-08
    let both = |value: &str| world().pool(roomy().label("tier", value).require(is_in("tier", &["1", "2"])));
    let fine = seen(both("2").pod(pod("p")));
    assert_eq!(fine.says(fine.node_of("p"), "tier"), "2");
    for impossible in [both("3"), world().pool(roomy().require(is_in(ZONE, &["a"])).require(is_in(ZONE, &["b"])))] {
        let seen = seen(impossible.pod(pod("p")));
        assert_eq!((seen.left().as_str(), seen.reason("p")), ("p", &Reason::NoInstanceTypes));
    }
}

#[test]
fn a_pool_without_usable_types_is_dropped_and_others_serve() {
    // covers: SCH-NEW-05, SCH-NEW-06, SCH-NEW-08
    let sold_out = pool("sold-out")
        .types(vec![fake::instance_type("t").offerings(vec![sold("test-zone-1", "spot").unavailable()]).build()]);
    let elsewhere = roomy_pool("elsewhere").require(is_in(ZONE, &["none"]));
    let other_size = roomy_pool("other-size").require(is_in(SIZE, &["medium"]));
    let none = world().pool(sold_out).pool(elsewhere).pool(other_size).pool(pool("empty"));
    let left = seen(none.clone().pod(pod("p")));
    assert_eq!((left.left().as_str(), left.reason("p")), ("p", &Reason::NoInstanceTypes));
    assert_eq!(seen(none.pool(roomy()).pod(pod("p"))).pool_of("p"), "default");
    assert_eq!(seen(world().pod(pod("p"))).reason("p"), &Reason::NoPools);
}

#[test]
fn what_is_written_is_the_narrowed_set() {
    // covers: SCH-NEW-15, SCH-NEW-33, SCH-NEW-34
    let types = vec![
        fake::instance_type("a").price(20).build(),
        fake::instance_type("b").price(10).build(),
        fake::instance_type("c").cpu("1").price(5).build(),
    ];
    let pod =
        pod("p").cpu("2").app("web").require(vec![is_in(ZONE, &["test-zone-2", "test-zone-3"])]).hostname_spread(1);
    let seen = seen(world().pool(pool("default").types(types)).pod(pod));
    let written = seen.node_of("p").written_requirements(&seen.world.pools[0]);
    assert_eq!(written.get(INSTANCE_TYPE), Requirement::one_of(["a", "b"]));
    assert_eq!(written.get(ZONE), Requirement::one_of(["test-zone-2", "test-zone-3"]));
    assert_eq!(written.get(CAPACITY_TYPE), Requirement::one_of(["on-demand", "spot"]));
    assert!(!written.has(HOSTNAME), "the placeholder stays inside");
}

#[test]
fn capacity_types_are_those_that_can_be_had() {
    // covers: SCH-NEW-34
    // Spot is sold in zones 1 and 2 only.
    for (zone, want) in [("test-zone-1", "on-demand|spot"), ("test-zone-3", "on-demand")] {
        let seen = seen(world().pool(roomy()).pod(pod("p").zone(zone)));
        assert_eq!(seen.says(seen.node_of("p"), CAPACITY_TYPE), want, "{zone}");
    }
    let asked = seen(world().pool(roomy()).pod(pod("p").select(CAPACITY_TYPE, "spot")));
    assert_eq!(asked.says(asked.node_of("p"), CAPACITY_TYPE), "spot");
}

#[test]
fn custom_keys_become_labels() {
    // covers: SCH-NEW-35, SCH-NEW-36, SCH-REQ-17
    for (expressions, want) in [
        (vec![is_in("key", &["v"])], Some("v")),
        (vec![is_in("key", &["w", "v"])], Some("v")),
        (vec![exists("key")], Some("0")),
        (vec![not_in("key", &["0", "1"])], Some("2")),
        (vec![at_least("key", 5)], Some("5")),
        (vec![at_most("key", 5), not_in("key", &["0"])], Some("1")),
        (vec![is_absent("key")], None),
    ] {
        let pool = expressions.iter().cloned().fold(roomy(), |pool, expression| pool.require(expression));
        let seen = seen(world().pool(pool).pod(pod("p")));
        assert_eq!(seen.node_of("p").labels.get("key").map(String::as_str), want, "{expressions:?}");
    }
    let known = roomy().require(is_in(ZONE, &["test-zone-1"])).require(is_in(SIZE, &["large"]));
    let seen = seen(world().pool(known).pod(pod("p").select(CAPACITY_TYPE, "spot")));
    let labels = &seen.node_of("p").labels;
    assert!(
        ![ZONE, SIZE, CAPACITY_TYPE, INSTANCE_TYPE, HOSTNAME].iter().any(|key| labels.contains_key(*key)),
        "{labels:?}"
    );
}

#[test]
fn a_pods_narrowing_shows_in_the_label() {
    // covers: SCH-NEW-35, SCH-NEW-19
    let pool = roomy().require(is_in("tier", &["1", "2", "3"]));
    let start = world().pool(pool).pod(pod("a").cpu("2").require(vec![not_in("tier", &["1"])]));
    let seen = seen(start.pod(pod("b").cpu("1").require(vec![is_in("tier", &["1", "3"])])));
    assert_eq!(seen.new_nodes(), ["a b"]);
    let node = seen.node_of("a");
    assert_eq!((seen.says(node, "tier").as_str(), node.labels["tier"].as_str()), ("3", "3"));
}

#[test]
fn topology_comes_after_everything_that_narrows() {
    // covers: SCH-NEW-17
    // The volume leaves zone 3 alone; the spread must not settle on another before that is known.
    let start = world().pool(roomy()).zonal_claim("data", "test-zone-3");
    let seen = seen(start.pod(pod("p").app("web").claim("data").zone_spread(1)));
    assert_eq!(seen.zones(), "3=1");
}

#[test]
fn whatever_fails_in_a_heavier_pool_the_next_is_tried() {
    // covers: SCH-NEW-40, SCH-NEW-41
    let heavy = || roomy_pool("heavy").weight(100);
    let full_pod = || pod("p").cpu("2").app("web");
    for (pool, pod, why) in [
        (
            heavy().require(is_in("team", &["other"])),
            full_pod().require(vec![not_in("team", &["other"])]),
            "requirements",
        ),
        (heavy().taint("gpu"), full_pod(), "taints"),
        (heavy().taint_of("gpu", "", Effect::PreferNoSchedule), full_pod(), "soft taints"),
        (heavy().limit("cpu", "1"), full_pod(), "limits"),
        (heavy().types(roomy_in(&["1"])), full_pod().zone("test-zone-2"), "offerings"),
        (heavy().types(vec![fake::instance_type("t").cpu("1").build()]), full_pod(), "resources"),
        (heavy().types(roomy_in(&["1"])), full_pod().zone_spread(1), "topology"),
    ] {
        let start = world().pool(pool).pool(roomy()).node(crate::seen::full_node("n", "1"));
        let start = start.pod(karpenter_testkit::pod("running").app("web").on("n"));
        assert_eq!(seen(start.pod(pod.clone())).pool_of("p"), "default", "{why}");
    }
    let fine = world().pool(heavy()).pool(roomy()).pod(full_pod());
    assert_eq!(seen(fine).pool_of("p"), "heavy", "the heaviest that works");
}

#[test]
fn pods_may_share_nodes_of_any_pool() {
    // covers: SCH-NEW-43
    let start =
        world().pool(roomy_pool("heavy").weight(9).limit("nodes", "1")).pool(roomy_pool("light").label("team", "a"));
    let seen_claims = seen(start.clone().pod(pod("a").cpu("2").select("team", "a")).pod(pod("b").cpu("1")));
    assert_eq!(
        (seen_claims.new_nodes(), seen_claims.pool_of("b")),
        (vec!["a b".to_owned()], "light"),
        "an open claim first"
    );
    let on_node = seen(start.node(node("n").of_pool("light")).pod(pod("b").cpu("1")));
    assert_eq!(on_node.on("n"), "b");
}

#[test]
fn placeholders_keep_hosts_apart() {
    // covers: SCH-NEW-15
    let seen = seen(world().pool(roomy()).replicas(3, pod("p").app("web").hostname_spread(1)));
    assert_eq!(seen.sizes(), [1, 1, 1]);
    assert!(
        seen.plan.new_nodes.iter().all(|node| !node.requirements.has(HOSTNAME) && !node.labels.contains_key(HOSTNAME))
    );
}

#[test]
fn the_first_check_that_fails_is_the_one_reported() {
    // covers: SCH-NEW-16
    let start =
        world().pool(roomy().taint("gpu").require(is_in(ZONE, &["test-zone-1"]))).zonal_claim("data", "test-zone-2");
    let huge = pod("p").app("web").cpu("1000");
    let spread = huge.clone().spread_over("rack", 1);
    let with_volume = spread.clone().claim("data");
    let selecting = with_volume.clone().select("team", "red");
    let check = |pod: karpenter_testkit::PodBuilder| match seen(start.clone().pod(pod)).reason("p") {
        Reason::Pools(pools) => match &pools[0].1 {
            PoolReason::Taint { .. } => "taints",
            PoolReason::Incompatible { .. } => "requirements",
            PoolReason::Volumes { .. } => "volumes",
            PoolReason::Topology { .. } => "topology",
            PoolReason::Types(_) => "types",
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!(check(selecting.clone()), "taints");
    let tolerated = [selecting, with_volume, spread, huge].map(|pod| check(pod.tolerate("gpu")));
    assert_eq!(tolerated, ["requirements", "volumes", "topology", "types"]);
}
