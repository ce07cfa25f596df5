//! Daemons: what new nodes will also run, and what existing ones still wait for.

use karpenter_core::labels::{ARCH, INITIALIZED, REGISTERED};
use karpenter_core::resources::{CPU, MEMORY, PODS};
use karpenter_core::taints::Effect;
use karpenter_core::{InstanceType, Resources};
use karpenter_testkit::express::{exists, is_absent, is_in, not_in};
use karpenter_testkit::fake::{self, SIZE};
use karpenter_testkit::{PodBuilder, node, pod, pool, resources, world};

use crate::seen::{Seen, roomy, seen};

fn daemon() -> PodBuilder {
    pod("agent").cpu("1")
}

fn requests(seen: &Seen) -> Resources {
    seen.plan.new_nodes[0].requests.clone()
}

fn cpu_of(seen: &Seen) -> String {
    requests(seen).get(CPU).to_string()
}

/// 4 and 16 CPUs; only the second is `large`.
fn small_and_large() -> Vec<InstanceType> {
    let small = fake::instance_type("small").cpu("4").memory("4Gi").pods("10");
    let large = fake::instance_type("large").cpu("16").memory("64Gi").pods("10");
    vec![small.build(), large.build()]
}

#[test]
fn pods_and_daemons_are_added_up_once() {
    // covers: SCH-DS-08, SCH-DS-10, SCH-NEW-18, SCH-NEW-37
    let seen = seen(world().pool(roomy()).daemon_set(daemon().memory("1Gi")).replicas(2, pod("p").cpu("1")));
    assert_eq!(requests(&seen), resources(&[(CPU, "3"), (MEMORY, "1Gi"), (PODS, "3")]));
}

#[test]
fn a_daemon_takes_a_pods_slot() {
    // covers: SCH-DS-08
    let two_slots = || world().pool(pool("default").types(vec![fake::instance_type("t").pods("2").build()]));
    assert_eq!(seen(two_slots().replicas(4, pod("p"))).sizes(), [2, 2]);
    assert_eq!(seen(two_slots().daemon_set(pod("agent")).replicas(4, pod("p"))).sizes(), [1, 1, 1, 1]);
}

#[test]
fn what_daemons_leave_decides_what_fits() {
    // covers: SCH-DS-08, SCH-NEW-18
    // 4 CPUs less 100m for the kubelet less the daemon's.
    for (asked, want) in [("2900m", ""), ("2901m", "p")] {
        let types = vec![fake::instance_type("t").cpu("4").build()];
        let seen = seen(world().pool(pool("default").types(types)).daemon_set(daemon()).pod(pod("p").cpu(asked)));
        assert_eq!(seen.left(), want, "{asked}");
    }
}

#[test]
fn daemons_come_where_taints_and_requirements_let_them() {
    // covers: SCH-DS-04, SCH-DS-05, SCH-DS-06
    let tainted = |effect| roomy().taint_of("gpu", "yes", effect);
    let tolerating = || pod("p").cpu("1").tolerate("gpu");
    for (pool, daemon, counted, why) in [
        (roomy(), daemon(), true, "anywhere"),
        (tainted(Effect::NoSchedule), daemon(), false, "a taint"),
        (tainted(Effect::NoExecute), daemon(), false, "a taint that evicts"),
        (tainted(Effect::PreferNoSchedule), daemon(), true, "a soft taint"),
        (tainted(Effect::NoSchedule), daemon().tolerate("gpu"), true, "a tolerated taint"),
        (roomy(), daemon().select("team", "red"), false, "a label the pool does not define"),
        (roomy(), daemon().require(vec![not_in("team", &["red"])]), true, "absence will do"),
        (roomy(), daemon().require(vec![is_absent("team")]), true, "absence is asked for"),
        (roomy().label("team", "red"), daemon().select("team", "red"), true, "the pool's label"),
        (roomy().label("team", "blue"), daemon().select("team", "red"), false, "another label"),
        (roomy(), daemon().select(ARCH, "amd64"), true, "what the type says"),
        (roomy(), daemon().select(ARCH, "arm64"), false, "not what the type says"),
        (roomy(), daemon().prefer(1, vec![is_in("team", &["red"])]), true, "wishes are ignored"),
        (roomy(), daemon().affinity("rack", &[("app", "x")]), true, "pod affinity is ignored"),
        (roomy(), daemon().spread_over("rack", 1), true, "spread is ignored"),
    ] {
        let seen = seen(world().pool(pool).daemon_set(daemon).pod(tolerating()));
        assert_eq!(cpu_of(&seen), if counted { "2" } else { "1" }, "{why}");
    }
}

#[test]
fn every_alternative_is_tried_for_every_type_pool_and_node() {
    // covers: SCH-DS-04, SCH-DS-16, SCH-GAP-06
    let either = || daemon().require(vec![is_in(SIZE, &["small"])]).require(vec![is_in(SIZE, &["large"])]);
    let both = seen(world().pool(pool("default").types(small_and_large())).daemon_set(either()).pod(pod("p").cpu("1")));
    assert_eq!((cpu_of(&both).as_str(), both.type_names(&both.plan.new_nodes[0]).as_str()), ("2", "small large"));
    let teams = || daemon().require(vec![is_in("team", &["red"])]).require(vec![is_in("team", &["blue"])]);
    let two = world().pool(roomy().label("team", "blue")).pool(crate::seen::roomy_pool("red").label("team", "red"));
    let two = two
        .daemon_set(teams())
        .pod(pod("a").cpu("1").select("team", "red"))
        .pod(pod("b").cpu("1").select("team", "blue"));
    let two = seen(two);
    assert!(two.plan.new_nodes.iter().all(|node| node.requests.get(CPU).to_string() == "2"), "both pools run it");
    let on_node = |team: &str| {
        let seen =
            seen(world().node(node("n").cpu("2").label("team", team)).daemon_set(teams()).pod(pod("p").cpu("2")));
        seen.left()
    };
    assert_eq!((on_node("red").as_str(), on_node("blue").as_str(), on_node("green").as_str()), ("p", "p", ""));
}

#[test]
fn daemons_may_select_the_labels_of_a_started_node() {
    // covers: SCH-DS-07, SCH-NEW-33
    for key in [REGISTERED, INITIALIZED] {
        let seen = seen(world().pool(roomy()).daemon_set(daemon().select(key, "true")).pod(pod("p").cpu("1")));
        assert_eq!(cpu_of(&seen), "2", "{key}");
        let node = &seen.plan.new_nodes[0];
        assert!(!node.labels.contains_key(key) && !node.requirements.has(key), "{key} must not reach the claim");
    }
    assert_eq!(
        cpu_of(&seen(world().pool(roomy()).daemon_set(daemon().select(REGISTERED, "false")).pod(pod("p").cpu("1")))),
        "1"
    );
}

#[test]
fn types_that_run_different_daemons_are_tested_each_with_its_own() {
    // covers: SCH-DS-09
    let on_small = daemon().select(SIZE, "small").cpu("3");
    let start = || world().pool(pool("default").types(small_and_large())).daemon_set(on_small.clone());
    for (asked, want) in [("900m", "small large"), ("901m", "large")] {
        let seen = seen(start().pod(pod("p").cpu(asked)));
        assert_eq!(seen.type_names(&seen.plan.new_nodes[0]), want, "{asked}");
    }
}

#[test]
fn what_is_requested_is_the_least_over_the_types_that_are_left() {
    // covers: SCH-DS-11, SCH-GAP-07
    let with = |daemons: Vec<PodBuilder>, asked: &str| {
        let start = world().pool(pool("default").types(small_and_large()));
        let seen =
            seen(daemons.into_iter().fold(start, |world, daemon| world.daemon_set(daemon)).pod(pod("p").cpu(asked)));
        requests(&seen)
    };
    let everywhere = || pod("everywhere").cpu("500m").memory("100Mi");
    let on_large = || pod("on-large").cpu("2").memory("10Mi").select(SIZE, "large");
    let on_small = || pod("on-small").cpu("1").memory("20Mi").select(SIZE, "small");
    assert_eq!(with(vec![on_large()], "1"), resources(&[(CPU, "1"), (PODS, "1")]), "small runs none");
    assert_eq!(with(vec![on_large()], "8"), resources(&[(CPU, "10"), (MEMORY, "10Mi"), (PODS, "2")]), "small is gone");
    assert_eq!(with(vec![everywhere(), on_large()], "1"), resources(&[(CPU, "1500m"), (MEMORY, "100Mi"), (PODS, "2")]));
    assert_eq!(
        with(vec![on_small(), on_large()], "1"),
        resources(&[(CPU, "2"), (MEMORY, "10Mi"), (PODS, "2")]),
        "resource by resource"
    );
}

#[test]
fn daemons_ports_are_taken_on_their_types_alone() {
    // covers: SCH-DS-12, SCH-PORT-04
    let start = |daemon: PodBuilder| world().pool(pool("default").types(small_and_large())).daemon_set(daemon);
    let clash = seen(start(pod("agent").port(80).select(SIZE, "small")).pod(pod("p").port(80)));
    assert_eq!(clash.type_names(&clash.plan.new_nodes[0]), "large");
    let other = seen(start(pod("agent").port(81).select(SIZE, "small")).pod(pod("p").port(80)));
    assert_eq!(other.type_names(&other.plan.new_nodes[0]), "small large");
    assert_eq!(seen(start(pod("agent").port(80)).pod(pod("p").port(80))).left(), "p");
}

#[test]
fn too_much_for_any_type_once_daemons_are_counted() {
    // covers: SCH-DS-13
    let start = || world().pool(pool("default").types(small_and_large()));
    assert_eq!(seen(start().pod(pod("p").cpu("15"))).left(), "");
    assert_eq!(seen(start().daemon_set(daemon()).pod(pod("p").cpu("15"))).left(), "p");
}

#[test]
fn the_newest_pod_of_a_daemon_set_speaks_for_it() {
    // covers: SCH-DS-01, SCH-DS-03
    let observed = |name: &str, cpu: &str, at: &str| {
        let pinned = vec![is_in("kubernetes.io/hostname", &["elsewhere"])];
        pod(name).cpu(cpu).daemon_of("agent").on("elsewhere").created(at).require(pinned)
    };
    let template = || daemon().require(vec![exists(ARCH)]);
    let start = || world().pool(roomy()).pod(pod("p").cpu("1"));
    assert_eq!(cpu_of(&seen(start().daemon_set(template()))), "2", "the template, while nothing is observed");
    let one = start().daemon_set(template()).pod(observed("agent-a", "3", "2026-01-01T10:00:00Z"));
    assert_eq!(cpu_of(&seen(one.clone())), "4");
    let two = one.pod(observed("agent-b", "5", "2026-01-01T09:00:00Z"));
    assert_eq!(cpu_of(&seen(two.clone())), "4", "an older one says nothing");
    assert_eq!(cpu_of(&seen(two.pod(observed("agent-c", "7", "2026-01-01T11:00:00Z")))), "8");
}

#[test]
fn daemons_still_to_come_keep_their_room_on_a_node() {
    // covers: SCH-DS-14, SCH-RES-15
    let start = |cpu: &str| world().node(node("n").cpu(cpu)).pod(pod("p").cpu("1"));
    let here = |cpu: &str| pod("agent-x").cpu(cpu).daemon_of("agent").on("n");
    for (world, want, why) in [
        (start("1"), "p", "no daemon"),
        (start("1").daemon_set(daemon()), "", "the daemon is to come"),
        (start("2").daemon_set(daemon()), "p", "room for both"),
        (start("2").daemon_set(daemon()).pod(here("1")), "p", "it has come"),
        (start("2").daemon_set(daemon()).pod(here("1")).pod(pod("q").cpu("1").on("n")), "", "and somebody else"),
        (
            start("2500m").daemon_set(daemon().cpu("2")).pod(here("500m")),
            "",
            "a smaller one has come: the newest counts",
        ),
    ] {
        let seen = seen(world);
        if why.starts_with("a smaller") {
            assert_eq!(seen.on("n"), "p", "the observed pod is what the daemon set is");
        } else {
            assert_eq!(seen.on("n"), want, "{why}");
        }
    }
}

#[test]
fn daemons_that_came_unasked_make_no_room() {
    // covers: SCH-DS-15
    // Two unexpected CPUs run; the expected one is still to come, and nothing less than nothing.
    let unexpected = pod("other-x").cpu("2").daemon_of("other").on("n");
    let start = |cpu: &str| {
        let start = world().node(node("n").cpu(cpu)).pod(unexpected.clone()).pod(pod("p").cpu("1"));
        start.daemon_set(pod("other").cpu("2").select("team", "red"))
    };
    assert_eq!(seen(start("3")).on("n"), "p");
    assert_eq!(seen(start("2900m")).on("n"), "", "what runs unexpectedly is not given back");
    let memory = world().node(node("n").cpu("4").memory("2Gi")).pod(unexpected.clone()).pod(pod("p").memory("2Gi"));
    assert_eq!(seen(memory.daemon_set(pod("agent").memory("1Gi"))).on("n"), "", "clamped resource by resource");
}

#[test]
fn a_nodes_own_labels_and_taints_decide_about_its_daemons() {
    // covers: SCH-DS-16, SCH-DS-05
    let fits = |node: karpenter_testkit::NodeBuilder, daemon: PodBuilder| {
        seen(world().node(node.cpu("1")).daemon_set(daemon).pod(pod("p").cpu("1").tolerate("gpu"))).on("n") == "p"
    };
    assert!(!fits(node("n"), daemon()));
    assert!(fits(node("n"), daemon().select(ARCH, "amd64")), "a label the node lacks is not assumed");
    assert!(!fits(node("n").label(ARCH, "amd64"), daemon().select(ARCH, "amd64")));
    assert!(fits(node("n").taint("gpu"), daemon()), "kept away by the taint");
    assert!(!fits(node("n").taint("gpu"), daemon().tolerate("gpu")));
    assert!(!fits(node("n").taint_of("gpu", "", Effect::PreferNoSchedule), daemon()), "a soft taint keeps none away");
}

#[test]
fn daemons_with_devices_count_for_nothing_while_devices_are_ignored() {
    // covers: SCH-DS-17
    let start = |ignore| {
        let start = world().pool(roomy()).daemon_set(daemon().wants_devices()).pod(pod("p").cpu("1"));
        cpu_of(&seen(start.settings(move |settings| settings.ignore_device_requests = ignore)))
    };
    assert_eq!((start(true).as_str(), start(false).as_str()), ("1", "2"));
}
