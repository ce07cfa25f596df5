//! Pod anti-affinity: away from pods that are there, and others' wish to be left alone.

use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::pod::{Phase, PodTerm};
use karpenter_core::settings::PreferencePolicy;
use karpenter_testkit::express::{is_in, pod_term, selecting};
use karpenter_testkit::fake;
use karpenter_testkit::{PodBuilder, WorldBuilder, node, pod, pool, world};

use crate::seen::{WEB, full_node, roomy, roomy_in, roomy_pool, seen, zone_name};

fn web() -> PodBuilder {
    pod("web").app("web")
}

/// Keeps away from web pods, and is none.
fn guard() -> PodBuilder {
    pod("guard").app("guard")
}

fn running_in(zones: &[&str]) -> WorldBuilder {
    zones.iter().fold(world().pool(roomy()), |world, zone| {
        let name = format!("at-{zone}");
        world.node(full_node(&name, zone)).pod(pod(&format!("running-{zone}")).app("web").on(&name))
    })
}

#[test]
fn every_empty_zone_stays_open() {
    // covers: SCH-TOPO-44
    for (zones, want, left) in [(&["1"][..], "2|3=1", ""), (&["1", "3"], "2=1", ""), (&["1", "2", "3"], "", "guard")] {
        let seen = seen(running_in(zones).pod(guard().anti_affinity(ZONE, WEB)));
        assert_eq!((seen.zones().as_str(), seen.left().as_str()), (want, left), "{zones:?}");
    }
}

#[test]
fn only_empty_zones_that_pod_and_target_allow_will_do() {
    // covers: SCH-TOPO-44
    let away = || guard().anti_affinity(ZONE, WEB);
    assert_eq!(seen(running_in(&["1"]).pod(away().zone("test-zone-1"))).left(), "guard");
    assert_eq!(seen(running_in(&["1"]).pod(away().zone("test-zone-2"))).zones(), "2=1");
    let two = vec![is_in(ZONE, &["test-zone-1", "test-zone-2"])];
    assert_eq!(seen(running_in(&["1"]).pod(away().require(two))).zones(), "2=1");
    let unknown = running_in(&["1"]).node(node("far").zone("test-zone-9"));
    assert_eq!(seen(unknown.pod(away())).on("far"), "guard", "a zone of a node is as good as any");
}

#[test]
fn zone_by_zone_the_pods_of_a_workload_need_a_pass_each() {
    // covers: SCH-TOPO-14, SCH-TOPO-45, SCH-TOPO-49
    let mut world = world().pool(roomy()).replicas(4, web().anti_affinity(ZONE, WEB));
    let mut used = std::collections::BTreeSet::new();
    for pass in 1..=3 {
        let now = seen(world);
        assert_eq!((now.sizes(), now.plan.left_over.len()), (vec![1], 4 - pass), "pass {pass}");
        used.insert(now.plan.new_nodes[0].launch.zone.clone());
        world = now.next_pass();
    }
    assert_eq!(used.len(), 3, "a zone each");
    let last = seen(world);
    assert_eq!((last.sizes(), last.plan.left_over.len()), (vec![], 1), "there is no fourth zone");
}

#[test]
fn pods_with_zones_of_their_own_need_no_extra_pass() {
    // covers: SCH-TOPO-45
    let each = |zone: &str| pod(&format!("web-{zone}")).app("web").zone(&zone_name(zone)).anti_affinity(ZONE, WEB);
    let seen = seen(world().pool(roomy()).pod(each("1")).pod(each("2")).pod(each("3")));
    assert_eq!((seen.zones().as_str(), seen.left().as_str()), ("1=1 2=1 3=1", ""));
}

#[test]
fn a_claim_counts_wherever_it_may_still_be_launched_and_nowhere_else() {
    // covers: SCH-TOPO-14, SCH-TOPO-45
    // The first guard may end up in zones 1 or 2, so that the second has zone 3 left.
    let two = vec![is_in(ZONE, &["test-zone-1", "test-zone-2"])];
    let first = pod("first").app("web").cpu("4").require(two).anti_affinity(ZONE, WEB);
    let seen_with = |second: PodBuilder| seen(world().pool(roomy()).pod(first.clone()).pod(second)).zones_of("web");
    assert_eq!(seen_with(web().anti_affinity(ZONE, WEB)), "3=1");
    // A web pod without constraints is on a claim that can only be launched in zone 1, though nothing says so.
    let small = fake::instance_type("small").cpu("2").pods("100").build();
    let large = fake::instance_type("large").cpu("16").pods("100").offerings(vec![fake::sold("test-zone-1", "spot")]);
    let sold = world().pool(pool("default").types(vec![small, large.build()])).pod(web().cpu("4"));
    assert_eq!(seen(sold.pod(guard().cpu("1").anti_affinity(ZONE, WEB))).zones_of("guard"), "2|3=1");
}

#[test]
fn on_hosts_each_opens_its_own() {
    // covers: SCH-TOPO-45, SCH-TOPO-50
    let seen_on = |world: WorldBuilder| seen(world.pool(roomy()).replicas(3, web().anti_affinity(HOSTNAME, WEB)));
    assert_eq!(seen_on(world()).sizes(), [1, 1, 1]);
    let with_node = seen_on(world().node(node("here")));
    assert_eq!((with_node.on("here").as_str(), with_node.sizes()), ("web-0", vec![1, 1]));
    let taken = seen_on(world().node(node("here")).pod(pod("running").app("web").on("here")));
    assert_eq!((taken.on("here").as_str(), taken.sizes()), ("", vec![1, 1, 1]));
}

#[test]
fn a_guard_that_runs_keeps_others_out_though_they_say_nothing() {
    // covers: SCH-TOPO-46
    let start = |key: &str| {
        let start = world().pool(roomy()).node(node("n1").zone("test-zone-1")).node(node("n2").zone("test-zone-2"));
        start.pod(guard().anti_affinity(key, WEB).on("n1")).pod(web())
    };
    let by_zone = seen(start(ZONE));
    assert_eq!((by_zone.on("n1").as_str(), by_zone.on("n2").as_str()), ("", "web"));
    assert_eq!(seen(start(HOSTNAME)).on("n2"), "web");
    let full = world().pool(roomy()).node(full_node("n1", "1")).pod(guard().anti_affinity(ZONE, WEB).on("n1"));
    assert_eq!(seen(full.clone().pod(web())).zones(), "2|3=1");
    assert_eq!(seen(full.clone().pod(web().zone("test-zone-1"))).left(), "web");
    assert_eq!(seen(full.pod(pod("other").app("other"))).zones(), "*=1", "others are free");
}

#[test]
fn guards_that_are_gone_keep_nobody_out() {
    // covers: SCH-TOPO-46, SCH-TOPO-48
    let running = || guard().anti_affinity(ZONE, WEB).on("n1");
    for (guard, kept, why) in [
        (running(), true, "running"),
        (running().terminating(), true, "terminating, and still there"),
        (running().phase(Phase::Succeeded), false, "done"),
        (running().phase(Phase::Failed), false, "failed"),
        (running().on("gone"), false, "on a node that is gone"),
        (running().on("unlabelled"), false, "on a node without the key"),
        (running().namespace("other"), false, "looking at its own namespace"),
    ] {
        let start = world().pool(roomy()).node(full_node("n1", "1")).node(node("unlabelled").room("pods", "0"));
        let seen = seen(start.pod(guard).pod(web().zone("test-zone-1")));
        assert_eq!(seen.left(), if kept { "web" } else { "" }, "{why}");
    }
}

#[test]
fn a_guard_that_moves_keeps_nobody_out_of_where_it_was() {
    // covers: SCH-TOPO-48, SCH-POD-19
    let start = world().pool(roomy()).node(full_node("leaving", "1").deleting());
    let guard = guard().cpu("1").zone("test-zone-2").anti_affinity(ZONE, WEB).on("leaving");
    let seen = seen(start.pod(guard).pod(web().zone("test-zone-1")));
    assert_eq!((seen.zones_of("web").as_str(), seen.zones_of("guard").as_str()), ("1=1", "2=1"));
}

#[test]
fn a_guard_placed_in_this_pass_keeps_others_out() {
    // covers: SCH-TOPO-46
    let placed = |guard: PodBuilder| seen(world().pool(roomy()).pod(guard.cpu("4")).pod(web()));
    let settled = placed(guard().zone("test-zone-1").anti_affinity(ZONE, WEB));
    assert_eq!((settled.zones_of("guard").as_str(), settled.zones_of("web").as_str()), ("1=1", "2|3=1"));
    let undecided = placed(guard().anti_affinity(ZONE, WEB));
    assert_eq!(
        (undecided.zones_of("guard").as_str(), undecided.left().as_str()),
        ("1|2|3=1", "web"),
        "it might be anywhere"
    );
    let on_host = placed(guard().anti_affinity(HOSTNAME, WEB));
    assert_eq!(on_host.sizes(), [1, 1]);
    let on_node = seen(
        world()
            .pool(roomy())
            .node(node("n1").zone("test-zone-1"))
            .pod(guard().cpu("1").anti_affinity(ZONE, WEB))
            .pod(web()),
    );
    assert_eq!((on_node.on("n1").as_str(), on_node.zones_of("web").as_str()), ("guard", "2|3=1"));
}

#[test]
fn wishes_to_be_left_alone_bind_nobody_else() {
    // covers: SCH-TOPO-47
    let start = world().pool(roomy()).node(node("n1").zone("test-zone-1"));
    let running = start.clone().pod(guard().prefer_anti_affinity(100, ZONE, WEB).on("n1")).pod(web());
    assert_eq!(seen(running).on("n1"), "web");
    let placed = start.pod(guard().cpu("1").prefer_anti_affinity(100, ZONE, WEB)).pod(web());
    assert_eq!(seen(placed).on("n1"), "guard web");
}

#[test]
fn a_wish_to_keep_away_is_kept_where_it_can_be() {
    // covers: SCH-TOPO-35, SCH-TOPO-47
    let wish = || guard().prefer_anti_affinity(1, ZONE, WEB);
    assert_eq!(seen(running_in(&["1"]).pod(wish())).zones(), "2|3=1");
    assert_eq!(seen(running_in(&["1", "2", "3"]).pod(wish())).zones(), "*=1");
    let ignoring = running_in(&["1"]).settings(|settings| settings.preferences = PreferencePolicy::Ignore);
    assert_eq!(seen(ignoring.pod(wish())).zones(), "*=1");
}

#[test]
fn empty_lists_constrain_nothing() {
    // covers: SCH-TOPO-53
    let mut free = web();
    (free.shape.required_pod_affinity, free.shape.required_pod_anti_affinity) = (Vec::new(), Vec::new());
    assert_eq!(seen(running_in(&["1"]).pod(free)).zones(), "*=1");
}

#[test]
fn selectors_and_namespaces_of_a_term_decide_who_is_avoided() {
    // covers: SCH-TOPO-12, SCH-TOPO-51
    let elsewhere = PodTerm { namespaces: vec!["other".into()], ..pod_term(ZONE, WEB) };
    let nobody = PodTerm { selector: None, ..pod_term(ZONE, WEB) };
    let everybody = PodTerm { selector: Some(selecting(&[])), ..pod_term(ZONE, WEB) };
    for (term, want, why) in [
        (pod_term(ZONE, WEB), "2|3=1", "its own namespace"),
        (elsewhere, "1|2|3=1", "another namespace"),
        (nobody, "1|2|3=1", "nobody"),
        (everybody, "2|3=1", "everybody"),
    ] {
        assert_eq!(seen(running_in(&["1"]).pod(guard().anti_affinity_term(term))).zones(), want, "{why}");
    }
}

#[test]
fn domains_do_not_depend_on_whose_constraint_was_seen_first() {
    // covers: SCH-TOPO-54, SCH-GAP-16
    // Zone 3 is behind a taint that only the second owner tolerates.
    let open = roomy_pool("open").types(roomy_in(&["1", "2"]));
    let closed = roomy_pool("closed").types(roomy_in(&["3"])).taint("closed");
    let first = pod("first").app("web").cpu("2").zone("test-zone-1").anti_affinity(ZONE, WEB);
    let second = pod("second").app("web").cpu("1").zone("test-zone-3").tolerate("closed").anti_affinity(ZONE, WEB);
    let seen = seen(world().pool(open).pool(closed).pod(first).pod(second));
    assert_eq!((seen.zones().as_str(), seen.left().as_str()), ("1=1 3=1", ""));
}

#[test]
fn spread_and_anti_affinity_on_one_key_meet_where_both_can() {
    // covers: SCH-TOPO-30, SCH-GAP-14
    let spread_out = web().zone_spread(1).anti_affinity(ZONE, &[("app", "guard")]);
    let start = running_in(&["2", "3"]).node(full_node("g", "1")).pod(guard().on("g"));
    assert_eq!(seen(start.clone().pod(spread_out.clone())).left(), "web", "zone 1 is the emptiest and guarded");
    let even = start.pod(pod("more").app("web").on("g"));
    assert_eq!(seen(even.pod(spread_out)).zones(), "2=1");
}

#[test]
fn a_custom_key_no_node_will_carry_keeps_nobody_out() {
    // covers: SCH-TOPO-46
    let start =
        world().pool(roomy()).node(node("n1").label("rack", "r1")).pod(guard().anti_affinity("rack", WEB).on("n1"));
    let seen = seen(start.node(node("n2")).pod(web()));
    assert_eq!((seen.on("n1").as_str(), seen.on("n2").as_str()), ("", "web"));
    let new = world().pool(roomy()).node(full_node("n1", "1").label("rack", "r1"));
    let new = new.pod(guard().anti_affinity("rack", WEB).on("n1")).pod(web());
    assert_eq!(crate::seen::seen(new).sizes(), [1]);
}
