//! Pod affinity: near pods that are there, or the first of their kind anywhere.

use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::pod::PodTerm;
use karpenter_core::settings::PreferencePolicy;
use karpenter_testkit::express::{is_in, not_in, pod_term, selecting};
use karpenter_testkit::fake::{self, sold};
use karpenter_testkit::{PodBuilder, WorldBuilder, node, pod, pool, world};

use crate::seen::{WEB, full_node, roomy, roomy_in, roomy_pool, seen, zone_name};

fn web() -> PodBuilder {
    pod("web").app("web")
}

/// Wants to be near web pods and is none.
fn follower() -> PodBuilder {
    pod("follower").app("follower")
}

/// A full node in each of these zones with a web pod on it.
fn running_in(zones: &[&str]) -> WorldBuilder {
    zones.iter().fold(world().pool(roomy()), |world, zone| {
        let name = format!("at-{zone}");
        world.node(full_node(&name, zone)).pod(pod(&format!("running-{zone}")).app("web").on(&name))
    })
}

#[test]
fn every_zone_with_a_match_is_allowed_and_no_other() {
    // covers: SCH-TOPO-36
    for (zones, want) in [(&["2"][..], "2=1"), (&["1", "3"], "1|3=1"), (&["1", "2", "3"], "1|2|3=1")] {
        assert_eq!(seen(running_in(zones).pod(follower().affinity(ZONE, WEB))).zones(), want, "{zones:?}");
    }
}

#[test]
fn only_matches_that_pod_and_target_allow_will_do() {
    // covers: SCH-TOPO-36
    let near = || follower().affinity(ZONE, WEB);
    assert_eq!(seen(running_in(&["1", "2"]).pod(near().zone("test-zone-2"))).zones(), "2=1");
    assert_eq!(seen(running_in(&["1", "2"]).pod(near().zone("test-zone-3"))).left(), "follower");
    let excluding = near().require(vec![not_in(ZONE, &["test-zone-1"])]);
    assert_eq!(seen(running_in(&["1", "2"]).pod(excluding)).zones(), "2=1");
    let mut elsewhere = running_in(&["1"]);
    elsewhere.0.pools.clear();
    let elsewhere = elsewhere.pool(roomy_pool("three").types(roomy_in(&["3"])));
    assert_eq!(seen(elsewhere.pod(near())).left(), "follower", "the pool cannot go where the match is");
}

#[test]
fn a_volume_narrows_where_a_match_will_do() {
    // covers: SCH-TOPO-36, SCH-VOL-19
    let with = |zone: &str| running_in(&["1", "2"]).zonal_claim("data", &zone_name(zone));
    assert_eq!(seen(with("2").pod(follower().claim("data").affinity(ZONE, WEB))).zones(), "2=1");
    assert_eq!(seen(with("3").pod(follower().claim("data").affinity(ZONE, WEB))).left(), "follower");
}

#[test]
fn an_existing_node_in_the_matches_zone_takes_the_pod() {
    // covers: SCH-TOPO-36
    let start = running_in(&["2"]).node(node("far").zone("test-zone-1")).node(node("near").zone("test-zone-2"));
    let start = start.node(node("unlabelled"));
    let seen = seen(start.pod(follower().affinity(ZONE, WEB)));
    assert_eq!(
        (seen.on("far"), seen.on("near"), seen.on("unlabelled")),
        (String::new(), "follower".into(), String::new())
    );
}

#[test]
fn without_any_match_a_pod_that_is_none_itself_is_left() {
    // covers: SCH-TOPO-40
    for key in [ZONE, HOSTNAME] {
        let seen = seen(world().pool(roomy()).pod(follower().affinity(key, WEB)).pod(pod("plain")));
        assert_eq!(seen.left(), "follower", "{key}");
    }
}

#[test]
fn the_first_of_its_kind_settles_on_one_zone_and_the_rest_follow() {
    // covers: SCH-TOPO-37, SCH-GAP-15
    let apart = web().affinity(ZONE, WEB).hostname_spread(1);
    let three = seen(world().pool(roomy()).replicas(3, apart));
    assert_eq!((three.zones().as_str(), three.sizes()), ("1=3", vec![1, 1, 1]));
    // Zones 1 and 2 sell nothing large enough.
    let small = fake::instance_type("small").cpu("2").pods("100").build();
    let large = fake::instance_type("large").cpu("32").pods("100").offerings(vec![sold("test-zone-3", "spot")]).build();
    let launchable = world().pool(pool("default").types(vec![small, large]));
    assert_eq!(seen(launchable.replicas(3, web().cpu("8").affinity(ZONE, WEB))).zones(), "3=3");
}

#[test]
fn nobody_starts_a_second_zone_while_the_first_is_allowed() {
    // covers: SCH-TOPO-37
    let mut start = running_in(&["1"]);
    start.0.pools.clear();
    let start = start.pool(roomy_pool("three").types(roomy_in(&["3"])));
    assert_eq!(seen(start.pod(web().affinity(ZONE, WEB))).left(), "web", "zone 1 holds a match the pod may use");
}

#[test]
fn a_match_the_pod_may_never_use_does_not_keep_it_from_starting_its_own() {
    // covers: SCH-TOPO-37, SCH-TOPO-42
    let own = web().zone("test-zone-2").affinity(ZONE, WEB);
    assert_eq!(seen(running_in(&["1"]).pod(own)).zones(), "2=1");
    let each = |name: &str, zone: &str| pod(name).app("web").zone(&zone_name(zone)).affinity(ZONE, WEB);
    let both = seen(world().pool(roomy()).pod(each("a", "1")).pod(each("b", "2")).pod(each("c", "1")));
    assert_eq!((both.zones().as_str(), both.left().as_str()), ("1=2 2=1", ""));
}

#[test]
fn the_first_of_its_kind_may_settle_on_an_existing_node() {
    // covers: SCH-TOPO-37
    let start = world().pool(roomy()).node(node("here").zone("test-zone-2")).replicas(2, web().affinity(ZONE, WEB));
    assert_eq!(seen(start).on("here"), "web-0 web-1");
}

#[test]
fn on_hosts_all_go_where_the_first_is_and_the_rest_wait() {
    // covers: SCH-TOPO-38, SCH-TOPO-39
    let two = fake::instance_type("two").cpu("4").pods("2").build();
    let together = web().affinity(HOSTNAME, WEB).replicas(3);
    let first = seen(world().pool(pool("default").types(vec![two])).pods(together));
    assert_eq!((first.sizes(), first.left().as_str()), (vec![2], "web-2"));
    let again = seen(first.next_pass());
    assert_eq!((again.sizes(), again.left().as_str()), (vec![], "web-2"), "the first host stays the only one");
}

#[test]
fn on_hosts_the_one_with_a_match_takes_the_pod() {
    // covers: SCH-TOPO-38
    let start =
        || world().pool(roomy()).node(node("empty")).node(node("home")).pod(pod("running").app("web").on("home"));
    assert_eq!(seen(start().pod(follower().affinity(HOSTNAME, WEB))).on("home"), "follower");
    assert_eq!(seen(start().pod(web().affinity(HOSTNAME, WEB))).on("home"), "web");
    let bare = world().pool(roomy()).node(node("empty")).pod(web().affinity(HOSTNAME, WEB));
    assert_eq!(seen(bare).on("empty"), "web", "the first goes anywhere");
}

#[test]
fn two_host_affinities_need_one_host_for_both() {
    // covers: SCH-TOPO-30, SCH-TOPO-38
    let other: &[(&str, &str)] = &[("app", "other")];
    let both = follower().affinity(HOSTNAME, WEB).affinity(HOSTNAME, other);
    let start = |second: &str| {
        let start = world().pool(roomy()).node(node("a")).node(node("b")).pod(pod("w").app("web").on("a"));
        start.pod(pod("o").app("other").on(second)).pod(both.clone())
    };
    assert_eq!((seen(start("a")).on("a").as_str(), seen(start("b")).left().as_str()), ("follower", "follower"));
}

#[test]
fn matches_count_on_all_nodes_also_those_the_owner_cannot_use() {
    // covers: SCH-TOPO-43
    let start = || world().pool(roomy()).node(node("far").zone("test-zone-1")).pod(pod("running").app("web").on("far"));
    let own = web().zone("test-zone-2").affinity(HOSTNAME, WEB);
    assert_eq!(seen(start().pod(own)).left(), "web", "a host with a match exists, if out of reach");
    let mut leaving = start();
    leaving.0.nodes[0].deleting = true;
    leaving.0.pods[0].shape = std::sync::Arc::new(pod("running").app("web").do_not_disrupt("true").shape);
    assert_eq!(seen(leaving.pod(web().affinity(HOSTNAME, WEB))).left(), "web", "also on a host that takes nobody");
}

#[test]
fn an_undecided_match_cannot_be_followed_before_its_node_is_there() {
    // covers: SCH-TOPO-14, SCH-TOPO-41
    let first = seen(world().pool(roomy()).pod(web().cpu("2")).pod(follower().cpu("1").affinity(ZONE, WEB)));
    assert_eq!((first.zones().as_str(), first.left().as_str()), ("*=1", "follower"));
    let second = seen(first.next_pass());
    let zone = first.node_of("web").launch.zone.replace("test-zone-", "");
    assert_eq!((second.zones(), second.left().as_str()), (format!("{zone}=1"), ""));
}

#[test]
fn pods_wait_for_those_they_follow_along_the_whole_chain() {
    // covers: SCH-LOOP-07, SCH-LOOP-08, SCH-LOOP-09, SCH-LOOP-10
    // The last of the chain is the largest and tried first.
    let link = |name: &str, after: &str, cpu: &str| pod(name).app(name).cpu(cpu).affinity(HOSTNAME, &[("app", after)]);
    let start = world().pool(roomy()).pod(link("d", "c", "4")).pod(link("c", "b", "3")).pod(link("b", "a", "2"));
    let seen = seen(start.pod(pod("a").app("a").cpu("1")).pod(link("z", "nobody", "1")));
    assert_eq!((seen.new_nodes(), seen.left().as_str()), (vec!["a b c d".to_owned()], "z"));
}

#[test]
fn wishes_to_be_near_all_hold_at_once_while_they_can() {
    // covers: SCH-TOPO-35
    let other: &[(&str, &str)] = &[("app", "other")];
    let wishing = || follower().prefer_affinity(1, ZONE, WEB).prefer_affinity(10, ZONE, other);
    let start = running_in(&["1", "2"]).node(full_node("o", "2")).pod(pod("running-o").app("other").on("o"));
    assert_eq!(seen(start.pod(wishing())).zones(), "2=1", "only zone 2 has both");
    let conflicting = running_in(&["1"]).node(full_node("o", "3")).pod(pod("running-o").app("other").on("o"));
    assert_eq!(seen(conflicting.pod(wishing())).zones(), "1=1", "the heavier wish is given up first");
    let ignoring = running_in(&["1"]).settings(|settings| settings.preferences = PreferencePolicy::Ignore);
    assert_eq!(seen(ignoring.pod(follower().prefer_affinity(1, ZONE, WEB))).zones(), "*=1");
}

#[test]
fn namespaces_of_a_term() {
    // covers: SCH-TOPO-51
    let all = selecting(&[]);
    let staging = selecting(&[("stage", "staging")]);
    for (namespaces, selector, own, listed, labelled) in [
        (vec![], None, true, false, false),
        (vec!["listed"], None, false, true, false),
        (vec![], Some(staging.clone()), false, false, true),
        (vec!["listed"], Some(staging.clone()), false, true, true),
        (vec!["default"], Some(staging), true, false, true),
        (vec![], Some(all), true, true, true),
    ] {
        for (namespace, want) in [("default", own), ("listed", listed), ("labelled", labelled)] {
            let term = PodTerm {
                namespaces: namespaces.iter().map(|name| (*name).into()).collect(),
                namespace_selector: selector.clone(),
                ..pod_term(ZONE, WEB)
            };
            let start = world().pool(roomy()).node(full_node("at", "2")).namespace("labelled", &[("stage", "staging")]);
            let start = start.namespace("listed", &[("stage", "live")]);
            let start = start.pod(pod("running").app("web").namespace(namespace).on("at"));
            let seen = seen(start.pod(follower().affinity_term(term)));
            assert_eq!(seen.zones() == "2=1", want, "{namespaces:?} {selector:?}: {namespace}");
        }
    }
}

#[test]
fn a_term_without_selector_selects_nobody() {
    // covers: SCH-TOPO-12
    let none = PodTerm { selector: None, ..pod_term(ZONE, WEB) };
    assert_eq!(seen(running_in(&["2"]).pod(web().affinity_term(none))).left(), "web");
    let everybody = PodTerm { selector: Some(selecting(&[])), ..pod_term(ZONE, WEB) };
    assert_eq!(seen(running_in(&["2"]).pod(follower().affinity_term(everybody))).zones(), "2=1");
}

#[test]
fn a_claim_that_settled_on_several_zones_is_narrowed_by_those_who_join() {
    // covers: SCH-TOPO-14, SCH-TOPO-36
    // The claim may be in zones 1 and 2; a spread pod that joins settles it, and only then does it count as a match.
    let start = running_in(&["1", "2"]).pod(follower().cpu("3").affinity(ZONE, WEB));
    let seen = seen(start.pod(pod("pinned").cpu("2").require(vec![is_in(ZONE, &["test-zone-2", "test-zone-3"])])));
    assert_eq!((seen.zones().as_str(), seen.sizes()), ("2=2", vec![2]));
}

#[test]
fn the_old_spelling_of_a_key_means_the_same() {
    // covers: SCH-REQ-05
    let old = "failure-domain.beta.kubernetes.io/zone";
    assert_eq!(seen(running_in(&["2"]).pod(follower().affinity(old, WEB))).zones(), "2=1");
    assert_eq!(seen(running_in(&["1"]).pod(web().spread_over(old, 1))).zones(), "2=1");
}

#[test]
fn a_host_spread_does_not_open_what_an_affinity_closed() {
    // covers: SCH-TOPO-30, SCH-TOPO-38
    // Whichever constraint was seen first: there is no web pod to be near.
    let both = pod("both").app("both").affinity(HOSTNAME, WEB).hostname_spread(1);
    let seen = seen(world().pool(roomy()).pod(follower().affinity(HOSTNAME, WEB)).pod(both));
    assert_eq!((seen.left().as_str(), seen.sizes()), ("both follower", vec![]));
}
