use karpenter_testkit::{PodBuilder, pod};

use super::*;
use crate::balanced::{Score, Totals};

#[test]
fn a_share_of_savings_is_weighed_against_a_share_of_disruption() {
    // covers: DIS-BAL-01, DIS-BAL-02
    let totals = Totals { cost: 10.0, disruption: 100.0 };
    for (savings, disruption, totals, score, approved) in [
        (1.0, 10.0, totals, 1.0, true),
        (0.5, 10.0, totals, 0.5, true),
        (0.49, 10.0, totals, 0.49, false),
        (0.0, 10.0, totals, 0.0, false),
        (-1.0, 10.0, totals, 0.0, false),
        (1.0, 0.0, totals, f64::INFINITY, true),
        (1.0, 10.0, Totals { cost: 0.0, ..totals }, 0.0, false),
        (1.0, 10.0, Totals { disruption: 0.0, ..totals }, 0.0, false),
    ] {
        let found = Score::of(savings, disruption, totals);
        assert!((found.value() - score).abs() < 1e-9 || found.value() == score, "{found:?} {score}");
        assert_eq!(found.is_approved(), approved, "{found:?}");
    }
}

fn scene_with(policy: ConsolidationPolicy) -> Scene {
    // Ten pods on a cheap node next to one on a dear one.
    let mut scene = scene().rules(|pool| pool.policy = policy).node("dear", "large").node("cheap", "nano");
    for at in 0..10 {
        scene = scene.pod(pod(&format!("p{at}")).cpu("50m").on("cheap"));
    }
    scene.pod(pod("q").cpu("6").on("dear"))
}

#[test]
fn balanced_pools_refuse_what_is_not_worth_it() {
    // covers: DIS-BAL-03, DIS-BAL-04, DIS-BAL-05, DIS-BAL-08
    let free = scene_with(ConsolidationPolicy::WhenEmptyOrUnderutilized);
    assert_eq!(free.commands(), ["single cheap -> "]);
    // A ninth of the price for eleven thirteenths of the disruption.
    let balanced = scene_with(ConsolidationPolicy::Balanced);
    assert_eq!(balanced.commands(), Vec::<String>::new());
    let proposal = balanced.propose();
    let kept = proposal.nodes.iter().find(|node| &*node.name == "cheap").unwrap();
    let Reason::Score { score, threshold, .. } = kept.reasons[0] else { panic!("{:?}", kept.reasons) };
    assert!((score - (1.0 / 9.0) / (11.0 / 13.0)).abs() < 1e-9, "{score}");
    assert_eq!(threshold, 0.5);
    // Where the pool's cost is kept elsewhere, that counts.
    let known =
        scene_with(ConsolidationPolicy::Balanced).rules(|pool| pool.cost = Some(karpenter_core::MicroUsd(20_000)));
    assert_eq!(known.commands(), ["single cheap -> "]);
}

#[test]
fn the_whole_pool_is_weighed_also_nodes_that_no_method_looks_at() {
    // covers: DIS-BAL-06
    let score = |scene: &Scene| {
        let proposal = scene.propose();
        let kept = proposal.nodes.iter().find(|node| &*node.name == "cheap").unwrap();
        let Reason::Score { score, .. } = kept.reasons[0] else { panic!("{:?}", kept.reasons) };
        score
    };
    let scene = scene_with(ConsolidationPolicy::Balanced);
    let alone = score(&scene);
    // Too young to be consolidated, and part of what the pool costs.
    let built = scene.of_type("young", "large", ON_DEMAND);
    let scene = scene.add(built, |facts| facts.consolidatable = false).pod(pod("r").cpu("6").on("young"));
    let together = score(&scene);
    assert!((alone - (1.0 / 9.0) / (11.0 / 13.0)).abs() < 1e-9, "{alone}");
    assert!((together - (1.0 / 17.0) / (11.0 / 15.0)).abs() < 1e-9, "{together}");
}

#[test]
fn savings_are_estimated_by_the_cheapest_offering_of_the_cheapest_type() {
    // covers: DIS-CONSOL-11
    let types = |elsewhere: u64| -> Arc<[Arc<InstanceType>]> {
        let small = vec![sold(ZONE_A, ON_DEMAND).at(76_000), sold("test-zone-2", ON_DEMAND).at(elsewhere)];
        [kind("small", 2).offerings(small), kind("large", 8)].into_iter().map(|kind| Arc::new(kind.build())).collect()
    };
    let with = |elsewhere: u64| {
        let scene = Scene::with(types(elsewhere)).rules(|pool| pool.policy = ConsolidationPolicy::Balanced);
        scene.node("a", "large").pod(pod("p").cpu("1500m").on("a"))
    };
    // All of the pool's disruption for at least half of its price, as the cheapest zone sells it.
    assert_eq!(with(40_000).commands(), ["single a -> small on-demand"]);
    assert_eq!(with(41_000).commands(), Vec::<String>::new());
    let Reason::Score { score, .. } = with(41_000).propose().nodes[0].reasons[0].clone() else { panic!() };
    assert!((score - 39.0 / 80.0).abs() < 1e-9, "{score}");
}

#[test]
fn many_nodes_at_once_are_scored_like_one() {
    // covers: DIS-MULTI-04
    let with = |policy: ConsolidationPolicy, price: u64| {
        let wide = kind("wide", 6).offerings(vec![sold(ZONE_A, ON_DEMAND).at(price)]);
        let types = [kind("medium", 4), wide].map(|kind| Arc::new(kind.build()));
        let scene = Scene::with(Arc::from(types)).rules(|pool| pool.policy = policy);
        let scene = scene.node("a", "medium").node("b", "medium");
        scene.pod(pod("p").cpu("2200m").on("a")).pod(pod("q").cpu("2200m").on("b"))
    };
    // Half of the price must be saved where everything moves.
    let free = ConsolidationPolicy::WhenEmptyOrUnderutilized;
    assert_eq!(with(free, 60_000).commands(), ["multi a,b -> wide on-demand"]);
    assert_eq!(with(ConsolidationPolicy::Balanced, 60_000).commands(), Vec::<String>::new());
    assert_eq!(with(ConsolidationPolicy::Balanced, 39_000).commands(), ["multi a,b -> wide on-demand"]);
}

#[test]
fn emptiness_is_not_scored() {
    // covers: DIS-BAL-09
    let scene = scene().rules(|pool| pool.policy = ConsolidationPolicy::Balanced).node("a", "nano");
    assert_eq!(scene.commands(), ["empty a -> "]);
}

#[test]
fn only_balanced_pools_have_a_say_and_savings_are_split_by_price() {
    // covers: DIS-BAL-07
    let types: Arc<[_]> =
        [kind("odd", 3).price(30_000), kind("medium", 4)].into_iter().map(|kind| Arc::new(kind.build())).collect();
    let with = |policy: ConsolidationPolicy| {
        let rules = |pool: &mut PoolFacts| pool.policy = policy;
        let scene = Scene::with(types.clone());
        let scene = scene.pool("other", |pool| pool.require(is_in(CAPACITY_TYPE, &[ON_DEMAND])), rules);
        let other = scene.of_type("b", "odd", ON_DEMAND).of_pool("other");
        let scene = scene.node("a", "odd").add(other, |_| {});
        scene.pod(pod("p").cpu("1800m").on("a")).pod(pod("q").cpu("1800m").on("b"))
    };
    // Saves 20 of 60: 10 for the other pool, a third of its price, for all of its disruption.
    assert_eq!(with(ConsolidationPolicy::WhenEmptyOrUnderutilized).commands().len(), 1);
    assert_eq!(with(ConsolidationPolicy::Balanced).commands(), Vec::<String>::new());
}

/// Two pods on a cheap node that would fit on the one beside it.
fn guests(guest: impl Fn(&str) -> PodBuilder) -> Scene {
    let scene = scene().node("cheap", "nano").node("home", "large").pod(pod("host").cpu("6").on("home"));
    scene.pod(guest("g-1").cpu("100m").on("cheap")).pod(guest("g-2").cpu("100m").on("cheap"))
}

#[test]
fn a_price_on_disruption_counts_starts_restarts_work_and_rollouts() {
    let version = |name: &str| {
        let hash = if name == "g-1" { "aaa" } else { "bbb" };
        pod(name).label("pod-template-hash", hash).owned_by("apps/v1", "ReplicaSet", &format!("web-{hash}"))
    };
    // Two thousandths of a cent for each ordinary pod; a cent is saved.
    for (what, scene, priced_at) in [
        ("ordinary", guests(pod), 4_000),
        ("quick", guests(|name| pod(name).ready_after(Duration::from_secs(30))), 4_000),
        ("slow", guests(|name| pod(name).ready_after(Duration::from_mins(2))), 12_000),
        ("restarted", guests(|name| pod(name).restarts(10)), 12_000),
        ("being rolled out", guests(version), 8_000),
        ("of a Job", guests(|name| pod(name).owned_by("batch/v1", "Job", "j")), 40_000),
    ] {
        let free = Scene { policy: Policy::default(), ..scene };
        assert_eq!(free.commands(), ["single cheap -> "], "{what}: without a price everything that saves goes");
        let policy = Policy { threshold: Some(karpenter_core::MicroUsd(2_000)), ..Policy::default() };
        let priced = Scene { policy, ..free };
        let proposal = priced.propose();
        let cheap = proposal.nodes.iter().find(|node| &*node.name == "cheap").unwrap();
        let savings = karpenter_core::MicroUsd(10_000);
        let stays = Reason::NotWorthIt { savings, priced_at: karpenter_core::MicroUsd(priced_at) };
        let want = if priced_at > savings.0 { vec![stays] } else { Vec::new() };
        assert_eq!(cheap.reasons, want, "{what}");
    }
}

#[test]
fn a_balanced_pool_weighs_special_pods_and_ordinary_ones_as_the_reference_does() {
    let with = |guest: PodBuilder| {
        let scene = scene().rules(|pool| pool.policy = ConsolidationPolicy::Balanced);
        let scene = scene.node("a", "large").node("b", "large").pod(pod("host").cpu("5").on("b"));
        scene.pod(guest.cpu("1").on("a"))
    };
    // Half of the price for half of the disruption, whichever goes: the first does.
    assert_eq!(with(pod("p")).commands(), ["single a -> "]);
    let job = with(pod("p").owned_by("batch/v1", "Job", "j"));
    assert_eq!(job.commands(), ["single b -> "], "the one whose pod loses nothing");
    let pinned = job.pod(pod("q").cpu("1").on("b").do_not_disrupt("true"));
    assert_eq!(pinned.commands(), Vec::<String>::new());
    let Reason::Score { score, .. } = pinned.propose().nodes[0].reasons[0].clone() else { panic!() };
    assert!((score - 1.0 / (11.0 / 5.0)).abs() < 1e-9, "{score}");
}
