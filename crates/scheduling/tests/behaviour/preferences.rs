//! Wishes: kept while they can be, given up one at a time, never in the way.

use karpenter_core::labels::{ARCH, CAPACITY_TYPE, ZONE};
use karpenter_core::settings::PreferencePolicy;
use karpenter_core::taints::Effect;
use karpenter_testkit::express::is_in;
use karpenter_testkit::{PodBuilder, WorldBuilder, node, pod, world};

use crate::seen::{WEB, full_node, roomy, roomy_pool, seen};

fn in_zone(zone: &str) -> Vec<karpenter_core::requirement::Expression> {
    vec![is_in(ZONE, &[&format!("test-zone-{zone}")])]
}

fn ignoring(world: WorldBuilder) -> WorldBuilder {
    world.settings(|settings| settings.preferences = PreferencePolicy::Ignore)
}

fn zones(pod: PodBuilder) -> String {
    seen(world().pool(roomy()).pod(pod)).zones()
}

#[test]
fn wishes_are_enforced_until_they_cannot_be() {
    // covers: SCH-PREF-01, SCH-PREF-04, SCH-PREF-08
    let nowhere = || vec![is_in(ZONE, &["none"])];
    for (wishes, want, why) in [
        (vec![(1, in_zone("2"))], "2=1", "kept"),
        (vec![(1, nowhere())], "*=1", "impossible"),
        (vec![(1, in_zone("2")), (9, in_zone("3"))], "3=1", "the heaviest counts"),
        (vec![(1, in_zone("2")), (9, nowhere())], "2=1", "then the next"),
        (vec![(5, in_zone("3")), (5, in_zone("2"))], "3=1", "of equals the first"),
        (vec![(1, in_zone("1")), (9, nowhere()), (5, in_zone("2"))], "2=1", "in the order of weights"),
    ] {
        let pod = wishes.into_iter().fold(pod("p"), |pod, (weight, terms)| pod.prefer(weight, terms));
        assert_eq!(zones(pod), want, "{why}");
    }
}

#[test]
fn wishes_that_conflict_never_keep_a_pod_from_its_place() {
    // covers: SCH-PREF-09
    assert_eq!(zones(pod("p").zone("test-zone-1").prefer(1, in_zone("2"))), "1=1");
    assert_eq!(zones(pod("p").require(in_zone("1")).prefer(1, in_zone("2")).prefer(1, in_zone("1"))), "1=1");
    let custom = pod("p").select("team", "red").prefer(1, vec![is_in("team", &["blue"])]);
    assert_eq!(seen(world().pool(roomy().label("team", "red")).pod(custom)).left(), "");
    let many = pod("p")
        .app("web")
        .prefer(1, in_zone("1"))
        .prefer_affinity(1, ZONE, &[("app", "nobody")])
        .prefer_anti_affinity(1, ZONE, WEB)
        .spread_over("rack", 1)
        .anyway();
    let crowded = ["1", "2", "3"].iter().fold(world().pool(roomy()), |world, zone| {
        world
            .node(full_node(&format!("n{zone}"), zone))
            .pod(pod(&format!("r{zone}")).app("web").on(&format!("n{zone}")))
    });
    assert_eq!(seen(crowded.pod(many)).left(), "");
}

#[test]
fn a_wish_that_can_be_kept_is_worth_a_new_node() {
    // covers: SCH-PREF-10
    let start = || world().pool(roomy()).node(node("n").zone("test-zone-1"));
    assert_eq!(seen(start().pod(pod("p").prefer(1, in_zone("2")))).zones(), "2=1");
    assert_eq!(seen(start().pod(pod("p").prefer(1, in_zone("1")))).on("n"), "p");
    assert_eq!(seen(ignoring(start()).pod(pod("p").prefer(1, in_zone("2")))).on("n"), "p");
}

#[test]
fn alternatives_come_before_wishes() {
    // covers: SCH-PREF-02, SCH-PREF-03, SCH-PREF-05
    // With the wish for arm64 neither alternative works; the first is gone by the time the wish is.
    let pod_with = || pod("p").require(in_zone("1")).require(in_zone("2")).prefer(1, vec![is_in(ARCH, &["arm64"])]);
    assert_eq!(zones(pod_with()), "2=1");
    let impossible = pod("p").require(vec![is_in(ZONE, &["none"])]).require(vec![is_in(ZONE, &["nowhere"])]);
    assert_eq!(seen(world().pool(roomy()).pod(impossible)).left(), "p", "the last alternative stays");
}

#[test]
fn nearness_is_given_up_before_distance_and_both_before_node_wishes() {
    // covers: SCH-PREF-02
    // Each wish alone could be kept; together they cannot.
    let start = || {
        let start = world().pool(roomy()).node(full_node("n1", "1")).pod(pod("w").app("web").on("n1"));
        start.node(full_node("n2", "2")).pod(pod("o").app("other").on("n2"))
    };
    let other: &[(&str, &str)] = &[("app", "other")];
    let near_and_far = pod("p").prefer_affinity(100, ZONE, WEB).prefer_anti_affinity(1, ZONE, WEB);
    assert_eq!(seen(start().pod(near_and_far)).zones(), "2|3=1");
    let near_and_zone = pod("p").prefer_affinity(100, ZONE, WEB).prefer(1, in_zone("3"));
    assert_eq!(seen(start().pod(near_and_zone)).zones(), "3=1");
    let far_and_zone = pod("p").prefer_anti_affinity(100, ZONE, other).prefer(1, in_zone("2"));
    assert_eq!(seen(start().pod(far_and_zone)).zones(), "2=1");
    let zone_and_spread = pod("p").app("web").prefer(100, in_zone("1")).zone_spread(1).anyway();
    assert_eq!(seen(start().pod(zone_and_spread)).zones(), "2=1", "the node wish goes before the spread");
}

#[test]
fn soft_taints_are_given_in_to_last() {
    // covers: SCH-PREF-02, SCH-PREF-07, SCH-NEW-42
    let soft = roomy_pool("soft")
        .require(is_in(ZONE, &["test-zone-1"]))
        .taint_of("gpu", "", Effect::PreferNoSchedule)
        .weight(9);
    let clean = roomy_pool("clean").require(is_in(ZONE, &["test-zone-2"]));
    let wishing = pod("p").app("web").prefer(100, in_zone("1"));
    assert_eq!(seen(world().pool(soft.clone()).pool(clean.clone()).pod(wishing)).pool_of("p"), "clean");
    let pinned = pod("p").zone("test-zone-1");
    assert_eq!(seen(world().pool(soft).pool(clean).pod(pinned)).pool_of("p"), "soft");
}

#[test]
fn volumes_are_never_given_up_and_go_with_every_alternative() {
    // covers: SCH-PREF-11
    let start = || world().pool(roomy()).zonal_claim("data", "test-zone-2");
    let either = pod("p").claim("data").require(in_zone("1")).require(in_zone("2"));
    assert_eq!(seen(start().pod(either)).zones(), "2=1");
    let neither = pod("p").claim("data").require(in_zone("1")).require(in_zone("3")).prefer(1, in_zone("2"));
    assert_eq!(seen(start().pod(neither)).left(), "p");
    assert_eq!(seen(start().pod(pod("p").claim("data").prefer(1, in_zone("1")))).zones(), "2=1");
}

#[test]
fn where_wishes_are_ignored_only_hard_rules_count() {
    // covers: SCH-PREF-12, SCH-PREF-13, SCH-GAP-17
    let start = || ignoring(world().pool(roomy()).node(full_node("n1", "1")).pod(pod("w").app("web").on("n1")));
    for wish in [
        pod("p").prefer(1, in_zone("2")),
        pod("p").prefer_affinity(1, ZONE, WEB),
        pod("p").prefer_anti_affinity(1, ZONE, WEB),
        pod("p").app("web").zone_spread(1).anyway(),
    ] {
        assert_eq!(seen(start().pod(wish)).zones(), "*=1");
    }
    let alternatives = pod("p").require(vec![is_in(ZONE, &["none"])]).require(in_zone("2"));
    assert_eq!(seen(start().pod(alternatives)).zones(), "2=1", "alternatives still iterate");
    let soft = roomy_pool("soft").weight(9).taint_of("gpu", "", Effect::PreferNoSchedule);
    let both = ignoring(world().pool(soft.clone()).pool(roomy()));
    assert_eq!(seen(both.pod(pod("p"))).pool_of("p"), "default", "soft taints are still avoided");
    assert_eq!(seen(ignoring(world().pool(soft)).pod(pod("p"))).pool_of("p"), "soft", "and tolerated last");
}

#[test]
fn what_one_pod_gives_up_others_keep() {
    // covers: SCH-PREF-14, SCH-TDEF-13
    // Replicas share their shape: the first takes the only spot node there is, the others give up that wish.
    let pool = roomy_pool("spot").require(is_in(CAPACITY_TYPE, &["spot"])).limit("nodes", "1").weight(9);
    let on_demand = roomy_pool("on-demand").require(is_in(CAPACITY_TYPE, &["on-demand"]));
    let wish = pod("p").cpu("10").prefer(1, vec![is_in(CAPACITY_TYPE, &["spot"])]);
    let seen = seen(world().pool(pool).pool(on_demand).replicas(2, wish.clone()).pod(wish.named("small").cpu("1")));
    assert_eq!((seen.pool_of("p-0"), seen.pool_of("p-1"), seen.pool_of("small")), ("spot", "on-demand", "spot"));
}

#[test]
fn tolerating_something_else_does_not_keep_soft_taints_from_being_tolerated() {
    // covers: SCH-PREF-07
    use karpenter_core::taints::TolerationOperator::{Equal, Exists};
    let soft = || world().pool(roomy_pool("soft").taint_of("gpu", "yes", Effect::PreferNoSchedule));
    for pod in [
        pod("p").tolerate("other"),
        pod("p").toleration("other", Equal, "", None),
        pod("p").toleration("", Equal, "other", None),
        pod("p").toleration("", Exists, "", Some(Effect::NoSchedule)),
        pod("p").toleration("other", Exists, "", Some(Effect::PreferNoSchedule)),
        pod("p").toleration("", Exists, "", None),
        pod("p").toleration("", Exists, "", Some(Effect::PreferNoSchedule)),
    ] {
        let tolerations = format!("{:?}", pod.shape.tolerations);
        assert_eq!(seen(soft().pod(pod)).left(), "", "{tolerations}");
    }
}
