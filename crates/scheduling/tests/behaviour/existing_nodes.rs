//! Existing and in-flight nodes as targets.

use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::node::Stage;
use karpenter_core::pod::Phase;
use karpenter_core::resources::CPU;
use karpenter_testkit::express::is_in;
use karpenter_testkit::{node, pod, world};

use crate::seen::{roomy, roomy_pool, seen, zone_name};

#[test]
fn nodes_of_every_stage_are_targets_but_those_that_leave() {
    // covers: SCH-EXIST-01
    for (target, want) in [
        (node("n"), true),
        (node("n").of_pool("default"), true),
        (node("n").of_pool("default").stage(Stage::Registered), true),
        (node("n").of_pool("default").stage(Stage::Launched), true),
        (node("n").of_pool("some-static-pool"), true),
        (node("n").deleting(), false),
    ] {
        let stage = target.0.stage;
        assert_eq!(seen(world().pool(roomy()).node(target).pod(pod("p"))).on("n") == "p", want, "{stage:?}");
    }
}

#[test]
fn initialized_nodes_come_first_then_by_name() {
    // covers: SCH-EXIST-02
    let one = |name: &str| node(name).cpu("1");
    let start = world()
        .node(one("d").of_pool("default").stage(Stage::Registered))
        .node(one("a").of_pool("default").stage(Stage::Launched))
        .node(one("c").of_pool("default"))
        .node(one("b"))
        .replicas(4, pod("p").cpu("1"));
    let seen = seen(start);
    let order = ["b", "c", "a", "d"].map(|name| seen.on(name));
    assert_eq!(order, ["p-0", "p-1", "p-2", "p-3"]);
}

#[test]
fn what_runs_there_is_taken() {
    // covers: SCH-RES-15, SCH-EXIST-08
    let running = || pod("running").cpu("3").on("n");
    for (other, fits, why) in [
        (running(), false, "running"),
        (running().terminating(), false, "terminating, and still there"),
        (running().daemon_of("d"), false, "a daemon"),
        (running().owned_by("v1", "Node", "n"), false, "a static pod"),
        (running().phase(Phase::Succeeded), true, "done"),
        (running().phase(Phase::Failed), true, "failed"),
        (running().on("elsewhere"), true, "elsewhere"),
    ] {
        let start = world().node(node("n").cpu("4")).pod(other).pod(pod("p").cpu("2"));
        assert_eq!(seen(start).on("n") == "p", fits, "{why}");
    }
}

#[test]
fn a_node_fills_to_the_last_bit_and_no_further() {
    // covers: SCH-EXIST-08, SCH-RES-15
    let start = world().node(node("n").cpu("4")).replicas(5, pod("p").cpu("1"));
    let full = seen(start);
    assert_eq!((full.on("n").as_str(), full.left().as_str()), ("p-0 p-1 p-2 p-3", "p-4"));
    let slots = world().node(node("n").room("pods", "2")).replicas(3, pod("p"));
    assert_eq!(seen(slots).on("n"), "p-0 p-1");
    let mut negative = world().node(node("n").room("gpu", "1")).pod(pod("q").request("gpu", "2").on("n"));
    negative = negative.pod(pod("p"));
    assert_eq!(seen(negative).on("n"), "", "overcommitted in anything, it takes nobody");
}

#[test]
fn resources_a_node_does_not_have_are_zero() {
    // covers: SCH-RES-11
    let start = |asked: &str| world().node(node("n")).pod(pod("p").request("example.com/dongle", asked));
    assert_eq!((seen(start("1")).on("n").as_str(), seen(start("0")).on("n").as_str()), ("", "p"));
}

#[test]
fn the_hostname_is_the_label_or_else_the_name() {
    // covers: SCH-EXIST-04
    let volume = |host: &str| {
        let there = karpenter_testkit::express::node_term(vec![is_in(HOSTNAME, &[host])]);
        world().bound_claim("data", "nfs", vec![there]).pod(pod("p").claim("data"))
    };
    assert_eq!(seen(volume("n").node(node("n").label(HOSTNAME, "host"))).on("n"), "");
    assert_eq!(seen(volume("host").node(node("n").label(HOSTNAME, "host"))).on("n"), "p");
    assert_eq!(seen(volume("n").node(node("n").without_label(HOSTNAME))).on("n"), "p");
}

#[test]
fn pods_find_the_node_that_was_bought_for_them() {
    // covers: SCH-EXIST-07
    let first = seen(world().pool(roomy()).replicas(3, pod("p").cpu("1").zone(&zone_name("2"))));
    assert_eq!(first.sizes(), [3]);
    let mut next = first.next_pass();
    for pod in &mut next.0.pods {
        (pod.node, pod.phase, pod.scheduled_reason) = (None, Phase::Pending, Some("Unschedulable".into()));
    }
    let bought = &mut next.0.nodes[0];
    (bought.stage, bought.has_node) = (Stage::Launched, false);
    let name = bought.name.to_string();
    let second = seen(next);
    assert_eq!((second.sizes(), second.on(&name).as_str()), (vec![], "p-0 p-1 p-2"));
}

#[test]
fn nodes_are_used_even_if_no_pool_is_left() {
    // covers: SCH-EXIST-12
    let impossible = roomy().require(is_in(ZONE, &["none"]));
    for start in [world(), world().pool(impossible)] {
        let seen = seen(start.node(node("n").cpu("1")).replicas(2, pod("p").cpu("1")));
        assert_eq!((seen.on("n").as_str(), seen.left().as_str()), ("p-0", "p-1"));
    }
}

#[test]
fn nodes_count_against_the_limits_of_their_pool() {
    // covers: SCH-EXIST-14, SCH-RES-19, SCH-NEW-09
    let limited = || world().pool(roomy().limit(CPU, "32"));
    let other = |name: &str| node(name).cpu("16").room("pods", "0");
    for (start, want, why) in [
        (limited(), 2, "nothing is there"),
        (limited().node(other("a").of_pool("default")), 1, "one of its nodes"),
        (limited().node(other("a").of_pool("default").stage(Stage::Launched)), 1, "one that is on its way"),
        (limited().node(other("a").of_pool("other")), 2, "another pool's"),
        (limited().node(other("a")), 2, "nobody's"),
        (limited().node(other("a").of_pool("default").deleting()), 2, "one that leaves"),
        (limited().node(other("a").of_pool("default")).node(other("b").of_pool("default")), 0, "two of its nodes"),
    ] {
        assert_eq!(seen(start.replicas(3, pod("p").cpu("10"))).sizes().len(), want, "{why}");
    }
    let by_count = world().pool(roomy_pool("default").limit("nodes", "2")).node(other("a").of_pool("default"));
    assert_eq!(seen(by_count.replicas(3, pod("p").cpu("10"))).sizes().len(), 1);
}

#[test]
fn volumes_must_be_within_reach_of_the_node() {
    // covers: SCH-EXIST-15
    let start = |node: karpenter_testkit::NodeBuilder| {
        seen(world().node(node).zonal_claim("data", "test-zone-1").pod(pod("p").claim("data"))).on("n")
    };
    assert_eq!(start(node("n").zone("test-zone-1")), "p");
    assert_eq!(start(node("n").zone("test-zone-2")), "");
    assert_eq!(start(node("n")), "", "a node without a zone is in none");
}
