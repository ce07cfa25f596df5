//! How long a look at a whole cluster takes: cold, with a memory of the same cluster, and after one pod has gone.
//!
//! `cargo bench -p karpenter-disruption`, and see docs/benchmarks.md.

mod fleet;

use std::cell::RefCell;
use std::time::Duration;

use criterion::{BatchSize, Criterion, SamplingMode, criterion_group, criterion_main};
use fleet::{Fleet, policy};
use karpenter_disruption::{Memory, propose, propose_again};

const SIZES: [usize; 3] = [500, 1_000, 5_000];

fn passes(c: &mut Criterion) {
    let mut group = c.benchmark_group("pass");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).warm_up_time(Duration::from_secs(1));
    for nodes in SIZES {
        let usual = Fleet::new(nodes, "10%");
        group.bench_function(format!("cold/default-budget/{nodes}"), |bencher| {
            bencher.iter(|| propose(&usual.snapshot(), &policy()));
        });
        drop(usual);
        let mut fleet = Fleet::new(nodes, "100%");
        group.bench_function(format!("cold/{nodes}"), |bencher| {
            bencher.iter(|| propose(&fleet.snapshot(), &policy()));
        });
        group.bench_function(format!("same/{nodes}"), |bencher| {
            let mut memory = Memory::default();
            propose_again(&mut memory, &fleet.snapshot(), &policy());
            bencher.iter(|| propose_again(&mut memory, &fleet.snapshot(), &policy()));
        });
        let mut memory = Memory::default();
        fleet.rest(&mut memory);
        group.bench_function(format!("at-rest/{nodes}"), |bencher| {
            bencher.iter(|| propose(&fleet.snapshot(), &policy()));
        });
        let (fleet, memory) = (RefCell::new(fleet), RefCell::new(memory));
        group.bench_function(format!("one-pod/{nodes}"), |bencher| {
            let goes = || {
                let pods = &mut fleet.borrow_mut().world.pods;
                let at = pods.len() / 3;
                pods.remove(at);
            };
            let look = |()| propose_again(&mut memory.borrow_mut(), &fleet.borrow().snapshot(), &policy());
            bencher.iter_batched(goes, look, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, passes);
criterion_main!(benches);
