//! Which domains a key has: what pools can create, and what is already there.

use karpenter_core::labels::{CAPACITY_TYPE, ZONE};
use karpenter_core::node::Stage;
use karpenter_testkit::express::{is_in, not_in, spread};
use karpenter_testkit::{PodBuilder, node, pod, world};

use crate::seen::{WEB, full_node, roomy, roomy_in, roomy_pool, seen};

fn web() -> PodBuilder {
    pod("web").app("web")
}

#[test]
fn values_of_pools_are_domains_even_if_no_type_knows_the_key() {
    // covers: SCH-TOPO-02
    let split = "capacity.spread.4-1";
    let on = |name: &str, capacity: &str, values: &[&str]| {
        roomy_pool(name).require(is_in(CAPACITY_TYPE, &[capacity])).require(is_in(split, values))
    };
    let start = world().pool(on("spot", "spot", &["2", "3", "4", "5"])).pool(on("on-demand", "on-demand", &["1"]));
    let seen = seen(start.replicas(20, web().spread_over(split, 1)));
    assert_eq!(seen.per(split, ""), "1=4 2=4 3=4 4=4 5=4");
    assert_eq!(seen.per(CAPACITY_TYPE, ""), "on-demand=4 spot=16");
}

#[test]
fn labels_of_pools_are_domains() {
    // covers: SCH-TOPO-02
    let start = world().pool(roomy_pool("red").label("team", "red")).pool(roomy_pool("blue").label("team", "blue"));
    assert_eq!(seen(start.replicas(4, web().spread_over("team", 1))).per("team", ""), "blue=2 red=2");
}

#[test]
fn a_pools_own_restriction_caps_what_its_types_offer() {
    // covers: SCH-TOPO-01, SCH-TOPO-03, SCH-GAP-10
    for (restriction, want) in [
        (is_in(ZONE, &["test-zone-1", "test-zone-2"]), "1=3 2=2"),
        (is_in(ZONE, &["test-zone-3"]), "3=5"),
        (not_in(ZONE, &["test-zone-3"]), "1=3 2=2"),
        (not_in(ZONE, &["test-zone-1", "elsewhere"]), "2=3 3=2"),
    ] {
        let seen = seen(world().pool(roomy().require(restriction)).replicas(5, web().zone_spread(1)));
        assert_eq!((seen.zones().as_str(), seen.left().as_str()), (want, ""));
    }
    let two = world().pool(roomy_pool("a").require(is_in(ZONE, &["test-zone-1"])));
    let two = two.pool(roomy_pool("b").require(is_in(ZONE, &["test-zone-3"])));
    assert_eq!(seen(two.replicas(4, web().zone_spread(1))).zones(), "1=2 3=2", "another pool adds its own");
}

#[test]
fn excluded_values_are_no_domains() {
    // covers: SCH-GAP-10
    // Were `red` a domain, nobody could be placed there and the least would stay at zero.
    let pools =
        world().pool(roomy_pool("a").require(not_in("team", &["red"]))).pool(roomy_pool("b").label("team", "blue"));
    let seen = seen(pools.replicas(3, web().spread_over("team", 1)));
    assert_eq!((seen.per("team", "").as_str(), seen.left().as_str()), ("blue=3", ""));
}

#[test]
fn nodes_add_domains_that_no_pool_can_create_any_more() {
    // covers: SCH-TOPO-04
    let old = || full_node("old", "9");
    let start = || world().pool(roomy_pool("default").types(roomy_in(&["1"])));
    for (node, want, why) in [
        (old(), "1=1", "it takes part in the skew"),
        (old().of_pool("default"), "1=1", "so does one of ours"),
        (old().of_pool("default").stage(Stage::Registered), "1=1", "and one that is registered"),
        (old().of_pool("default").stage(Stage::Launched), "1=3", "without a Node it is no domain yet"),
        (old().deleting(), "1=3", "one that is going away is none"),
        (old().without_label(ZONE), "1=3", "without the label it is in no domain"),
    ] {
        assert_eq!(seen(start().node(node).replicas(3, web().zone_spread(1))).zones(), want, "{why}");
    }
}

#[test]
fn a_domain_only_nodes_have_can_be_filled() {
    // covers: SCH-TOPO-04
    let start = world().pool(roomy_pool("default").types(roomy_in(&["1"]))).node(node("old").zone("test-zone-9"));
    let seen = seen(start.replicas(4, web().zone_spread(1)));
    assert_eq!((seen.zones().as_str(), seen.left().as_str()), ("1=2 9=2", ""));
}

#[test]
fn a_running_pod_makes_its_zone_known() {
    // covers: SCH-TOPO-09
    // Its node is no domain by itself (it is leaving); the pod that stays there is counted all the same.
    let start = world().pool(roomy_pool("default").types(roomy_in(&["1"]))).node(full_node("old", "9").deleting());
    let stays = pod("stays").app("web").on("old").do_not_disrupt("true");
    let seen_with = |running: usize| {
        let here = pod("here").app("web").on("here");
        let start = start.clone().node(full_node("here", "1")).pod(stays.clone()).replicas(running, here);
        seen(start.replicas(3, web().spread(spread(ZONE, 1, WEB)))).zones()
    };
    assert_eq!((seen_with(0).as_str(), seen_with(1).as_str(), seen_with(2).as_str()), ("1=2", "1=1", ""));
}
