//! Topology spread: which domain is acceptable, and which of those is chosen.

use karpenter_core::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, ZONE};
use karpenter_core::pod::Spread;
use karpenter_testkit::express::{is_in, spread};
use karpenter_testkit::fake::{self, sold};
use karpenter_testkit::{PodBuilder, node, pod, pool, world};

use crate::seen::{WEB, crowds, full_node, roomy, roomy_in, roomy_pool, seen, zone_name};

fn web() -> PodBuilder {
    pod("web").app("web")
}

fn zonal(max_skew: i32, min_domains: Option<i32>) -> Spread {
    Spread { min_domains, ..spread(ZONE, max_skew, WEB) }
}

#[test]
fn the_emptiest_zone_within_the_skew_gets_the_pod() {
    // covers: SCH-TOPO-17, SCH-TOPO-19
    for (counts, max_skew, pods, want) in [
        ([0, 0, 0], 1, 1, "1=1"),
        ([0, 0, 0], 1, 5, "1=2 2=2 3=1"),
        ([0, 0, 0], 5, 4, "1=4"), // an open claim comes before a new one
        ([2, 0, 0], 1, 4, "2=2 3=2"),
        ([2, 0, 0], 2, 1, "2=1"),
        ([1, 1, 0], 1, 1, "3=1"),
        ([0, 3, 1], 1, 3, "1=2 3=1"),
        ([5, 5, 5], 1, 1, "1=1"),
    ] {
        let running = crowds(world().pool(roomy()), &[("1", counts[0]), ("2", counts[1]), ("3", counts[2])]);
        let seen = seen(running.replicas(pods, web().zone_spread(max_skew)));
        assert_eq!((seen.zones().as_str(), seen.left().as_str()), (want, ""), "{counts:?} skew {max_skew}");
    }
}

#[test]
fn a_fuller_zone_will_do_as_long_as_it_stays_within_the_skew() {
    // covers: SCH-TOPO-17, SCH-TOPO-18, SCH-TOPO-20
    // Zone 2 is known, holds the least and takes nobody; all new nodes are in zone 1.
    for (here, there, max_skew, placed) in [
        (0, 0, 1, 1),
        (0, 0, 3, 3),
        (1, 0, 1, 0),
        (2, 0, 3, 1),
        (3, 0, 3, 0),
        (5, 0, 3, 0),
        (2, 1, 1, 0),
        (1, 1, 2, 2),
        (5, 4, 2, 1),
    ] {
        let running = crowds(world(), &[("1", here), ("2", there)]);
        let seen =
            seen(running.pool(roomy_pool("one").types(roomy_in(&["1"]))).replicas(4, web().zone_spread(max_skew)));
        let want = if placed == 0 { String::new() } else { format!("1={placed}") };
        assert_eq!(seen.zones(), want, "{here} here, {there} there, skew {max_skew}");
        assert_eq!(seen.plan.left_over.len(), 4 - placed);
    }
}

#[test]
fn a_pod_that_does_not_count_itself_adds_nothing() {
    // covers: SCH-TOPO-17, SCH-TOPO-24
    let other = || pod("batch").app("batch").spread(zonal(1, None));
    let many = seen(world().pool(roomy()).replicas(4, other()));
    assert_eq!((many.zones().as_str(), many.sizes()), ("1=4", vec![4]));
    for (here, want) in [(0, "1=3"), (1, "1=3"), (2, "")] {
        let running = crowds(world(), &[("1", here), ("2", 0)]);
        let seen = seen(running.pool(roomy_pool("one").types(roomy_in(&["1"]))).replicas(3, other()));
        assert_eq!(seen.zones(), want, "{here} here, none there");
    }
}

#[test]
fn too_few_domains_hold_the_least_at_zero() {
    // covers: SCH-TOPO-22, SCH-TOPO-23
    for (zones, min_domains, max_skew, pods, want, left) in [
        (&["1", "2"][..], Some(3), 1, 3, "1=1 2=1", 1),
        (&["1", "2"], Some(3), 2, 5, "1=2 2=2", 1),
        (&["1", "2"], Some(2), 1, 3, "1=2 2=1", 0),
        (&["1", "2"], None, 1, 3, "1=2 2=1", 0),
        (&["1", "2", "3"], Some(3), 1, 11, "1=4 2=4 3=3", 0),
        (&["1", "2", "3"], Some(2), 1, 11, "1=4 2=4 3=3", 0),
        (&["1", "2", "3"], Some(4), 1, 11, "1=1 2=1 3=1", 8),
    ] {
        let buyable = roomy_pool("default").types(roomy_in(zones));
        let seen = seen(world().pool(buyable).replicas(pods, web().spread(zonal(max_skew, min_domains))));
        let name = format!("{zones:?} minDomains {min_domains:?} skew {max_skew}");
        assert_eq!((seen.zones().as_str(), seen.plan.left_over.len()), (want, left), "{name}");
    }
}

#[test]
fn only_domains_the_pod_may_use_count_towards_the_fewest() {
    // covers: SCH-TOPO-18, SCH-TOPO-22
    let confined = |min_domains| {
        let two = vec![is_in(ZONE, &["test-zone-1", "test-zone-2"])];
        seen(world().pool(roomy()).replicas(4, web().require(two).spread(zonal(1, Some(min_domains)))))
    };
    assert_eq!(confined(2).zones(), "1=2 2=2");
    assert_eq!(confined(3).zones(), "1=1 2=1");
}

#[test]
fn hosts_are_always_to_be_had_so_the_least_is_zero() {
    // covers: SCH-TOPO-05, SCH-TOPO-21
    for (max_skew, want) in [(1, vec![1, 1, 1, 1, 1]), (2, vec![2, 2, 1]), (4, vec![4, 1])] {
        for min_domains in [None, Some(10)] {
            let spread = Spread { min_domains, ..spread(HOSTNAME, max_skew, WEB) };
            let seen = seen(world().pool(roomy()).replicas(5, web().spread(spread)));
            assert_eq!(seen.sizes(), want, "skew {max_skew}, minDomains {min_domains:?}");
        }
    }
}

#[test]
fn a_host_takes_pods_up_to_the_skew() {
    // covers: SCH-TOPO-05, SCH-TOPO-21, SCH-EXIST-16
    for (running, max_skew, app, on_node, on_new) in [
        (0, 1, "web", 1, vec![1, 1]),
        (1, 1, "web", 0, vec![1, 1, 1]),
        (1, 2, "web", 1, vec![2]),
        (2, 3, "web", 1, vec![2]),
        (1, 1, "other", 3, vec![]),
        (2, 1, "other", 0, vec![3]),
    ] {
        let pods = pod("new").app(app).spread(spread(HOSTNAME, max_skew, WEB)).replicas(3);
        let start = world().pool(roomy()).node(node("host")).replicas(running, web().named("running").on("host"));
        let seen = seen(start.pods(pods));
        let here = seen.on("host").split_whitespace().count();
        assert_eq!((here, seen.sizes()), (on_node, on_new), "{running} running, skew {max_skew}, {app}");
    }
}

#[test]
fn zone_and_host_hold_together() {
    // covers: SCH-TOPO-30, SCH-TOPO-31
    let pods = web().zone_spread(1).hostname_spread(2).replicas(7);
    let seen = seen(world().pool(roomy()).pods(pods));
    assert_eq!((seen.zones().as_str(), seen.sizes()), ("1=3 2=2 3=2", vec![2, 2, 2, 1]));
}

#[test]
fn any_key_with_known_domains_can_be_spread_over() {
    // covers: SCH-TOPO-31
    let types = || {
        vec![
            fake::instance_type("amd").pods("100").build(),
            fake::instance_type("arm").pods("100").arch("arm64").build(),
        ]
    };
    for (key, want) in [(CAPACITY_TYPE, "on-demand=3 spot=2"), (ARCH, "amd64=3 arm64=2"), ("team", "blue=3 red=2")] {
        let pool = pool("default").types(types()).require(is_in("team", &["red", "blue"]));
        let seen = seen(world().pool(pool).replicas(5, web().spread_over(key, 1)));
        assert_eq!(seen.per(key, ""), want, "{key}");
    }
    let both =
        seen(world().pool(pool("default").types(types())).replicas(6, web().zone_spread(1).spread_over(ARCH, 1)));
    assert_eq!((both.zones().as_str(), both.per(ARCH, "").as_str()), ("1=2 2=2 3=2", "amd64=3 arm64=3"));
}

#[test]
fn a_common_domain_is_found_where_each_constraint_alone_would_choose_another() {
    // covers: SCH-TOPO-30, SCH-GAP-14
    // Web pods: none in zone 1, one in zone 2. Pods of team red: two in zone 1, none in zone 2.
    let start = world().pool(roomy_pool("default").types(roomy_in(&["1", "2"])));
    let start = start.node(full_node("a", "1")).node(full_node("b", "2")).pod(web().named("w").on("b"));
    let start = start.replicas(2, pod("r").label("team", "red").on("a"));
    let both = |skew_of_web| {
        let pod = web().label("team", "red").spread(spread(ZONE, skew_of_web, WEB));
        pod.spread(spread(ZONE, 1, &[("team", "red")]))
    };
    let seen_with = |skew| seen(start.clone().pod(both(skew)));
    assert_eq!(seen_with(2).zones(), "2=1");
    assert_eq!((seen_with(1).zones().as_str(), seen_with(1).left().as_str()), ("", "web"));
}

#[test]
fn where_two_spreads_leave_several_domains_the_emptiest_in_sum_is_chosen() {
    // covers: SCH-TOPO-30
    let start = world().pool(roomy()).node(full_node("a", "1")).node(full_node("b", "2")).node(full_node("c", "3"));
    let start = start.replicas(2, pod("w").app("web").on("a")).pod(pod("r").label("team", "red").on("b"));
    let start = start.replicas(3, pod("x").label("team", "red").on("c"));
    let pod = web().label("team", "red").spread(spread(ZONE, 9, WEB)).spread(spread(ZONE, 9, &[("team", "red")]));
    assert_eq!(seen(start.pod(pod)).zones(), "2=1");
}

#[test]
fn a_zone_where_nothing_fits_is_passed_over() {
    // covers: SCH-TOPO-20, SCH-GAP-28
    let small = fake::instance_type("small").cpu("2").pods("100");
    let large = fake::instance_type("large").cpu("32").pods("100").offerings(vec![sold("test-zone-2", "on-demand")]);
    let start = || world().pool(pool("default").types(vec![small.clone().build(), large.clone().build()]));
    let pods = |count, skew| web().cpu("10").zone_spread(skew).replicas(count);
    assert_eq!(seen(start().pods(pods(1, 1))).zones(), "2=1");
    let two = seen(start().pods(pods(2, 1)));
    assert_eq!((two.zones().as_str(), two.plan.left_over.len()), ("2=1", 1), "the skew still holds");
    assert_eq!(seen(start().pods(pods(2, 2))).zones(), "2=2");
}

#[test]
fn a_zone_the_pod_can_never_use_holds_the_least_at_zero() {
    // covers: SCH-TOPO-18
    // Zone 3 is sold only in a type of another architecture.
    let types = vec![
        fake::instance_type("amd")
            .cpu("16")
            .pods("100")
            .offerings(vec![sold("test-zone-1", "on-demand"), sold("test-zone-2", "on-demand")])
            .build(),
        fake::instance_type("arm")
            .cpu("16")
            .pods("100")
            .arch("arm64")
            .offerings(vec![sold("test-zone-3", "on-demand")])
            .build(),
    ];
    let by_type =
        seen(world().pool(pool("default").types(types)).replicas(5, web().select(ARCH, "amd64").zone_spread(1)));
    assert_eq!((by_type.zones().as_str(), by_type.plan.left_over.len()), ("1=1 2=1", 3));
    let open = roomy_pool("open").types(roomy_in(&["1", "2"]));
    let closed = roomy_pool("closed").types(roomy_in(&["3"])).taint("closed");
    let by_taint = seen(world().pool(open).pool(closed).replicas(5, web().zone_spread(2)));
    assert_eq!((by_taint.zones().as_str(), by_taint.plan.left_over.len()), ("1=2 2=2", 1));
}

#[test]
fn pods_pinned_to_different_zones_do_not_hold_each_other_back() {
    // covers: SCH-TOPO-32
    let pinned = |name: &str, zone: &str| pod(name).app("web").zone(&zone_name(zone)).zone_spread(1);
    let seen = seen(world().pool(roomy()).replicas(4, pinned("one", "1")).replicas(2, pinned("two", "2")));
    assert_eq!((seen.zones().as_str(), seen.left().as_str()), ("1=4 2=2", ""));
}

#[test]
fn a_preferred_zone_does_not_change_the_least() {
    // covers: SCH-TOPO-33, SCH-REQ-24
    let two = vec![is_in(ZONE, &["test-zone-1", "test-zone-2"])];
    let seen = seen(world().pool(roomy()).replicas(6, web().prefer(1, two).zone_spread(1)));
    assert_eq!((seen.zones().as_str(), seen.left().as_str()), ("1=2 2=2 3=2", ""));
}

#[test]
fn a_volume_narrows_the_target_and_not_the_least() {
    // covers: SCH-TOPO-18, SCH-TOPO-34, SCH-VOL-19
    let with_volume = |max_skew, min_domains| web().claim("data").spread(zonal(max_skew, min_domains));
    let start = |counts: &[(&str, usize)]| crowds(world().pool(roomy()), counts).zonal_claim("data", "test-zone-1");
    let even = [("1", 1), ("2", 1), ("3", 1)];
    assert_eq!(seen(start(&even).pod(with_volume(1, Some(3)))).zones(), "1=1");
    let uneven = [("1", 1), ("2", 0), ("3", 1)];
    assert_eq!(seen(start(&uneven).pod(with_volume(1, None))).left(), "web", "zone 2 still holds the least");
    assert_eq!(seen(start(&uneven).pod(with_volume(2, None))).zones(), "1=1");
}

#[test]
fn a_wish_is_kept_where_it_can_be_and_given_up_where_not() {
    // covers: SCH-TOPO-29
    let start = |ignore| {
        world().pool(roomy_pool("one").types(roomy_in(&["1"]))).node(full_node("b", "2")).settings(move |settings| {
            if ignore {
                settings.preferences = karpenter_core::settings::PreferencePolicy::Ignore;
            }
        })
    };
    let hard = seen(start(false).replicas(3, web().zone_spread(1)));
    assert_eq!((hard.zones().as_str(), hard.plan.left_over.len()), ("1=1", 2));
    let soft = seen(start(false).replicas(3, web().zone_spread(1).anyway()));
    assert_eq!((soft.zones().as_str(), soft.left().as_str()), ("1=3", ""));
    let kept = seen(world().pool(roomy()).replicas(3, web().zone_spread(1).anyway()));
    assert_eq!(kept.zones(), "1=1 2=1 3=1", "enforced while it can be");
    let ignored = seen(start(true).replicas(3, web().zone_spread(1).anyway()));
    assert_eq!((ignored.zones().as_str(), ignored.left().as_str()), ("*=3", ""));
    let dropped = seen(
        world()
            .pool(roomy())
            .settings(|s| s.preferences = karpenter_core::settings::PreferencePolicy::Ignore)
            .replicas(3, web().zone_spread(1).anyway()),
    );
    assert_eq!((dropped.zones().as_str(), dropped.sizes()), ("*=3", vec![3]));
}

#[test]
fn without_a_known_domain_nobody_is_placed_and_others_do_not_care() {
    // covers: SCH-TOPO-07
    let seen = seen(world().pool(roomy()).pod(web().spread_over("rack", 1)).pod(pod("plain")));
    assert_eq!((seen.left().as_str(), seen.new_nodes()), ("web", vec!["plain".to_owned()]));
}

#[test]
fn two_workloads_alternate_where_only_that_keeps_the_spread() {
    // covers: SCH-LOOP-10, SCH-LOOP-07
    // Every pod counts for both; one may use zone 1 only, the other zone 2 only, and the least is over both zones.
    let side = |name: &str, zone: &str| {
        let pool = vec![is_in("karpenter.sh/nodepool", &[&format!("pool-{zone}")])];
        pod(name).app("web").require(pool).zone_spread(1)
    };
    let only = |zone: &str| roomy_pool(&format!("pool-{zone}")).types(roomy_in(&[zone]));
    let start = world().pool(only("1")).pool(only("2"));
    let seen = seen(start.replicas(4, side("left", "1").cpu("2")).replicas(4, side("right", "2").cpu("1")));
    assert_eq!((seen.zones().as_str(), seen.left().as_str()), ("1=4 2=4", ""));
}
