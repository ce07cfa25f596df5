//! Rules between pods.

use karpenter_core::labels::{CAPACITY_TYPE, HOSTNAME, ZONE};
use karpenter_core::pod::{NodePolicy, PodTerm, Spread, WhenUnsatisfiable};
use karpenter_core::settings::DefaultSpread;
use karpenter_core::taints::Effect;
use karpenter_testkit::express::{is_in, pod_term, selecting, spread};
use karpenter_testkit::fake::ZONES;
use karpenter_testkit::pod::owner_uid;
use karpenter_testkit::{PodBuilder, WorldBuilder, node, pod, world};

use super::draft::Draft;
use super::{catalogue, draft};
use crate::{Violation, verify};

const WEB: [(&str, &str); 1] = [("app", "web")];

fn web() -> PodBuilder {
    pod("web").app("web")
}

fn named(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}-{i}")).collect()
}

/// One new node of one zone for each of the counts, with that many pods.
fn placed(here: WorldBuilder, prefix: &str, counts: &[(&str, usize)]) -> Draft {
    let total = counts.iter().map(|(_, count)| count).sum();
    let names = named(prefix, total);
    let mut rest = names.as_slice();
    let mut drafted = draft(here);
    for (zone, count) in counts {
        let (mine, others) = rest.split_at(*count);
        rest = others;
        if !mine.is_empty() {
            let mine: Vec<&str> = mine.iter().map(String::as_str).collect();
            drafted = drafted.fresh_in(&mine, &["small", "large"], &[zone]);
        }
    }
    drafted
}

fn zonal(pod: PodBuilder, counts: [usize; 3]) -> Draft {
    let here = world().pool(catalogue()).replicas(counts.iter().sum(), pod);
    placed(here, "web", &[(ZONES[0], counts[0]), (ZONES[1], counts[1]), (ZONES[2], counts[2])])
}

fn skew(pod: &str, key: &str, domain: &str, count: i64, least: i64, max_skew: i32) -> Violation {
    Violation::Skew {
        pod: format!("default/{pod}"),
        key: key.to_owned(),
        domain: domain.to_owned(),
        count,
        least,
        max_skew,
    }
}

#[test]
fn no_zone_is_too_far_ahead() {
    zonal(web().zone_spread(1), [1, 1, 1]).sound();
    zonal(web().zone_spread(1), [1, 1, 0]).sound();
    zonal(web().zone_spread(1), [2, 1, 1]).sound();
    zonal(web().zone_spread(1), [2, 1, 0]).breaks(skew("web-0", ZONE, ZONES[0], 2, 0, 1));
    zonal(web().zone_spread(2), [2, 1, 0]).sound();
    zonal(web().zone_spread(1).anyway(), [3, 0, 0]).sound();
}

#[test]
fn running_pods_count_and_those_on_their_way_out_do_not() {
    let it = |old: PodBuilder| {
        let here = world().pool(catalogue()).node(node("n").zone(ZONES[0])).pod(old.on("n"));
        draft(here.pod(web().zone_spread(1))).fresh_in(&["web"], &["small"], &ZONES[..1])
    };
    it(pod("old").app("web")).breaks(skew("web", ZONE, ZONES[0], 2, 0, 1));
    it(pod("old").app("db")).sound();
    it(pod("old").app("web").namespace("other")).sound();
    it(pod("old").app("web").terminating()).sound();
}

#[test]
fn pods_that_are_only_counted_do_not_speak_against_a_plan() {
    // Three plain pods beside the one that spreads: they may have come later.
    let here = world().pool(catalogue()).pod(web().zone_spread(1)).replicas(3, pod("plain").app("web"));
    draft(here).fresh_in(&["web", "plain-0", "plain-1", "plain-2"], &["small"], &ZONES[..1]).sound();
    // But they may have raised the least count.
    let mut here = world().pool(catalogue()).replicas(2, web().zone_spread(1));
    here = here.pod(pod("b").app("web")).pod(pod("c").app("web"));
    draft(here)
        .fresh_in(&["web-0", "web-1"], &["small"], &ZONES[..1])
        .fresh_in(&["b"], &["small"], &ZONES[1..2])
        .fresh_in(&["c"], &["small"], &ZONES[2..])
        .sound();
}

#[test]
fn a_pod_that_does_not_count_itself_minds_only_who_was_there() {
    let it = |running: usize| {
        let there = world().pool(catalogue()).node(node("n").zone(ZONES[0]));
        let there = there.pods(pod("old").app("web").on("n").replicas(running));
        let db = pod("db").app("db").spread(spread(ZONE, 1, &WEB));
        draft(there.replicas(3, db)).fresh_in(&["db-0", "db-1", "db-2"], &["small"], &ZONES[..1])
    };
    it(1).sound();
    it(2).breaks(skew("db-0", ZONE, ZONES[0], 2, 0, 1));
}

#[test]
fn spread_needs_a_decided_domain() {
    let here = || world().pool(catalogue()).pod(web().zone_spread(5));
    draft(here()).fresh_in(&["web"], &["small"], &ZONES[..2]).breaks(Violation::Undecided {
        pod: "default/web".to_owned(),
        node: "new-0".to_owned(),
        key: ZONE.to_owned(),
        domains: vec![ZONES[0].to_owned(), ZONES[1].to_owned()],
    });
    let rack = web().spread(spread("rack", 1, &WEB));
    draft(world().node(node("n")).pod(rack)).on("n", &["web"]).breaks(Violation::NoDomain {
        pod: "default/web".to_owned(),
        node: "n".to_owned(),
        key: "rack".to_owned(),
    });
}

#[test]
fn hosts_may_hold_as_many_as_the_skew() {
    let it = |skew| {
        let here = world().pool(catalogue()).replicas(2, web().hostname_spread(skew));
        draft(here).fresh_in(&["web-0", "web-1"], &["small"], &ZONES)
    };
    it(2).sound();
    it(1).breaks(skew("web-0", HOSTNAME, "new-0", 2, 0, 1));
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let wide = |wanted| web().spread(Spread { min_domains: Some(wanted), ..spread(ZONE, 1, &WEB) });
    zonal(wide(3), [2, 2, 2]).sound();
    zonal(wide(4), [1, 1, 1]).sound();
    let found = verify(&zonal(wide(4), [2, 1, 1]).world, &zonal(wide(4), [2, 1, 1]).plan);
    assert_eq!(found, [skew("web-0", ZONE, ZONES[0], 2, 0, 1)]);
}

#[test]
fn zones_nobody_can_create_hold_nobody_back() {
    let of = |zones: &[&str]| {
        let pool = catalogue().require(is_in(ZONE, zones));
        let here = world().pool(pool).replicas(4, web().zone_spread(1));
        placed(here, "web", &[(ZONES[0], 2), (ZONES[1], 2)])
    };
    of(&ZONES[..2]).sound();
    let found = verify(&of(&ZONES).world, &of(&ZONES).plan);
    let expected = [skew("web-0", ZONE, ZONES[0], 2, 0, 1), skew("web-2", ZONE, ZONES[1], 2, 0, 1)];
    assert_eq!(found, expected);
    // A node that is there makes its zone known, unless it does not take part.
    let with = |other: karpenter_testkit::NodeBuilder| {
        let mut it = of(&ZONES[..2]);
        it.world.nodes.push(other.0);
        verify(&it.world, &it.plan).len()
    };
    assert_eq!(with(node("n").zone("zone-9")), 2);
    assert_eq!(with(node("n").zone("zone-9").deleting()), 0);
}

#[test]
fn a_pods_own_zones_confine_the_least_count() {
    let pinned = web().zone_spread(1).require(vec![is_in(ZONE, &ZONES[..2])]);
    zonal(pinned, [2, 2, 0]).sound();
    let selected = web().zone_spread(1).zone(ZONES[0]);
    zonal(selected, [5, 0, 0]).sound();
}

#[test]
fn node_affinity_policy_decides_which_nodes_count() {
    let it = |policy| {
        let constraint = Spread { node_affinity: policy, ..spread(ZONE, 1, &WEB) };
        let owner = pod("web").app("web").spread(constraint).select("size", "small");
        let elsewhere = node("n").zone(ZONES[0]).label("size", "large");
        let here = world().pool(catalogue()).node(elsewhere).pod(pod("old").app("web").on("n"));
        draft(here.pod(owner)).fresh_in(&["web"], &["small"], &ZONES[..1])
    };
    it(NodePolicy::Honor).sound();
    it(NodePolicy::Ignore).breaks(skew("web", ZONE, ZONES[0], 2, 0, 1));
}

#[test]
fn node_taints_policy_decides_which_nodes_and_domains_count() {
    let it = |policy, effect| {
        let constraint = Spread { node_taints: policy, ..spread(ZONE, 1, &WEB) };
        let owner = pod("web").app("web").spread(constraint);
        let tainted = node("n").zone(ZONES[0]).taint_of("team", "", effect);
        let here = world().pool(catalogue()).node(tainted).pod(pod("old").app("web").on("n"));
        draft(here.pod(owner)).fresh_in(&["web"], &["small"], &ZONES[..1])
    };
    it(NodePolicy::Honor, Effect::NoSchedule).sound();
    it(NodePolicy::Honor, Effect::PreferNoSchedule).sound();
    it(NodePolicy::Ignore, Effect::NoSchedule).breaks(skew("web", ZONE, ZONES[0], 2, 0, 1));
    // Zones behind a taint are known only to those who ignore taints.
    let pools = |policy| {
        let constraint = Spread { node_taints: policy, ..spread(ZONE, 1, &WEB) };
        let mut tainted = catalogue().taint("team");
        tainted.0.name = "tainted".into();
        let here = world().pool(catalogue().require(is_in(ZONE, &ZONES[..1]))).pool(tainted);
        draft(here.replicas(2, web().spread(constraint))).fresh_in(&["web-0", "web-1"], &["small"], &ZONES[..1])
    };
    pools(NodePolicy::Honor).sound();
    pools(NodePolicy::Ignore).breaks(skew("web-0", ZONE, ZONES[0], 2, 0, 1));
}

#[test]
fn match_label_keys_narrow_the_selector() {
    let it = |keys: &[&str]| {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let constraint = Spread { match_label_keys: keys, ..spread(ZONE, 1, &WEB) };
        let old = pod("old").app("web").label("rev", "1").on("n");
        let here = world().pool(catalogue()).node(node("n").zone(ZONES[0])).pod(old);
        draft(here.pod(web().label("rev", "2").spread(constraint))).fresh_in(&["web"], &["small"], &ZONES[..1])
    };
    it(&["rev"]).sound();
    it(&["absent"]).breaks(skew("web", ZONE, ZONES[0], 2, 0, 1));
}

#[test]
fn an_absent_selector_counts_nobody() {
    let constraint = Spread { selector: None, ..spread(ZONE, 1, &WEB) };
    zonal(web().spread(constraint), [3, 0, 0]).sound();
}

#[test]
fn any_key_can_be_spread_over() {
    // All on spot, though on-demand could be had.
    let here = world().pool(catalogue()).replicas(2, web().spread(spread(CAPACITY_TYPE, 1, &WEB)));
    let spot = karpenter_core::Requirement::one("spot");
    let pin = |claim: &mut karpenter_core::plan::NewNode| {
        drop(claim.requirements.0.insert(CAPACITY_TYPE.into(), spot.clone()))
    };
    draft(here).fresh_in(&["web-0", "web-1"], &["small"], &ZONES[..2]).bend(pin).breaks(skew(
        "web-0",
        CAPACITY_TYPE,
        "spot",
        2,
        0,
        1,
    ));
}

#[test]
fn values_that_pools_name_are_domains() {
    let team = |pods: usize, pools: Vec<karpenter_testkit::PoolBuilder>| {
        let here = pools.into_iter().fold(world(), WorldBuilder::pool);
        let names = named("web", pods);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        draft(here.replicas(pods, web().spread(spread("team", 1, &WEB))))
            .fresh_in(&names, &["small"], &ZONES)
            .bend(|claim| drop(claim.labels.insert("team".to_owned(), "red".to_owned())))
    };
    let both = || vec![catalogue().require(is_in("team", &["red", "blue"]))];
    team(1, both()).sound();
    team(2, both()).breaks(skew("web-0", "team", "red", 2, 0, 1));
    team(2, vec![catalogue().require(is_in("team", &["red"]))]).sound();
    let labelled = |name: &str, team: &str| {
        let mut pool = catalogue().label("team", team);
        pool.0.name = name.into();
        pool
    };
    team(2, vec![labelled("default", "red")]).sound();
    team(2, vec![labelled("default", "red"), labelled("other", "blue")]).breaks(skew("web-0", "team", "red", 2, 0, 1));
    // What is excluded is no domain.
    let excluded = catalogue().require(karpenter_testkit::express::not_in("team", &["blue"]));
    team(2, vec![excluded.require(is_in("team", &["red", "blue"]))]).sound();
}

#[test]
fn a_replication_controllers_labels_replace_those_of_services() {
    let it = |value: &str| {
        let mut here = world().pool(catalogue()).service("s", Some(&WEB));
        let uid = owner_uid("ReplicationController", "rc").into();
        here.0.workload_selectors.insert(uid, selecting(&[("app", value)]));
        here.0.settings.default_spread = vec![DefaultSpread {
            topology_key: ZONE.to_owned(),
            max_skew: 1,
            min_domains: None,
            when: WhenUnsatisfiable::DoNotSchedule,
            node_affinity: NodePolicy::Honor,
            node_taints: NodePolicy::Ignore,
        }];
        let owned = web().owned_by("v1", "ReplicationController", "rc");
        draft(here.replicas(2, owned)).fresh_in(&["web-0", "web-1"], &["small"], &ZONES[..1])
    };
    it("web").breaks(skew("web-0", ZONE, ZONES[0], 2, 0, 1));
    it("else").sound();
}

#[test]
fn cluster_wide_defaults_count_for_pods_of_a_service_or_owner() {
    let it = |change: fn(WorldBuilder) -> WorldBuilder, owner: PodBuilder| {
        let mut here = change(world().pool(catalogue())).replicas(2, owner);
        here.0.settings.default_spread = vec![DefaultSpread {
            topology_key: ZONE.to_owned(),
            max_skew: 1,
            min_domains: None,
            when: WhenUnsatisfiable::DoNotSchedule,
            node_affinity: NodePolicy::Honor,
            node_taints: NodePolicy::Ignore,
        }];
        draft(here).fresh_in(&["web-0", "web-1"], &["small"], &ZONES[..1])
    };
    let broken = || skew("web-0", ZONE, ZONES[0], 2, 0, 1);
    it(|w| w, web()).sound();
    it(|w| w.service("s", Some(&WEB)), web()).breaks(broken());
    it(|w| w.service("s", Some(&[("app", "db")])), web()).sound();
    it(|w| w.service("s", None), web()).sound();
    it(|w| w.service("s", Some(&WEB)), web().spread_over(ZONE, 2)).sound();
    let selected = |mut w: WorldBuilder| {
        let uid = owner_uid("ReplicaSet", "rs").into();
        w.0.workload_selectors.insert(uid, selecting(&WEB));
        w
    };
    it(selected, web().owned_by("apps/v1", "ReplicaSet", "rs")).breaks(broken());
    it(selected, web().owned_by("batch/v1", "Job", "rs")).sound();
    // What the owner adds narrows what the Service selects.
    let narrowed = |mut w: WorldBuilder| {
        let uid = owner_uid("ReplicaSet", "rs").into();
        w.0.workload_selectors.insert(uid, selecting(&[("app", "else")]));
        w.service("s", Some(&WEB))
    };
    it(narrowed, web().owned_by("apps/v1", "ReplicaSet", "rs")).sound();
}

fn no_company(pod: &str, node: &str, key: &str, company_in: &[&str]) -> Violation {
    Violation::NoCompany {
        pod: format!("default/{pod}"),
        node: node.to_owned(),
        key: key.to_owned(),
        company_in: company_in.iter().map(|domain| (*domain).to_owned()).collect(),
    }
}

#[test]
fn affinity_joins_running_pods() {
    let it = |zone: &str| {
        let here = world().pool(catalogue()).node(node("n").zone(ZONES[0])).pod(pod("old").app("web").on("n"));
        draft(here.pod(pod("db").affinity(ZONE, &WEB))).fresh_in(&["db"], &["small"], &[zone])
    };
    it(ZONES[0]).sound();
    it(ZONES[1]).breaks(no_company("db", "new-0", ZONE, &ZONES[..1]));
}

#[test]
fn affinity_to_nobody_is_for_the_first_of_its_kind_only() {
    let lone = |p: PodBuilder| draft(world().pool(catalogue()).pod(p)).fresh_in(&["p"], &["small"], &ZONES[..1]);
    lone(pod("p").app("web").affinity(ZONE, &WEB)).sound();
    lone(pod("p").affinity(ZONE, &WEB)).breaks(no_company("p", "new-0", ZONE, &[]));
    let elsewhere = PodTerm { namespaces: vec!["other".into()], ..pod_term(ZONE, &WEB) };
    lone(pod("p").app("web").affinity_term(elsewhere)).breaks(no_company("p", "new-0", ZONE, &[]));
}

#[test]
fn self_affine_pods_are_together() {
    let two = |first: &[&str], second: &[&str]| {
        let here = world().pool(catalogue()).replicas(2, web().affinity(ZONE, &WEB));
        draft(here).fresh_in(&["web-0"], &["small"], first).fresh_in(&["web-1"], &["small"], second)
    };
    two(&ZONES[..1], &ZONES[..1]).sound();
    let found = verify(&two(&ZONES[..1], &ZONES[1..2]).world, &two(&ZONES[..1], &ZONES[1..2]).plan);
    let expected = [no_company("web-0", "new-0", ZONE, &ZONES[1..2]), no_company("web-1", "new-1", ZONE, &ZONES[..1])];
    assert_eq!(found, expected);
    // The second would join the first by luck only.
    two(&ZONES[..1], &ZONES[..2]).breaks(Violation::Undecided {
        pod: "default/web-1".to_owned(),
        node: "new-1".to_owned(),
        key: ZONE.to_owned(),
        domains: vec![ZONES[0].to_owned(), ZONES[1].to_owned()],
    });
    // On one node it does not matter where that will be.
    let here = world().pool(catalogue()).replicas(2, web().affinity(ZONE, &WEB));
    draft(here).fresh_in(&["web-0", "web-1"], &["small"], &ZONES).sound();
}

#[test]
fn company_in_every_zone_the_node_may_get_will_do() {
    let here = world()
        .pool(catalogue())
        .node(node("a").zone(ZONES[0]))
        .node(node("b").zone(ZONES[1]))
        .pod(pod("old-a").app("web").on("a"))
        .pod(pod("old-b").app("web").on("b"))
        .pod(pod("db").affinity(ZONE, &WEB));
    draft(here.clone()).fresh_in(&["db"], &["small"], &ZONES[..2]).sound();
    assert_eq!(verify(&here.0, &draft(here.clone()).fresh_in(&["db"], &["small"], &ZONES).plan).len(), 1);
}

#[test]
fn company_out_of_reach_lets_a_pod_start_its_own() {
    let it = |p: PodBuilder| {
        let here = world().pool(catalogue()).node(node("n").zone(ZONES[0])).pod(pod("old").app("web").on("n"));
        draft(here.pod(p.affinity(ZONE, &WEB))).fresh_in(&["web"], &["small"], &ZONES[1..2])
    };
    it(web()).breaks(no_company("web", "new-0", ZONE, &ZONES[..1]));
    it(web().zone(ZONES[1])).sound();
    it(web().require(vec![is_in(ZONE, &ZONES[1..])])).sound();
    // Not so on hosts.
    let here = world().pool(catalogue()).node(node("n")).pod(pod("old").app("web").on("n"));
    let pinned = web().zone(ZONES[0]).affinity(HOSTNAME, &WEB);
    draft(here.pod(pinned)).fresh_in(&["web"], &["small"], &ZONES[..1]).breaks(no_company(
        "web",
        "new-0",
        HOSTNAME,
        &["n"],
    ));
}

#[test]
fn affinity_looks_into_the_namespaces_it_names() {
    let term = |namespaces: &[&str], selector: Option<&[(&str, &str)]>| PodTerm {
        namespaces: namespaces.iter().map(|name| (*name).into()).collect(),
        namespace_selector: selector.map(selecting),
        ..pod_term(ZONE, &WEB)
    };
    let it = |term: PodTerm| {
        let old = pod("old").namespace("prod").app("web").on("n");
        let here = world().pool(catalogue()).node(node("n").zone(ZONES[0])).namespace("prod", &[("stage", "live")]);
        draft(here.pod(old).pod(pod("db").affinity_term(term))).fresh_in(&["db"], &["small"], &ZONES[..1])
    };
    let alone = || no_company("db", "new-0", ZONE, &[]);
    it(term(&[], None)).breaks(alone());
    it(term(&["prod"], None)).sound();
    it(term(&["dev"], None)).breaks(alone());
    it(term(&[], Some(&[]))).sound();
    it(term(&[], Some(&[("stage", "live")]))).sound();
    it(term(&[], Some(&[("stage", "test")]))).breaks(alone());
    it(term(&["dev"], Some(&[("stage", "live")]))).sound();
    let mut unknown = it(term(&[], Some(&[])));
    unknown.world.namespaces.clear();
    unknown.breaks(alone());
}

fn unwanted(owner: &str, other: &str, key: &str, domain: &str) -> Violation {
    Violation::UnwantedCompany {
        owner: format!("default/{owner}"),
        other: format!("default/{other}"),
        key: key.to_owned(),
        domain: domain.to_owned(),
    }
}

#[test]
fn anti_affinity_keeps_pods_apart() {
    let two = |key: &str| world().pool(catalogue()).replicas(2, web().anti_affinity(key, &WEB));
    draft(two(HOSTNAME)).fresh(&["web-0"]).fresh(&["web-1"]).sound();
    draft(two(HOSTNAME)).fresh(&["web-0", "web-1"]).breaks(unwanted("web-0", "web-1", HOSTNAME, "new-0"));
    let zones = |first: &[&str], second: &[&str]| {
        draft(two(ZONE)).fresh_in(&["web-0"], &["small"], first).fresh_in(&["web-1"], &["small"], second)
    };
    zones(&ZONES[..1], &ZONES[1..2]).sound();
    zones(&ZONES[..1], &ZONES[..1]).breaks(unwanted("web-0", "web-1", ZONE, ZONES[0]));
    // They would be apart as planned, but need not come out so.
    zones(&ZONES[..2], &ZONES[1..]).breaks(unwanted("web-0", "web-1", ZONE, ZONES[1]));
}

#[test]
fn anti_affinity_works_both_ways() {
    let it = |zone: &str| {
        let loner = pod("loner").anti_affinity(ZONE, &WEB).on("n");
        let here = world().pool(catalogue()).node(node("n").zone(ZONES[0])).pod(loner);
        draft(here.pod(web())).fresh_in(&["web"], &["small"], &[zone])
    };
    it(ZONES[1]).sound();
    it(ZONES[0]).breaks(unwanted("loner", "web", ZONE, ZONES[0]));
}

#[test]
fn a_pod_on_its_way_out_still_keeps_others_away_but_minds_nobody() {
    let it = |old: PodBuilder, new: PodBuilder| {
        let here = world().pool(catalogue()).node(node("n").zone(ZONES[0])).pod(old.terminating().on("n"));
        draft(here.pod(new)).fresh_in(&["web"], &["small"], &ZONES[..1])
    };
    it(pod("old").anti_affinity(ZONE, &WEB), web()).breaks(unwanted("old", "web", ZONE, ZONES[0]));
    it(pod("old").app("old"), web().anti_affinity(ZONE, &[("app", "old")])).sound();
}

#[test]
fn saying_it_twice_changes_nothing() {
    zonal(web().zone_spread(1).zone_spread(1), [1, 0, 0]).sound();
}

#[test]
fn what_both_ran_before_is_not_the_plans_doing() {
    let here = world().node(node("n").zone("z")).pods(web().anti_affinity(ZONE, &WEB).on("n").replicas(2));
    draft(here).sound();
}

#[test]
fn preferred_terms_bind_nobody() {
    let wishes = web().prefer_anti_affinity(100, HOSTNAME, &WEB).prefer_affinity(100, ZONE, &[("app", "nowhere")]);
    let here = world().pool(catalogue()).replicas(2, wishes);
    draft(here).fresh_in(&["web-0", "web-1"], &["small"], &ZONES).sound();
}

#[test]
fn pods_that_stay_on_a_leaving_node_still_count() {
    let it = |old: PodBuilder| {
        let here = world().pool(catalogue()).node(node("n").zone(ZONES[0]).deleting()).pod(old.on("n"));
        draft(here.pod(web().anti_affinity(ZONE, &[("app", "old")]))).fresh_in(&["web"], &["small"], &ZONES[..1])
    };
    it(pod("old").app("old").do_not_disrupt("true")).breaks(unwanted("web", "old", ZONE, ZONES[0]));
    let mut moving = it(pod("old").app("old")).fresh_in(&["old"], &["small"], &ZONES[1..2]);
    moving.last().launch.zone = ZONES[1].into();
    moving.sound();
}
