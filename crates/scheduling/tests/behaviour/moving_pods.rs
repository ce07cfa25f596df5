//! Pods of a pass: those that wait, and those whose node is leaving.

use karpenter_core::labels::NODEPOOL;
use karpenter_core::plan::Reason;
use karpenter_core::pod::Phase;
use karpenter_testkit::express::is_absent;
use karpenter_testkit::{node, pod, world};

use crate::seen::{roomy, seen};

#[test]
fn pods_of_a_leaving_node_find_another_place() {
    // covers: SCH-POD-05, SCH-POD-06, SCH-EXIST-10
    let start = world().pool(roomy()).node(node("old").deleting()).node(node("other").cpu("1"));
    let start =
        start.pod(pod("a").cpu("1").on("old")).pod(pod("b").cpu("1").on("old")).pod(pod("c").cpu("1").on("other"));
    let seen = seen(start.pod(pod("agent").daemon_of("d").on("old")));
    assert_eq!((seen.new_nodes(), seen.on("old").as_str()), (vec!["a b".to_owned()], ""));
}

#[test]
fn their_room_is_free_elsewhere_only_once_they_move() {
    // covers: SCH-POD-05, SCH-RES-15
    let start = world().node(node("new").cpu("2")).node(node("old").cpu("2").deleting());
    let seen = seen(start.pod(pod("moves").cpu("2").on("old")).pod(pod("waits").cpu("1")));
    assert_eq!((seen.on("new").as_str(), seen.left().as_str()), ("moves", "waits"));
}

#[test]
fn pods_that_are_not_validated_move_all_the_same() {
    // covers: SCH-POD-12
    // Validation is for pods that wait; one that runs was accepted long ago.
    let start = world().pool(roomy()).node(node("old").deleting()).node(node("other"));
    let seen = seen(start.pod(pod("moves").claim("missing").on("old")).pod(pod("waits").claim("missing")));
    assert_eq!((seen.on("other").as_str(), seen.ignored().as_str()), ("moves", "waits"));
}

#[test]
fn a_pod_that_avoids_managed_nodes_is_ignored() {
    // covers: SCH-POD-15, SCH-GAP-03
    let hard = seen(world().pool(roomy()).pod(pod("p").require(vec![is_absent(NODEPOOL)])));
    assert_eq!((hard.ignored().as_str(), hard.reason("p")), ("p", &Reason::AvoidsManagedNodes));
    let soft = seen(world().pool(roomy()).pod(pod("p").prefer(100, vec![is_absent(NODEPOOL)])));
    assert_eq!((soft.ignored().as_str(), soft.left().as_str(), soft.sizes()), ("", "", vec![1]), "a wish is given up");
}

#[test]
fn only_pods_that_wait_are_placed() {
    // covers: SCH-POD-01, SCH-POD-02, SCH-POD-03
    let start = world().pool(roomy()).node(node("n").room("pods", "0"));
    let start = start
        .pod(pod("waits"))
        .pod(pod("going").terminating())
        .pod(pod("odd").phase(Phase::Unknown).priority(-5))
        .pod(pod("gated").scheduled_reason(Some("SchedulingGated")))
        .pod(pod("fresh").scheduled_reason(None))
        .pod(pod("agent").daemon_of("d"))
        .pod(pod("static").owned_by("v1", "Node", "n"))
        .pod(pod("running").on("n"))
        .pod(pod("preempting").nominated("n"));
    let seen = seen(start);
    assert_eq!(
        (seen.new_nodes(), seen.left().as_str(), seen.ignored().as_str()),
        (vec!["waits going odd".to_owned()], "", "")
    );
}
