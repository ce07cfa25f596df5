//! Pods left over although nothing stood in their way.

use karpenter_core::labels::{HOSTNAME, INSTANCE_TYPE, ZONE};
use karpenter_core::plan::Reason;
use karpenter_testkit::express::{exists, is_in, with_min_values};
use karpenter_testkit::{NodeBuilder, PodBuilder, PoolBuilder, WorldBuilder, node, pod, world};

use super::{catalogue, draft, reserved_catalogue};
use crate::{Violation, verify};

fn left(here: WorldBuilder) -> Vec<Violation> {
    let it = draft(here).left_over(&["p"]);
    verify(&it.world, &it.plan)
}

fn fits(place: &str) -> Vec<Violation> {
    vec![Violation::LeftOver { pod: "default/p".to_owned(), fits: place.to_owned() }]
}

#[test]
fn a_node_with_room_takes_a_pod() {
    let rows: Vec<(&str, NodeBuilder, PodBuilder, bool)> = vec![
        ("room", node("n"), pod("p").cpu("3"), true),
        ("no room beside what runs", node("n"), pod("p").cpu("4"), false),
        ("going away", node("n").deleting(), pod("p"), false),
        ("tainted", node("n").taint("team"), pod("p"), false),
        ("tolerated", node("n").taint("team"), pod("p").tolerate("team"), true),
        ("other zone", node("n").zone("a"), pod("p").zone("b"), false),
        ("port taken", node("n"), pod("p").port(80), false),
        ("short of something", node("n").room("gpu", "-1"), pod("p"), false),
        ("spreads", node("n"), pod("p").app("x").hostname_spread(1), false),
        ("wants company", node("n"), pod("p").app("x").affinity(HOSTNAME, &[("app", "x")]), false),
        ("wants devices", node("n"), pod("p").wants_devices(), false),
        ("wishes", node("n"), pod("p").prefer(1, vec![exists("team")]), true),
    ];
    for (why, node, p, room) in rows {
        let here = world().node(node).pod(pod("old").cpu("1").port(80).do_not_disrupt("true").on("n")).pod(p);
        assert_eq!(left(here), if room { fits("n") } else { vec![] }, "{why}");
    }
}

#[test]
fn room_is_what_the_plan_leaves() {
    let here = |cpu: &str| world().node(node("n")).pod(pod("p").cpu("2")).pod(pod("other").cpu(cpu));
    let taken = draft(here("3")).on("n", &["other"]).left_over(&["p"]);
    taken.sound();
    let free = draft(here("2")).on("n", &["other"]).left_over(&["p"]);
    assert_eq!(verify(&free.world, &free.plan), fits("n"));
}

#[test]
fn somebody_elses_aversion_excuses() {
    let here = |app: &str| {
        let loner = pod("old").on("n").anti_affinity(HOSTNAME, &[("app", "x")]);
        world().node(node("n")).pod(loner).pod(pod("p").app(app))
    };
    assert_eq!(left(here("x")), []);
    assert_eq!(left(here("y")), fits("n"));
}

#[test]
fn volumes_excuse() {
    let here = |limit| {
        let n = node("n").zone("z").volume_limit("ebs.csi.aws.com", limit);
        world().zonal_claim("c", "z").node(n).pod(pod("p").claim("c"))
    };
    assert_eq!(left(here(1)), fits("n"));
    assert_eq!(left(here(0)), []);
}

#[test]
fn a_pool_that_could_serve_it_alone_must() {
    let rows: Vec<(&str, PoolBuilder, PodBuilder, bool)> = vec![
        ("plain", catalogue(), pod("p").cpu("7"), true),
        ("too large", catalogue(), pod("p").cpu("8"), false),
        ("tainted", catalogue().taint("team"), pod("p"), false),
        (
            "softly tainted",
            catalogue().taint_of("team", "", karpenter_core::taints::Effect::PreferNoSchedule),
            pod("p"),
            true,
        ),
        ("zone outside", catalogue().require(is_in(ZONE, &["test-zone-1"])), pod("p").zone("test-zone-2"), false),
        ("zone inside", catalogue().require(is_in(ZONE, &["test-zone-1"])), pod("p").zone("test-zone-1"), true),
        (
            "spot in zone 3",
            catalogue(),
            pod("p").zone("test-zone-3").select("karpenter.sh/capacity-type", "spot"),
            false,
        ),
        ("a system of several", catalogue(), pod("p").select("kubernetes.io/os", "linux"), true),
        ("unknown label", catalogue(), pod("p").select("team", "x"), false),
        ("template label", catalogue().label("team", "x"), pod("p").select("team", "x"), true),
        ("limits decide", catalogue().limit("cpu", "100"), pod("p"), false),
        ("minValues decide", catalogue().require(with_min_values(exists(INSTANCE_TYPE), 1)), pod("p"), false),
        ("labels decide", catalogue().require(is_in("team", &["x"])), pod("p"), false),
        ("reservations decide", reserved_catalogue(0), pod("p"), false),
        ("spreads", catalogue(), pod("p").app("x").zone_spread(1), false),
    ];
    for (why, pool, p, serves) in rows {
        let expected = if serves { fits("a new node of pool default") } else { vec![] };
        assert_eq!(left(world().pool(pool).pod(p)), expected, "{why}");
    }
}

#[test]
fn daemons_leave_less_room() {
    let here =
        |daemon: PodBuilder| world().pool(catalogue()).daemon_set(daemon.cpu("1")).pod(pod("p").cpu("7").port(80));
    assert_eq!(left(here(pod("d"))), []);
    assert_eq!(left(here(pod("d").select("team", "x"))), fits("a new node of pool default"));
    let ports = |port| world().pool(catalogue()).daemon_set(pod("d").port(port)).pod(pod("p").port(80));
    assert_eq!(left(ports(80)), []);
    assert_eq!(left(ports(81)), fits("a new node of pool default"));
}

#[test]
fn alternatives_are_given_up_before_wishes_and_soft_taints() {
    let soft = || catalogue().taint_of("team", "", karpenter_core::taints::Effect::PreferNoSchedule);
    let either = || pod("p").require(vec![is_in(ZONE, &["test-zone-1"])]).require(vec![is_in(ZONE, &["mars"])]);
    let place = "a new node of pool default";
    assert_eq!(left(world().pool(catalogue()).pod(either())), fits(place));
    assert_eq!(left(world().pool(soft()).pod(either())), []);
    let one = pod("p").require(vec![is_in(ZONE, &["test-zone-1"])]);
    assert_eq!(left(world().pool(soft()).pod(one.clone())), fits(place));
    assert_eq!(left(world().pool(catalogue()).pod(one.prefer(1, vec![exists("team")]))), fits(place));
    assert_eq!(left(world().pool(soft()).pod(either().tolerate("team"))), fits(place));
    assert_eq!(left(world().pool(catalogue()).pod(either().prefer(1, vec![exists("team")]))), []);
}

#[test]
fn a_deferral_is_no_lie() {
    let mut it = draft(world().pool(catalogue()).pod(pod("p"))).left_over(&["p"]);
    it.plan.left_over[0].reason = Reason::ReservedCapacityDeferred;
    it.sound();
}
