//! Pools: minValues, limits, weights, reservations.

use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
use karpenter_core::settings::MinValuesPolicy;
use karpenter_core::{MicroUsd, Requirement};
use karpenter_testkit::express::{exists, is_in, with_min_values};
use karpenter_testkit::fake::{RESERVATION_ID, ZONES, instance_type};
use karpenter_testkit::{PoolBuilder, node, pod, pool, world};

use super::draft::Draft;
use super::{catalogue, draft, reserved_catalogue};
use crate::Violation;

const NANO: i128 = 1_000_000_000;

fn new() -> String {
    "new-0".to_owned()
}

#[test]
fn min_values_are_kept() {
    let it = |types: &[&str]| {
        let pool = catalogue().require(with_min_values(exists(INSTANCE_TYPE), 2));
        draft(world().pool(pool).pod(pod("p"))).fresh_in(&["p"], types, &ZONES)
    };
    it(&["small", "large"]).sound();
    let unmet =
        |values, wanted| Violation::MinValuesUnmet { node: new(), key: INSTANCE_TYPE.to_owned(), values, wanted };
    it(&["small"]).breaks(unmet(1, 2));
    it(&["small", "large"])
        .bend(|claim| claim.min_values_relaxed = true)
        .breaks(Violation::MinValuesRelaxation { node: new(), said: true });
    let relaxed = |carried: u32| {
        let mut it = it(&["small"]);
        it.world.settings.min_values = MinValuesPolicy::BestEffort;
        let key: std::sync::Arc<str> = INSTANCE_TYPE.into();
        it.last().requirements.0.get_mut(&key).unwrap().min_values = Some(carried);
        it
    };
    relaxed(1).bend(|claim| claim.min_values_relaxed = true).sound();
    relaxed(1).breaks(Violation::MinValuesRelaxation { node: new(), said: false });
    relaxed(2).breaks(unmet(1, 2));
}

fn limited(resource: &str, limit: &str, nodes: usize) -> Draft {
    let names: Vec<String> = (0..nodes).map(|i| format!("p-{i}")).collect();
    let old = node("old").cpu("2").of_pool("default");
    let leaving = node("leaving").cpu("100").of_pool("default").deleting();
    let here = world().pool(catalogue().limit(resource, limit)).node(old).node(leaving);
    let drafted = draft(here.replicas(nodes, pod("p")));
    names.iter().fold(drafted, |draft, name| draft.fresh(&[name]))
}

#[test]
fn limits_hold_even_if_the_largest_type_is_launched() {
    // Two CPUs are there, and each new node may become one of eight.
    limited("cpu", "18", 2).sound();
    limited("cpu", "17", 2).breaks(Violation::Limit {
        pool: "default".to_owned(),
        resource: "cpu".to_owned(),
        used: 18 * NANO,
        limit: 17 * NANO,
    });
    limited("nodes", "3", 2).sound();
    limited("nodes", "2", 2).breaks(Violation::Limit {
        pool: "default".to_owned(),
        resource: "nodes".to_owned(),
        used: 3 * NANO,
        limit: 2 * NANO,
    });
    limited("cpu", "1", 0).sound();
}

#[test]
fn a_limit_on_gpus_counts_devices_of_every_vendor() {
    let with = |limit: &str| {
        let small = instance_type("small").room("nvidia.com/gpu", "2").price(100).build();
        let large = instance_type("large").room("amd.com/gpu", "3").price(400).build();
        let old = node("old").room("nvidia.com/gpu", "1").of_pool("default");
        let here = world().pool(pool("default").types(vec![small, large]).limit("gpu", limit)).node(old);
        draft(here.replicas(2, pod("p"))).fresh(&["p-0"]).fresh(&["p-1"])
    };
    with("7").sound();
    with("6").breaks(Violation::Limit {
        pool: "default".to_owned(),
        resource: "gpu".to_owned(),
        used: 7 * NANO,
        limit: 6 * NANO,
    });
}

#[test]
fn heavier_pools_come_first() {
    let named = |name: &str| {
        let mut pool = catalogue();
        pool.0.name = name.into();
        pool
    };
    let it = |heavy: PoolBuilder, p: karpenter_testkit::PodBuilder| {
        let here = world().pool(named("light")).pool(heavy.weight(10)).pod(p);
        draft(here).fresh(&["p"])
    };
    let lighter = Violation::LighterPool { node: new(), pool: "light".to_owned(), heavier: "heavy".to_owned() };
    it(named("heavy"), pod("p").cpu("1")).breaks(lighter.clone());
    it(named("heavy").taint("team"), pod("p")).sound();
    it(named("heavy").limit("cpu", "1000"), pod("p")).sound();
    it(named("heavy").require(is_in(INSTANCE_TYPE, &["none"])), pod("p")).sound();
    it(named("heavy").require(with_min_values(exists(INSTANCE_TYPE), 2)), pod("p")).sound();
    // With wishes, or with others in play, more than the weight decides.
    it(named("heavy"), pod("p").prefer(1, vec![exists("team")])).sound();
    it(named("heavy"), pod("p").app("a").zone_spread(1).anyway()).sound();
    it(named("heavy"), pod("p").port(80)).sound();
    let only_light = pod("p").select("karpenter.sh/nodepool", "light");
    it(named("heavy"), only_light).sound();
    let both = |there: &str| {
        let avoided = pod("old").on("old").anti_affinity("topology.kubernetes.io/zone", &[("app", "a")]);
        let here = world().pool(named("light")).pool(named("heavy").weight(10));
        let here = here.node(node("old").zone(there)).pod(avoided).pod(pod("p").app("a"));
        draft(here).fresh_in(&["p"], &["small", "large"], &ZONES[..2])
    };
    both("test-zone-3").sound();
}

fn reserve(remaining: u32, holders: usize) -> Draft {
    let here = world().pool(reserved_catalogue(remaining)).replicas(holders, pod("p"));
    let names: Vec<String> = (0..holders).map(|i| format!("p-{i}")).collect();
    let hold = |draft: Draft, name: &String| {
        draft.fresh_in(&[name], &["small"], &["test-zone-1"]).bend(|claim| {
            claim.reservations = vec!["cr-1".into()];
            claim.requirements.0.insert(CAPACITY_TYPE.into(), Requirement::one("reserved"));
            claim.requirements.add(RESERVATION_ID, Requirement::one("cr-1"));
            claim.launch.capacity_type = "reserved".into();
            claim.launch.price = MicroUsd(0);
        })
    };
    names.iter().fold(draft(here), hold)
}

#[test]
fn reservations_are_held_by_no_more_nodes_than_they_have_units() {
    reserve(2, 2).sound();
    reserve(1, 2).breaks(Violation::ReservationOverdrawn { reservation: "cr-1".to_owned(), held: 2, remaining: 1 });
}

#[test]
fn of_a_shared_reservation_the_least_is_left() {
    let mut it = reserve(2, 2);
    let mut other = reserved_catalogue(1).0;
    other.name = "other".into();
    it.world.pools.push(other);
    it.breaks(Violation::ReservationOverdrawn { reservation: "cr-1".to_owned(), held: 2, remaining: 1 });
}

#[test]
fn reservations_are_named_and_there() {
    let mut unknown = reserve(1, 1);
    unknown.last().reservations.push("cr-2".into());
    let found = crate::verify(&unknown.world, &unknown.plan);
    let there = Violation::ReservationNotThere { node: new(), reservation: "cr-2".to_owned() };
    assert!(found.contains(&there), "{found:?}");
    reserve(1, 1)
        .bend(|claim| drop(claim.requirements.0.remove(RESERVATION_ID)))
        .breaks(Violation::ReservationNotRequired { node: new() });
}

#[test]
fn a_reservation_within_reach_is_held() {
    let unheld = || {
        reserve(1, 1).bend(|claim| {
            claim.reservations.clear();
            let both = Requirement::one_of(["on-demand", "reserved"]);
            claim.requirements.0.insert(CAPACITY_TYPE.into(), both);
            claim.requirements.0.remove(RESERVATION_ID);
        })
    };
    unheld().breaks(Violation::ReservationNotHeld { node: new() });
    let mut off = unheld();
    off.world.settings.reserved_capacity = false;
    off.sound();
    let on_demand = reserve(1, 1).bend(|claim| {
        claim.reservations.clear();
        claim.requirements.0.insert(CAPACITY_TYPE.into(), Requirement::one("on-demand"));
        claim.requirements.0.remove(RESERVATION_ID);
        claim.launch.capacity_type = "on-demand".into();
        claim.launch.price = MicroUsd(100);
    });
    on_demand.sound();
}
