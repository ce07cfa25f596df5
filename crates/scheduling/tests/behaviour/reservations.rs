//! Reserved capacity: used before anything else, and never twice.

use karpenter_core::labels::{CAPACITY_TYPE, ZONE};
use karpenter_core::plan::Reason;
use karpenter_testkit::express::is_in;
use karpenter_testkit::fake::{self, RESERVATION_ID, Sold, sold};
use karpenter_testkit::{PodBuilder, PoolBuilder, WorldBuilder, pod, pool, world};

use crate::seen::{Seen, seen};

/// A type of 4 CPUs, sold on demand and spot in zone 1, and from these reservations.
fn reserving(name: &str, reserved: &[(&str, u32)]) -> karpenter_core::InstanceType {
    let mut offers: Vec<Sold> = vec![sold("test-zone-1", "on-demand").at(1_000), sold("test-zone-1", "spot").at(400)];
    offers.extend(reserved.iter().map(|(id, count)| sold("test-zone-1", "reserved").reserved(id, *count).at(1)));
    fake::instance_type(name).cpu("4").pods("100").offerings(offers).build()
}

fn reserving_pool(name: &str, reserved: &[(&str, u32)]) -> PoolBuilder {
    pool(name).types(vec![reserving(&format!("type-of-{name}"), reserved)])
}

/// Fills a node.
fn filling() -> PodBuilder {
    pod("p").cpu("3")
}

fn held(seen: &Seen) -> Vec<String> {
    seen.plan.new_nodes.iter().map(|node| node.reservations.join(" ")).collect()
}

fn deferred(seen: &Seen) -> usize {
    seen.plan.left_over.iter().filter(|left| left.reason == Reason::ReservedCapacityDeferred).count()
}

#[test]
fn a_claim_that_holds_a_reservation_launches_into_it() {
    // covers: SCH-RESV-03, SCH-RESV-12
    let seen = seen(world().pool(reserving_pool("a", &[("cr-1", 1)])).pod(filling()));
    let node = &seen.plan.new_nodes[0];
    assert_eq!(held(&seen), ["cr-1"]);
    assert_eq!(
        (seen.says(node, CAPACITY_TYPE).as_str(), seen.says(node, RESERVATION_ID).as_str()),
        ("reserved", "cr-1")
    );
    assert_eq!((&*node.launch.capacity_type, node.launch.price.0), ("reserved", 1));
}

#[test]
fn units_are_counted_down_and_the_rest_waits_for_the_next_pass() {
    // covers: SCH-RESV-04, SCH-RESV-06, SCH-RESV-09, SCH-RESV-16
    for (units, nodes) in [(1, 1), (2, 2), (3, 3), (5, 3)] {
        let seen = seen(world().pool(reserving_pool("a", &[("cr-1", units)])).replicas(3, filling()));
        assert_eq!((seen.sizes().len(), deferred(&seen)), (nodes, 3 - nodes), "{units} units");
        assert!(held(&seen).iter().all(|held| held == "cr-1"));
    }
}

#[test]
fn pods_on_one_claim_use_one_unit() {
    // covers: SCH-RESV-04, SCH-RESV-13
    let seen = seen(world().pool(reserving_pool("a", &[("cr-1", 1)])).replicas(3, pod("p").cpu("1")));
    assert_eq!((seen.sizes(), held(&seen), deferred(&seen)), (vec![3], vec!["cr-1".to_owned()], 0));
}

#[test]
fn without_the_gate_reservations_are_not_tracked() {
    // covers: SCH-RESV-01
    let start = world().pool(reserving_pool("a", &[("cr-1", 1)])).replicas(3, filling());
    let seen = seen(start.settings(|settings| settings.reserved_capacity = false));
    assert_eq!((seen.sizes().len(), seen.left().as_str()), (3, ""));
    assert!(held(&seen).iter().all(String::is_empty));
}

#[test]
fn the_smallest_count_of_an_id_is_what_there_is_for_all() {
    // covers: SCH-RESV-02
    let start = world().pool(reserving_pool("a", &[("cr-1", 5)]).weight(9)).pool(reserving_pool("b", &[("cr-1", 2)]));
    let seen = seen(start.replicas(4, filling()));
    assert_eq!((held(&seen), deferred(&seen)), (vec!["cr-1".to_owned(), "cr-1".to_owned()], 2));
}

#[test]
fn a_claim_holds_a_unit_wherever_it_might_still_go() {
    // covers: SCH-RESV-03, SCH-RESV-14
    let types = vec![reserving("a", &[("cr-a", 1)]), reserving("b", &[("cr-b", 1)])];
    let first = seen(world().pool(pool("default").types(types.clone())).replicas(3, filling()));
    assert_eq!((held(&first), deferred(&first)), (vec!["cr-a cr-b".to_owned()], 2));
    // The provider has deducted the unit that was launched into.
    let launched = first.plan.new_nodes[0].launch.instance_type.to_string();
    let left = |of: &str| if launched == of { 0 } else { 1 };
    let deduct = |world: WorldBuilder, units: [u32; 2]| {
        let mut world = world;
        let kind = |name: &str, id: &str, count: u32| {
            let mut kind = reserving(name, &[(id, count)]);
            let gone = |offering: &mut karpenter_core::Offering| {
                offering.available &= offering.reservation.as_ref().is_none_or(|r| r.remaining > 0)
            };
            kind.offerings.iter_mut().for_each(gone);
            std::sync::Arc::new(kind)
        };
        world.0.pools[0].instance_types = vec![kind("a", "cr-a", units[0]), kind("b", "cr-b", units[1])].into();
        world
    };
    let second = seen(deduct(first.next_pass(), [left("a"), left("b")]));
    assert_eq!((second.sizes(), deferred(&second)), (vec![1], 1));
    assert_eq!(second.plan.new_nodes[0].reservations.len(), 1);
    let third = seen(deduct(second.next_pass(), [0, 0]));
    assert_eq!((third.sizes(), held(&third), third.left().as_str()), (vec![1], vec![String::new()], ""));
    assert_eq!(&*third.plan.new_nodes[0].launch.capacity_type, "spot");
}

#[test]
fn units_a_claim_can_no_longer_use_are_returned() {
    // covers: SCH-RESV-04, SCH-RESV-05
    // The first pod alone may go to either type; the second leaves only the larger, whose reservation the claim keeps.
    let small = fake::instance_type("small")
        .cpu("2")
        .pods("100")
        .offerings(vec![sold("test-zone-1", "reserved").reserved("cr-small", 1).at(1)]);
    let large = fake::instance_type("large")
        .cpu("8")
        .pods("100")
        .offerings(vec![sold("test-zone-1", "reserved").reserved("cr-large", 1).at(2)]);
    let start = world().pool(pool("default").types(vec![small.build(), large.build()]));
    let start = start
        .pod(pod("a").cpu("1500m"))
        .pod(pod("b").cpu("1400m"))
        .pod(pod("c").cpu("1").port(80))
        .pod(pod("d").cpu("900m").port(80));
    let seen = seen(start);
    // a opens a claim that holds both; b joins and gives the small unit back; c joins; d needs another node: the small one.
    assert_eq!(seen.new_nodes(), ["a b c", "d"]);
    assert_eq!(held(&seen), ["cr-large", "cr-small"]);
}

#[test]
fn a_claim_with_reservations_takes_no_pod_that_would_leave_it_with_none() {
    // covers: SCH-RESV-07
    // The reserved type is small; together the pods need the large one, which is sold on demand alone.
    let small = reserving("small", &[("cr-1", 2)]);
    let large = fake::instance_type("large")
        .cpu("16")
        .pods("100")
        .offerings(vec![sold("test-zone-1", "on-demand").at(5_000)])
        .build();
    let seen = seen(world().pool(pool("default").types(vec![small, large])).replicas(2, pod("p").cpu("3")));
    assert_eq!((seen.sizes(), held(&seen)), (vec![1, 1], vec!["cr-1".to_owned(), "cr-1".to_owned()]));
}

#[test]
fn a_deferral_stops_the_search_among_lighter_pools_and_wishes() {
    // covers: SCH-RESV-09, SCH-RESV-10, SCH-LOOP-11
    let plain = |weight| pool("plain").types(vec![fake::instance_type("t").cpu("4").build()]).weight(weight);
    let heavier = world().pool(reserving_pool("a", &[("cr-1", 1)]).weight(9)).pool(plain(1)).replicas(2, filling());
    let waiting = seen(heavier.clone());
    assert_eq!((waiting.sizes(), deferred(&waiting)), (vec![1], 1), "the lighter pool is not used");
    // With its wish the pod must have the reservation; it is not given up to go elsewhere.
    let wish = filling().prefer(1, vec![is_in(CAPACITY_TYPE, &["reserved"])]).replicas(2);
    let start = world().pool(reserving_pool("a", &[("cr-1", 1)])).pods(wish);
    assert_eq!(deferred(&seen(start)), 1);
}

#[test]
fn a_pool_that_takes_the_pod_beats_a_lighter_one_that_would_defer() {
    // covers: SCH-RESV-11
    let plain = pool("plain").types(vec![fake::instance_type("t").cpu("4").build()]).weight(9);
    let seen = seen(world().pool(plain).pool(reserving_pool("a", &[("cr-1", 1)])).replicas(3, filling()));
    assert_eq!((seen.sizes().len(), deferred(&seen)), (3, 0));
    assert!((0..3).all(|i| seen.pool_of(&format!("p-{i}")) == "plain"));
}

#[test]
fn a_pod_that_excludes_reserved_capacity_is_never_deferred() {
    // covers: SCH-RESV-06
    let start =
        world().pool(reserving_pool("a", &[("cr-1", 1)])).replicas(3, filling().select(CAPACITY_TYPE, "on-demand"));
    let seen = seen(start);
    assert_eq!((seen.sizes().len(), seen.left().as_str()), (3, ""));
    assert!(held(&seen).iter().all(String::is_empty));
    assert!(seen.plan.new_nodes.iter().all(|node| &*node.launch.capacity_type == "on-demand"));
}

#[test]
fn an_unavailable_reservation_does_not_count() {
    // covers: SCH-RESV-15
    let offers = vec![sold("test-zone-1", "reserved").reserved("cr-1", 1).unavailable(), sold("test-zone-1", "spot")];
    let types = vec![fake::instance_type("t").cpu("4").offerings(offers).build()];
    let seen = seen(world().pool(pool("default").types(types)).replicas(2, filling()));
    assert_eq!((seen.sizes().len(), seen.left().as_str()), (2, ""));
}

#[test]
fn a_reservation_without_units_that_is_still_offered_defers() {
    // covers: SCH-RESV-06
    let seen = seen(world().pool(reserving_pool("a", &[("cr-1", 0)])).pod(filling()));
    assert_eq!((seen.sizes(), deferred(&seen)), (vec![], 1));
}

#[test]
fn reservations_of_another_zone_do_not_count() {
    // covers: SCH-RESV-03
    let offers = vec![sold("test-zone-2", "reserved").reserved("cr-2", 1).at(1), sold("test-zone-1", "spot").at(5)];
    let types = vec![fake::instance_type("t").cpu("4").pods("9").offerings(offers).build()];
    let start = || world().pool(pool("default").types(types.clone()));
    let there = seen(start().pod(filling().zone("test-zone-2")));
    let here = seen(start().pod(filling().zone("test-zone-1")));
    assert_eq!((held(&there), held(&here)), (vec!["cr-2".to_owned()], vec![String::new()]));
    assert_eq!((there.per(ZONE, "").as_str(), here.per(ZONE, "").as_str()), ("test-zone-2=1", "test-zone-1=1"));
}
