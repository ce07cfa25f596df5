use karpenter_core::labels::{CAPACITY_TYPE, HOSTNAME, ZONE};
use karpenter_core::requirement::Operator;
use karpenter_core::storage::BindingMode;
use karpenter_testkit::express::{exists, is_in, with_min_values};
use karpenter_testkit::fake::{self, instance_type};
use karpenter_testkit::random::{Size, recipes};
use karpenter_testkit::{PodBuilder, PoolBuilder, WorldBuilder, node, pod, pool, quantity, world};
use proptest::prelude::*;

use super::*;
use crate::solve;

/// Every pod is an object of its own, and any request can be lowered to nothing.
fn misses(world: &World) -> Vec<Miss> {
    let written = Written { together: &|pod| pod..pod + 1, least: &|_, _| Quantity::ZERO };
    nearest_misses(world, &solve(world), &written)
}

fn general() -> PoolBuilder {
    pool("general").types(fake::default_six())
}

fn web() -> PodBuilder {
    pod("web").app("web").cpu("1")
}

/// The only leftover's miss, which must let it in.
fn miss(builder: WorldBuilder) -> Change {
    let world = builder.build();
    let mut found = misses(&world);
    assert_eq!(found.len(), 1, "{found:?}");
    let miss = found.remove(0);
    assert!(is_placed(&changed(&world, &miss.change, miss.pod..miss.pod + 1), miss.pod), "{miss:?}");
    miss.change
}

fn is_placed(world: &World, pod: usize) -> bool {
    let plan = solve(world);
    plan.new_nodes.iter().any(|node| node.pods.contains(&pod)) || plan.existing.values().any(|pods| pods.contains(&pod))
}

#[test]
fn requests_are_lowered_to_exactly_what_fits() {
    // The largest has 128Gi less 10Mi, and is arm64 with 16 CPUs less 100m.
    let ask = |builder: PodBuilder| miss(world().pool(general()).pod(builder));
    let lowered = |resource: &str, from: &str, to: &str| {
        let (from, to) = (quantity(from), quantity(to));
        Change::Pod(PodChange::Request { resource: resource.to_owned(), from, to })
    };
    assert_eq!(ask(web().memory("130Gi")), lowered("memory", "130Gi", "131062Mi"));
    assert_eq!(ask(web().cpu("17")), lowered("cpu", "17", "15900m"));
    assert_eq!(ask(web().request(fake::VENDOR_A, "3")), lowered(fake::VENDOR_A, "3", "2"));
    assert_eq!(ask(web().request("example.com/nobody-has-it", "3")), lowered("example.com/nobody-has-it", "3", "0"));
    // Room on a node that is there counts as well.
    let full = world().pool(general().limit("nodes", "0")).node(node("n1").cpu("2").memory("4Gi"));
    assert_eq!(miss(full.pod(web().cpu("2100m"))), lowered("cpu", "2100m", "2"));
}

#[test]
fn one_toleration_more() {
    let Change::Pod(PodChange::Toleration(toleration)) = miss(world().pool(general().taint("gpu")).pod(web())) else {
        panic!("a toleration is nearest");
    };
    assert_eq!(toleration.key, "gpu");
    let two = miss(world().pool(general().taint("gpu").taint("team")).pod(web()));
    assert!(matches!(two, Change::Pod(PodChange::Toleration(toleration)) if toleration.key.is_empty()));
}

#[test]
fn one_value_more_in_the_pool_or_one_requirement() {
    let zonal = || general().require(is_in(ZONE, &["test-zone-1"]));
    let Change::Pool(0, PoolChange::Values { requirement, to, .. }) =
        miss(world().pool(zonal()).pod(web().zone("test-zone-2")))
    else {
        panic!("a zone more is nearest");
    };
    assert_eq!((requirement, to), (0, vec!["test-zone-1".into(), "test-zone-2".into()]));
    let Change::Pool(0, PoolChange::Requirement(added)) = miss(world().pool(zonal()).pod(web().select("team", "a")))
    else {
        panic!("defining the label is nearest");
    };
    assert_eq!((&*added.key, added.operator), ("team", Operator::In));
}

#[test]
fn a_pod_that_contradicts_itself_drops_one_side() {
    let pod = web().zone("test-zone-1").require(vec![is_in(ZONE, &["test-zone-2"]), exists(CAPACITY_TYPE)]);
    let change = miss(world().pool(general()).pod(pod));
    assert!(
        matches!(
            change,
            Change::Pod(
                PodChange::Selector { to: None, .. } | PodChange::NoAffinityExpression { term: 0, expression: 0, .. }
            )
        ),
        "{change:?}"
    );
}

#[test]
fn an_alternative_that_preferences_lead_to_is_dropped() {
    // The first alternative is only ever tried with the preference, which nothing can meet.
    let pod = web()
        .require(vec![is_in(ZONE, &["test-zone-1"])])
        .require(vec![is_in("example.com/none", &["a"]), is_in("example.com/either", &["a"])])
        .prefer(1, vec![is_in(ZONE, &["nowhere"])]);
    assert_eq!(miss(world().pool(general()).pod(pod)), Change::Pod(PodChange::NoAffinityTerm { term: 1 }));
}

#[test]
fn limits_are_raised_by_the_smallest_node() {
    let one = pool("general").types(vec![instance_type("four").build(), instance_type("eight").cpu("8").build()]);
    let change = miss(world().pool(one.clone().limit("cpu", "3")).pod(web()));
    let raised = |from: &str, to: &str| PoolChange::Limit {
        resource: "cpu".to_owned(),
        from: quantity(from),
        to: Some(quantity(to)),
    };
    assert_eq!(change, Change::Pool(0, raised("3", "4")));
    let many = world().pool(one.limit("cpu", "4")).replicas(3, web().cpu("3")).build();
    let found = misses(&many);
    assert_eq!(found.len(), 2, "each of those left over has one: {found:?}");
    for miss in found {
        assert!(is_placed(&changed(&many, &miss.change, miss.pod..miss.pod + 1), miss.pod), "{miss:?}");
    }
}

#[test]
fn min_values_are_lowered_as_little_as_possible() {
    let types = vec![instance_type("a").build(), instance_type("b").cpu("16").memory("16Gi").build()];
    let sizes = with_min_values(is_in("size", &["small", "large"]), 2);
    let change = miss(world().pool(pool("general").types(types).require(sizes)).pod(web().cpu("8")));
    assert_eq!(change, Change::Pool(0, PoolChange::MinValues { requirement: 0, from: 2, to: Some(1) }));
}

#[test]
fn topology_is_relaxed_where_topology_is_in_the_way() {
    let zonal = general().require(is_in(ZONE, &["test-zone-1"]));
    let spread = world()
        .pool(zonal)
        .node(node("n2").zone("test-zone-2").cpu("0"))
        .pods(web().named("more").zone_spread(1).replicas(2));
    assert_eq!(miss(spread), Change::Pod(PodChange::MaxSkew { constraint: 0, from: 1, to: 2 }));
    let lonely = web().affinity(HOSTNAME, &[("app", "nobody")]);
    assert_eq!(miss(world().pool(general()).pod(lonely)), Change::Pod(PodChange::NoPodAffinityTerm { term: 0 }));
}

#[test]
fn ports_and_volumes() {
    let taken = world().pool(general()).daemon_set(pod("agent").port(9100)).pod(web().port(8080).port(9100));
    assert!(matches!(miss(taken), Change::Pod(PodChange::NoHostPort { port: 1, .. })));
    let unbound = world()
        .pool(general())
        .storage_class("fast", BindingMode::Immediate, &[])
        .waiting_claim("data", "fast")
        .pod(web().claim("data"));
    assert_eq!(miss(unbound), Change::StorageClass("fast".into(), ClassChange::WaitForFirstConsumer));
}

#[test]
fn what_no_single_change_mends_has_no_miss() {
    let world = world().pool(general().taint("gpu")).pod(web().cpu("80")).build();
    assert_eq!(misses(&world), []);
}

#[test]
fn a_workload_changes_as_one() {
    let world = world().pool(general()).replicas(3, web().cpu("17")).build();
    let written = Written { together: &|_| 0..3, least: &|_, _| Quantity::ZERO };
    let found = nearest_misses(&world, &solve(&world), &written);
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|miss| miss.change == found[0].change));
    assert!(solve(&changed(&world, &found[0].change, 0..3)).left_over.is_empty());
}

#[test]
fn requests_are_not_lowered_further_than_a_field_reaches() {
    let world = world().pool(general()).pod(web().cpu("17")).build();
    let written = Written { together: &|pod| pod..pod + 1, least: &|_, _| quantity("16") };
    assert_eq!(nearest_misses(&world, &solve(&world), &written), []);
}

#[test]
fn thousands_of_equal_pods_share_one_search() {
    let world = world().pool(general()).replicas(10_000, web().cpu("17")).build();
    let found = misses(&world);
    assert_eq!(found.len(), 10_000);
    assert!(found.iter().all(|miss| miss.change == found[0].change && miss.pool == Some(0)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_miss_lets_its_pod_in(recipe in recipes(Size::Small)) {
        let world = recipe.world();
        for miss in misses(&world) {
            let after = changed(&world, &miss.change, miss.pod..miss.pod + 1);
            prop_assert!(is_placed(&after, miss.pod), "{miss:?}");
        }
    }
}
