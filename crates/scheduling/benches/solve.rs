//! How long a plan takes, from the world to the plan, compiling the problem included.
//!
//! `cargo bench -p karpenter-scheduling`, and see docs/benchmarks.md. Every workload is solved once beforehand, untimed, to
//! see that all pods are placed, and to tell how many nodes the plan has and what they cost.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use karpenter_core::settings::PreferencePolicy;
use karpenter_core::{InstanceType, World};
use karpenter_ec2::catalogue::builtin;
use karpenter_ec2::{Ec2Settings, NodeClassFacts};
use karpenter_scheduling::{Packing, solve_with};
use karpenter_testkit::{benchmark, fake, quantity};

const SEED: u64 = 42;
/// The reference's own sizes, and two beyond them.
const SIZES: [usize; 11] = [1, 50, 100, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000];
/// The reference's pool has limits that are meant to be out of reach, and are for its own sizes.
const MOST_WITHIN_LIMITS: usize = 20_000;
/// The reference has this many of its made-up types.
const TYPES: usize = 400;

/// The reference's mix: plain, zone-spread, hostname-spread, zone-affine and mutually repelling pods.
fn mixed(c: &mut Criterion) {
    let mut group = group(c, "mixed");
    for pods in SIZES {
        run(&mut group, pods, Packing::Best, || benchmark::mixed_world(pods, fake::incremental(TYPES), SEED));
    }
    group.finish();
}

/// The same in the reference's order, without looking for cheaper nodes afterwards.
fn mixed_first_match(c: &mut Criterion) {
    let mut group = group(c, "mixed-first-match");
    for pods in [1_000, 5_000, 10_000, 100_000] {
        run(&mut group, pods, Packing::FirstMatch, || benchmark::mixed_world(pods, fake::incremental(TYPES), SEED));
    }
    group.finish();
}

/// Identical pods that would rather be alone.
fn preferences(c: &mut Criterion) {
    for (name, policy) in
        [("preferences-respect", PreferencePolicy::Respect), ("preferences-ignore", PreferencePolicy::Ignore)]
    {
        let mut group = group(c, name);
        run(&mut group, 4_000, Packing::Best, || {
            let mut world = benchmark::preference_world(4_000, fake::incremental(TYPES), SEED);
            world.settings.preferences = policy;
            world
        });
        group.finish();
    }
}

/// The reference's mix over everything EC2 sells in one region.
fn real_catalogue(c: &mut Criterion) {
    let mut group = group(c, "real-catalogue");
    let types = LazyCell::new(|| -> Vec<InstanceType> {
        let (class, settings) = (NodeClassFacts::default(), Ec2Settings::default());
        karpenter_ec2::instance_types(builtin::catalogue(), "us-east-1", &class, &settings)
            .expect("the built-in catalogue has us-east-1")
    });
    for pods in [1_000, 10_000, 100_000] {
        run(&mut group, pods, Packing::Best, || {
            let mut world = benchmark::mixed_world(pods, types.clone(), SEED);
            world.vocabulary = Arc::new(karpenter_ec2::vocabulary());
            world
        });
    }
    group.finish();
}

fn group<'a>(c: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = c.benchmark_group(name);
    // Every iteration does the same work, and the large ones take their time.
    group.sample_size(10).sampling_mode(SamplingMode::Flat).warm_up_time(Duration::from_secs(1));
    group
}

/// The world is made when the benchmark is wanted, not when it is filtered out.
fn run(group: &mut BenchmarkGroup<'_, WallTime>, pods: usize, packing: Packing, make: impl Fn() -> World) {
    let world = LazyCell::new(|| {
        let mut world = make();
        if pods > MOST_WITHIN_LIMITS {
            let limits = &mut world.pools[0].limits;
            limits.set("cpu", quantity("1000000000"));
            limits.set("memory", quantity("1000000000Gi"));
        }
        let plan = solve_with(&world, packing);
        assert!(plan.left_over.is_empty(), "{} of {pods} pods are left over", plan.left_over.len());
        let dollars = plan.price().0 as f64 / 1e6;
        eprintln!("{pods} pods: {} nodes, ${dollars:.2} an hour", plan.new_nodes.len());
        world
    });
    group.throughput(Throughput::Elements(pods as u64));
    group.bench_function(pods.to_string(), |bencher| {
        let world = &*world;
        bencher.iter(|| solve_with(world, packing));
    });
}

criterion_group!(benches, mixed, mixed_first_match, preferences, real_catalogue);
criterion_main!(benches);
