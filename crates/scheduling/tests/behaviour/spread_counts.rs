//! Which pods a spread counts, and where.

use karpenter_core::labels::{ARCH, HOSTNAME, ZONE};
use karpenter_core::node::Stage;
use karpenter_core::pod::{Phase, Spread};
use karpenter_core::selector::{Selector, SelectorExpression, SelectorOperator};
use karpenter_testkit::express::{exists, is_in, spread};
use karpenter_testkit::fake;
use karpenter_testkit::{PodBuilder, WorldBuilder, node, pod, pool, world};

use crate::seen::{WEB, full_node, roomy, roomy_in, roomy_pool, seen, zone_name};

/// Two zones to choose from; the first by name wins a tie.
fn two_zones() -> WorldBuilder {
    let start = world().pool(roomy_pool("default").types(roomy_in(&["1", "2"])));
    start.node(full_node("a", "1")).node(full_node("b", "2"))
}

fn web() -> PodBuilder {
    pod("web").app("web")
}

/// Where one more pod goes: to zone 2 if what is in zone 1 counts.
fn goes_to(world: WorldBuilder) -> String {
    seen(world.pod(web().zone_spread(1))).zones_of("web")
}

#[test]
fn pods_that_count() {
    // covers: SCH-TOPO-09, SCH-TOPO-11, SCH-TOPO-16
    let running = || pod("running").app("web").on("a");
    for (other, counts, why) in [
        (running(), true, "bound, active, selected"),
        (running().phase(Phase::Pending), true, "bound and not yet running"),
        (running().phase(Phase::Succeeded), false, "succeeded"),
        (running().phase(Phase::Failed), false, "failed"),
        (running().terminating(), false, "terminating"),
        (running().namespace("other"), false, "of another namespace"),
        (running().app("other"), false, "not selected"),
        (running().on("gone"), false, "on a node that no longer exists"),
        (running().on("unlabelled"), false, "on a node without the key"),
        (running().on("leaving").do_not_disrupt("true"), true, "staying on a node that leaves"),
        (running().on("coming"), true, "planned for a node that is still on its way"),
        (running().daemon_of("d"), true, "a daemon"),
    ] {
        let start = two_zones().node(node("unlabelled").room("pods", "0"));
        let start = start.node(full_node("leaving", "1").deleting());
        let start = start.node(full_node("coming", "1").of_pool("default").stage(Stage::Launched)).pod(other);
        assert_eq!(goes_to(start), if counts { "2=1" } else { "1=1" }, "{why}");
    }
}

#[test]
fn a_pod_that_moves_does_not_count_where_it_was() {
    // covers: SCH-TOPO-09, SCH-POD-19
    let start = two_zones().node(full_node("leaving", "1").deleting()).pod(web().zone_spread(1).on("leaving"));
    let seen = seen(start);
    assert_eq!(seen.zones(), "1=1", "zone 1 counts as empty");
}

#[test]
fn an_absent_selector_selects_nobody_and_an_empty_one_everybody() {
    // covers: SCH-TOPO-12, SCH-GAP-12
    let bad = SelectorExpression { key: "app".to_owned(), operator: SelectorOperator::In, values: Vec::new() };
    for (selector, want, why) in [
        (None, "1=3", "absent"),
        (Some(Selector::new([])), "1=1 2=2", "empty"),
        (Some(Selector::new([bad])), "1=3", "malformed"),
        (Some(Selector::invalid()), "1=3", "invalid"),
    ] {
        let constraint = Spread { selector, ..spread(ZONE, 1, WEB) };
        let start = two_zones().pod(pod("anybody").on("a"));
        assert_eq!(seen(start.replicas(3, web().spread(constraint))).zones_of("web"), want, "{why}");
    }
}

#[test]
fn a_placement_counts_in_every_group_that_selects_it_whoever_owns_it() {
    // covers: SCH-TOPO-13
    let large = pod("large").app("web").cpu("4").zone("test-zone-1");
    let seen_with = |first: PodBuilder| seen(two_zones().pod(first).pod(web().zone_spread(1))).zones_of("web");
    assert_eq!(seen_with(large.clone()), "2=1");
    assert_eq!(seen_with(large.app("other")), "1=1");
}

#[test]
fn a_placement_that_has_not_settled_on_a_zone_is_not_counted() {
    // covers: SCH-TOPO-14
    // The first claim may still become either zone; the spread pod must not be kept from the first by it.
    let first = pod("large").app("web").cpu("4");
    let seen = seen(two_zones().pod(first).replicas(2, web().cpu("1").zone_spread(1)));
    assert_eq!(seen.zones_of("large"), "1=1", "the spread pod joined it and settled it");
    assert_eq!(seen.zones_of("web"), "1=1 2=1");
}

#[test]
fn a_pod_placed_on_an_existing_node_counts_in_its_zone() {
    // covers: SCH-TOPO-13, SCH-EXIST-08
    let start = world().pool(roomy_pool("default").types(roomy_in(&["1", "2"])));
    let start = start.node(node("here").zone(&zone_name("1"))).replicas(4, web().zone_spread(1));
    let seen = seen(start);
    assert_eq!((seen.on("here"), seen.zones().as_str()), ("web-0 web-2".to_owned(), "1=2 2=2"));
}

#[test]
fn an_existing_node_without_the_label_is_no_place_for_a_spread_pod() {
    // covers: SCH-TOPO-19
    let seen = seen(world().pool(roomy()).node(node("unlabelled")).pod(web().zone_spread(1)));
    assert_eq!((seen.on("unlabelled").as_str(), seen.zones().as_str()), ("", "1=1"));
}

#[test]
fn a_node_without_a_hostname_label_counts_under_its_name() {
    // covers: SCH-TOPO-10, SCH-EXIST-04
    let start = |count| {
        let bare = node("bare").without_label(HOSTNAME);
        world().pool(roomy()).node(bare).replicas(count, pod("running").app("web").on("bare"))
    };
    for (running, want) in [(0, "web"), (1, "")] {
        assert_eq!(seen(start(running).pod(web().hostname_spread(1))).on("bare"), want, "{running} running");
    }
}

#[test]
fn the_pods_own_values_of_match_label_keys_are_part_of_the_selector() {
    // covers: SCH-TOPO-28
    let keyed = |keys: &[&str], more: &[(&str, &str)]| Spread {
        match_label_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ..spread(ZONE, 1, &[WEB, more].concat())
    };
    let old = || pod("old").app("web").label("hash", "1").on("a");
    for (constraint, want, why) in [
        (keyed(&[], &[]), "2=1", "any revision counts"),
        (keyed(&["hash"], &[]), "1=1", "only its own revision counts"),
        (keyed(&["missing"], &[]), "2=1", "a key the pod does not have is ignored"),
        (keyed(&["hash"], &[("hash", "2")]), "1=1", "already added at admission"),
    ] {
        let new = web().label("hash", "2").spread(constraint);
        assert_eq!(seen(two_zones().pod(old()).pod(new)).zones_of("web"), want, "{why}");
    }
    let nobody = Spread { selector: None, ..keyed(&["hash"], &[]) };
    let own =
        |hash: &str| seen(two_zones().pod(old()).pod(web().label("hash", hash).spread(nobody.clone()))).zones_of("web");
    assert_eq!((own("1").as_str(), own("2").as_str()), ("2=1", "1=1"), "without a selector the keys alone select");
}

#[test]
fn constraints_that_differ_do_not_share_their_counts() {
    // covers: SCH-TOPO-08, SCH-GAP-11
    // Equal but for minDomains: the one that wants three zones of two is held at one pod a zone.
    let with = |name: &str, min_domains| pod(name).app(name).spread(Spread { min_domains, ..spread(ZONE, 1, &[]) });
    let start = world().pool(roomy_pool("default").types(roomy_in(&["1", "2"])));
    let seen = seen(start.replicas(4, with("three", Some(3)).cpu("2")).replicas(2, with("two", Some(2)).cpu("1")));
    assert_eq!((seen.zones_of("three").as_str(), seen.zones_of("two").as_str()), ("1=1 2=1", "1=1 2=1"));
}

#[test]
fn filters_that_differ_in_values_do_not_share_their_counts() {
    // covers: SCH-TOPO-08, SCH-GAP-11
    // Each team counts on nodes of its own team only, so neither sees the other's pods.
    let team = |name: &str| roomy_pool(name).types(roomy_in(&["1", "2"])).label("team", name);
    let of = |name: &str, cpu: &str| pod(name).app("web").cpu(cpu).select("team", name).zone_spread(1);
    let start = world().pool(team("red")).pool(team("blue")).node(full_node("a", "1").label("team", "red"));
    let start = start.pod(pod("running").app("web").on("a"));
    let seen = seen(start.pod(of("blue", "2")).pod(of("red", "1")));
    assert_eq!((seen.zones_of("blue").as_str(), seen.zones_of("red").as_str()), ("1=1", "2=1"));
}

#[test]
fn repeated_expressions_do_not_change_who_shares_a_group() {
    // covers: SCH-TOPO-08
    let once = spread(ZONE, 1, WEB);
    let twice = spread(ZONE, 1, &[WEB, WEB].concat());
    let start = world().pool(roomy_pool("default").types(roomy_in(&["1", "2"])));
    let seen = seen(start.pod(web().named("a").cpu("2").spread(once)).pod(web().named("b").cpu("1").spread(twice)));
    assert_eq!((seen.zones_of("a").as_str(), seen.zones_of("b").as_str()), ("1=1", "2=1"));
}

#[test]
fn a_group_that_relaxation_makes_sees_what_was_placed_before() {
    // covers: SCH-TOPO-15, SCH-GAP-13
    // Giving up the first alternative changes which nodes the spread counts, and so the group.
    let first = pod("large").app("web").cpu("4").zone("test-zone-1");
    let second = web().require(vec![is_in(fake::SIZE, &["none"])]).require(vec![exists(ZONE)]).zone_spread(1);
    let seen = seen(two_zones().pod(first).pod(second));
    assert_eq!(seen.zones_of("web"), "2=1");
}

#[test]
fn a_pod_leaves_the_groups_it_gave_up() {
    // covers: SCH-TOPO-15
    // Its wish to spread over racks cannot be met; without it the pod is free, and the next pod starts whole again.
    let wish = |name: &str| pod(name).app("web").spread_over("rack", 1).anyway().zone_spread(1);
    let seen = seen(two_zones().pod(wish("first").cpu("2")).pod(wish("second").cpu("1")));
    assert_eq!((seen.zones_of("first").as_str(), seen.zones_of("second").as_str()), ("1=1", "2=1"));
}

#[test]
fn an_undecided_claim_counts_if_whatever_it_becomes_satisfies_the_owner() {
    // covers: SCH-TOPO-25, SCH-GAP-25
    let kind = |name: &str, arch: &str| fake::instance_type(name).cpu("16").pods("100").arch(arch).build();
    for (types, want, why) in [
        (vec![kind("a", "amd64"), kind("b", "amd64")], "2=1", "all it can become is amd64"),
        (vec![kind("a", "amd64"), kind("b", "arm64")], "1=1", "it may become arm64"),
    ] {
        let start = world().pool(pool("default").types(types).require(is_in(ZONE, &["test-zone-1", "test-zone-2"])));
        let start = start.pod(pod("large").app("web").cpu("10").zone("test-zone-1"));
        let start = start.pod(web().cpu("8").select(ARCH, "amd64").zone_spread(1));
        assert_eq!(seen(start).zones_of("web"), want, "{why}");
    }
}

#[test]
fn selectors_may_exclude_a_single_value() {
    // covers: SCH-TOPO-09
    let but = |operator, values: &[&str]| SelectorExpression {
        key: "app".to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    for (expression, want) in [
        (but(SelectorOperator::NotIn, &["db"]), "2=1"),
        (but(SelectorOperator::NotIn, &["web"]), "1=1"),
        (but(SelectorOperator::In, &["web", "db"]), "2=1"),
        (but(SelectorOperator::Exists, &[]), "2=1"),
        (but(SelectorOperator::DoesNotExist, &[]), "1=1"),
    ] {
        let constraint = Spread { selector: Some(Selector::new([expression.clone()])), ..spread(ZONE, 1, WEB) };
        let start = two_zones().pod(pod("running").app("web").on("a")).pod(web().spread(constraint));
        assert_eq!(seen(start).zones_of("web"), want, "{expression:?}");
    }
}
