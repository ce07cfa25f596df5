//! One solve of the reference workload at each given size, timed: `solve_times 1000 10000`.

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    for size in sizes {
        let world = karpenter_testkit::benchmark::mixed_world(size, karpenter_testkit::fake::incremental(400), 42);
        let mut times = Vec::new();
        for _ in 0..3 {
            let start = std::time::Instant::now();
            let plan = karpenter_scheduling::solve(&world);
            times.push((start.elapsed(), plan.new_nodes.len(), plan.left_over.len(), plan.price()));
        }
        times.sort();
        let (time, nodes, left, price) = times[1];
        println!("{size} pods: {time:?} {nodes} nodes, {left} left over, {price}");
    }
    let world = karpenter_testkit::benchmark::preference_world(4000, karpenter_testkit::fake::incremental(400), 42);
    let start = std::time::Instant::now();
    let plan = karpenter_scheduling::solve(&world);
    println!("4000 pods with preferences: {:?} {} nodes", start.elapsed(), plan.new_nodes.len());
}
