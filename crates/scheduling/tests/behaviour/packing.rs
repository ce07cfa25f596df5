//! What runs by default may pack otherwise than the reference, to pay less.

use karpenter_core::labels::HOSTNAME;
use karpenter_scheduling::{Packing, solve_with};
use karpenter_testkit::{fake, pod, pool, world};

#[test]
fn a_pod_moves_to_a_node_that_has_room_for_it_anyway() {
    let lean = fake::instance_type("lean").cpu("9").memory("10Gi").price(100).build();
    let wide = fake::instance_type("wide").cpu("9").memory("34Gi").price(200).build();
    let pair = || pod("pair").app("pair").cpu("2").memory("8Gi").affinity(HOSTNAME, &[("app", "pair")]);
    let world = world()
        .pool(pool("default").types(vec![lean, wide]))
        .pod(pod("worker").cpu("5").memory("1Gi"))
        .pod(pod("hog").cpu("3").memory("12Gi"))
        .replicas(2, pair())
        .build();
    // First come, first served, the hog goes with the worker, and makes two wide nodes of it.
    assert_eq!(solve_with(&world, Packing::FirstMatch).price().0, 400);
    let best = solve_with(&world, Packing::Best);
    assert_eq!(best.price().0, 300);
    let mut pods: Vec<usize> = best.new_nodes.iter().map(|node| node.pods.len()).collect();
    pods.sort_unstable();
    assert_eq!(pods, [1, 3], "the hog is with the pair");
}

/// As T4g nodes have it: places for pods are cheapest where there is next to nothing to run them with.
fn burstable() -> Vec<karpenter_core::InstanceType> {
    let sizes = [
        ("nano", "2", "82Mi", "4", 4_200),
        ("small", "2", "1400Mi", "11", 16_800),
        ("medium", "2", "3200Mi", "17", 30_000),
        ("large", "2", "7000Mi", "35", 67_200),
        ("xlarge", "4", "15Gi", "58", 134_400),
    ];
    let kind = |(name, cpu, memory, pods, price): (&str, &str, &str, &str, u64)| {
        let offerings = vec![fake::sold("test-zone-1", "on-demand").at(price)];
        fake::instance_type(name).cpu(cpu).memory(memory).pods(pods).offerings(offerings).build()
    };
    sizes.map(kind).into()
}

#[test]
fn pods_that_ask_for_nothing_are_not_spread_over_many_small_nodes() {
    let world = world().pool(pool("default").types(burstable())).replicas(50, pod("idle")).build();
    let first = solve_with(&world, Packing::FirstMatch);
    let best = solve_with(&world, Packing::Best);
    assert_eq!((first.new_nodes.len(), best.new_nodes.len()), (1, 1), "13 of the smallest would be cheaper");
    assert!(best.left_over.is_empty());
}

#[test]
fn a_pod_that_asks_for_nothing_is_counted_where_nodes_are_chosen_by_price() {
    // On its own each of these pays for a node that the other would have to share with it.
    let lean = fake::instance_type("lean").cpu("1").memory("1100Mi").pods("30").price(100).build();
    let wide = fake::instance_type("wide").cpu("4").memory("8Gi").pods("30").price(390).build();
    let worker = || pod("worker").cpu("250m").memory("1Gi");
    let world =
        world().pool(pool("default").types(vec![lean, wide])).replicas(3, worker()).replicas(9, pod("idle")).build();
    let best = solve_with(&world, Packing::Best);
    for node in &best.new_nodes {
        let idle = node.pods.iter().filter(|pod| world.pods[**pod].shape.requests.get("memory").is_zero()).count();
        let memory = if &*node.launch.instance_type == "lean" { 1100 } else { 8192 };
        let needs = (node.pods.len() - idle) * 1024 + idle * 64;
        assert!(needs <= memory, "{needs}Mi on {}", node.launch.instance_type);
    }
}

#[test]
fn pods_with_requests_may_take_more_nodes_if_those_are_cheaper() {
    let pods = pod("worker").cpu("100m").memory("1Gi");
    let world = world().pool(pool("default").types(burstable())).replicas(12, pods).build();
    let first = solve_with(&world, Packing::FirstMatch);
    let best = solve_with(&world, Packing::Best);
    assert_eq!((first.new_nodes.len(), first.price().0), (1, 134_400));
    assert_eq!((best.new_nodes.len(), best.price().0), (4, 120_000));
}

/// Three shapes of nodes in sizes from 2 to 32 cores: what a core and a gibibyte cost depends on the shape alone. Three times
/// as much on demand. From six makers each, as a spot node has to have types to fall back on.
fn three_shapes() -> Vec<karpenter_core::InstanceType> {
    let mut types = Vec::new();
    for (shape, gibibytes, price) in [("lean", 2, 3_000), ("even", 4, 4_000), ("wide", 8, 6_000)] {
        for (cores, maker) in [2, 4, 8, 16, 32].into_iter().flat_map(|cores| (1..=6).map(move |maker| (cores, maker))) {
            let sold = |as_what: &str, times: u64| fake::sold("test-zone-1", as_what).at(times * price * cores);
            let kind = fake::instance_type(&format!("{shape}{maker}-{cores}")).pods("200");
            let kind = kind.cpu(&cores.to_string()).memory(&format!("{}Gi", gibibytes * cores));
            types.push(kind.offerings(vec![sold("spot", 1), sold("on-demand", 3)]).build());
        }
    }
    types
}

/// What a core and a gibibyte cost on the shapes above: 2,000 and 500, whichever shape has them.
fn worth(millicores: u64, mebibytes: u64) -> u64 {
    2_000 * millicores / 1_000 + 500 * mebibytes / 1_024
}

#[test]
fn hundreds_of_sizes_pack_as_well_as_few() {
    // With every size a class of its own, many more than a programme over patterns could have rows.
    let mut least = 0;
    let mut pods = Vec::new();
    for app in 0..900_u64 {
        let millicores = 100 + (app * 37) % 901;
        let mebibytes = millicores * [1, 2, 4, 7][(app % 4) as usize] + app;
        least += 3 * worth(millicores, mebibytes);
        let size = pod(&format!("app-{app}")).cpu(&format!("{millicores}m")).memory(&format!("{mebibytes}Mi"));
        pods.extend(size.app(&format!("app-{app}")).replicas(3));
    }
    let world = world().pool(pool("default").types(three_shapes())).pods(pods).build();
    let first = solve_with(&world, Packing::FirstMatch);
    let best = solve_with(&world, Packing::Best);
    assert!(best.left_over.is_empty());
    assert!(first.price().0 > least * 110 / 100, "in the order of arrival they cost {} of {least}", first.price().0);
    assert!(best.price().0 < least * 104 / 100, "{} where {least} is the least", best.price().0);
}

#[test]
fn names_and_labels_make_no_difference_to_the_price() {
    let size = |name: &str| pod(name).cpu("700m").memory("1500Mi");
    let apart = (0..300).flat_map(|app| size(&format!("app-{app}")).app(&format!("app-{app}")).replicas(4));
    let apart = world().pool(pool("default").types(three_shapes())).pods(apart).build();
    let alike = world().pool(pool("default").types(three_shapes())).replicas(1_200, size("app")).build();
    let price = |world| solve_with(world, Packing::Best).price().0;
    assert!(price(&apart) * 100 <= price(&alike) * 101, "{} for {}", price(&apart), price(&alike));
}

#[test]
fn a_few_that_want_on_demand_leave_the_others_on_spot() {
    let many =
        || (0..400_u64).map(|app| pod(&format!("app-{app}")).cpu(&format!("{}m", 300 + app)).memory("1Gi").build());
    let few = || {
        let wants = |app: u64| pod(&format!("od-{app}")).cpu(&format!("{}m", 300 + app)).memory("1Gi");
        (0..16).map(move |app| wants(app).select("karpenter.sh/capacity-type", "on-demand").build())
    };
    let price = |pods: Vec<karpenter_core::Pod>| {
        solve_with(&world().pool(pool("default").types(three_shapes())).pods(pods).build(), Packing::Best).price().0
    };
    let (together, apart) = (price(many().chain(few()).collect()), price(many().collect()) + price(few().collect()));
    assert!(together * 100 <= apart * 105, "{together} together, {apart} apart");
}
