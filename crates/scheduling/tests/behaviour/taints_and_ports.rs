//! Taints of pools and nodes, and host ports.

use karpenter_core::plan::{PoolReason, Reason};
use karpenter_core::taints::Effect;
use karpenter_testkit::{PodBuilder, node, pod, world};

use crate::seen::{roomy, roomy_pool, seen};

const EFFECTS: [Effect; 3] = [Effect::NoSchedule, Effect::NoExecute, Effect::PreferNoSchedule];

#[test]
fn every_taint_of_a_pool_must_be_tolerated() {
    // covers: SCH-TAINT-01
    for effect in EFFECTS {
        let start = || {
            world()
                .pool(roomy_pool("clean").weight(1))
                .pool(roomy_pool("tainted").weight(9).taint_of("gpu", "yes", effect))
        };
        assert_eq!(seen(start().pod(pod("p"))).pool_of("p"), "clean", "{effect:?}");
        assert_eq!(seen(start().pod(pod("p").tolerate("gpu"))).pool_of("p"), "tainted", "{effect:?}");
        let twice = world().pool(roomy().taint_of("gpu", "yes", effect).taint("other"));
        assert_eq!(seen(twice.pod(pod("p").tolerate("gpu"))).left(), "p", "one of two is not enough");
    }
    let hard = seen(world().pool(roomy().taint_of("gpu", "yes", Effect::NoExecute)).pod(pod("p")));
    let want = Reason::Pools(vec![(0, PoolReason::Taint { taint: "gpu=yes:NoExecute".to_owned() })]);
    assert_eq!(hard.reason("p"), &want);
}

#[test]
fn every_taint_of_a_node_must_be_tolerated() {
    // covers: SCH-TAINT-01, SCH-EXIST-03
    for effect in EFFECTS {
        let start = || world().pool(roomy()).node(node("n").taint_of("gpu", "yes", effect));
        assert_eq!(seen(start().pod(pod("p"))).on("n"), "", "{effect:?}");
        assert_eq!(seen(start().pod(pod("p").tolerate("gpu"))).on("n"), "p", "{effect:?}");
    }
}

#[test]
fn a_soft_taint_of_a_node_is_tolerated_when_nothing_else_is_left() {
    // covers: SCH-TAINT-11, SCH-GAP-08, SCH-PREF-07
    let soft = || node("soft").taint_of("gpu", "", Effect::PreferNoSchedule);
    assert_eq!(seen(world().node(soft()).pod(pod("p"))).on("soft"), "p", "no pool has a soft taint");
    assert_eq!(seen(world().node(soft()).node(node("z")).pod(pod("p"))).on("z"), "p", "a clean node comes first");
    assert_eq!(seen(world().pool(roomy()).node(soft()).pod(pod("p"))).sizes(), [1], "so does a new one");
    let hard_too = world().node(soft().taint("hard")).pod(pod("p"));
    assert_eq!(seen(hard_too).left(), "p", "hard taints are never given in to");
}

#[test]
fn a_soft_tainted_pool_is_the_last_resort() {
    // covers: SCH-NEW-42, SCH-PREF-07
    let soft = || roomy_pool("soft").weight(100).taint_of("gpu", "", Effect::PreferNoSchedule);
    assert_eq!(seen(world().pool(soft()).pool(roomy()).pod(pod("p"))).pool_of("p"), "default");
    assert_eq!(seen(world().pool(soft()).pod(pod("p"))).pool_of("p"), "soft");
    let limited = roomy().limit("nodes", "0");
    assert_eq!(seen(world().pool(soft()).pool(limited).pod(pod("p"))).pool_of("p"), "soft");
}

#[test]
fn equal_ports_need_different_nodes() {
    // covers: SCH-PORT-04, SCH-PORT-05
    let at = |ip: &str, port, protocol: &str| pod("p").port_at(ip, port, protocol);
    for (a, b, nodes) in [
        (at("0.0.0.0", 80, "TCP"), at("0.0.0.0", 80, "TCP"), 2),
        (at("0.0.0.0", 80, "TCP"), at("0.0.0.0", 81, "TCP"), 1),
        (at("0.0.0.0", 80, "TCP"), at("0.0.0.0", 80, "UDP"), 1),
        (at("10.0.0.1", 80, "TCP"), at("10.0.0.2", 80, "TCP"), 1),
        (at("10.0.0.1", 80, "TCP"), at("10.0.0.1", 80, "TCP"), 2),
        (at("10.0.0.1", 80, "TCP"), at("0.0.0.0", 80, "TCP"), 2),
        (at("::", 80, "TCP"), at("10.0.0.1", 80, "TCP"), 2),
    ] {
        let name = format!("{:?} {:?}", a.shape.host_ports, b.shape.host_ports);
        let seen = seen(world().pool(roomy()).pod(a.named("a")).pod(b.named("b")));
        assert_eq!((seen.sizes().len(), seen.left().as_str()), (nodes, ""), "{name}");
    }
}

#[test]
fn ports_in_use_on_a_node_are_taken() {
    // covers: SCH-PORT-03
    let start = || world().pool(roomy()).node(node("n"));
    let running = |pod: PodBuilder| start().pod(pod.on("n"));
    assert_eq!(seen(running(pod("q").port(80)).pod(pod("p").port(80))).on("n"), "");
    assert_eq!(seen(running(pod("q").port(81)).pod(pod("p").port(80))).on("n"), "p");
    let done = pod("q").port(80).on("n").phase(karpenter_core::pod::Phase::Succeeded);
    assert_eq!(seen(start().pod(done).pod(pod("p").port(80))).on("n"), "p", "whoever is done needs no port");
    let two = seen(start().pod(pod("a").cpu("2").port(80)).pod(pod("b").cpu("1").port(80)).pod(pod("c").port(81)));
    assert_eq!((two.on("n").as_str(), two.new_nodes()), ("a c", vec!["b".to_owned()]), "so are those of this pass");
}

#[test]
fn several_ports_of_one_pod_do_not_clash_with_each_other() {
    // covers: SCH-PORT-03
    let seen = seen(world().pool(roomy()).node(node("n")).pod(pod("p").port(80).port_at("10.0.0.1", 80, "TCP")));
    assert_eq!(seen.on("n"), "p");
}
