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
