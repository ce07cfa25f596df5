//! Passes over the benchmark's cluster, each once, with the memory they need.
//!
//! `cargo run --release -p karpenter-disruption --example pass -- [nodes]`

#![expect(clippy::disallowed_methods, reason = "it measures how long things take")]

#[path = "../benches/pass/fleet.rs"]
mod fleet;

use std::time::Instant;

use fleet::{Fleet, policy};
use karpenter_disruption::{Memory, Proposal, propose_again};

fn main() {
    let nodes = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5_000);
    let mut fleet = Fleet::new(nodes, "100%");
    let (nodes, pods) = (fleet.world.nodes.len(), fleet.world.pods.len());
    println!("{nodes} nodes, {pods} pods: {} MB", resident());
    let mut memory = Memory::default();
    for name in ["cold", "the same again"] {
        tell(name, || propose_again(&mut memory, &fleet.snapshot(), &policy()));
    }
    let began = Instant::now();
    let passes = fleet.rest(&mut memory);
    let took = began.elapsed().as_secs_f64();
    println!("at rest with {} nodes after {passes} passes in {took:.2} s; {} MB", fleet.world.nodes.len(), resident());
    tell("at rest, without memory", || propose_again(&mut Memory::default(), &fleet.snapshot(), &policy()));
    tell("at rest", || propose_again(&mut memory, &fleet.snapshot(), &policy()));
    for at in [3, 5, 7, 11, 13, 17, 19, 23] {
        let pod = fleet.world.pods.len() * at / 25;
        fleet.world.pods.remove(pod);
        let mut due = tell("one pod gone", || propose_again(&mut memory, &fleet.snapshot(), &policy())).due;
        let (began, mut passes, left) = (Instant::now(), 0, due);
        while due > 0 {
            due = propose_again(&mut memory, &fleet.snapshot(), &policy()).due;
            passes += 1;
        }
        let took = began.elapsed().as_secs_f64() * 1e3;
        println!("  the other {left} nodes concerned: {passes} more passes in {took:.1} ms");
    }
}

fn tell(name: &str, look: impl FnOnce() -> Proposal) -> Proposal {
    let (began, worked) = (Instant::now(), on_processor());
    let proposal = look();
    let (took, worked) = (began.elapsed().as_secs_f64() * 1e3, on_processor() - worked);
    let savings: i64 = proposal.commands.iter().map(|command| command.savings).sum();
    let gone: usize = proposal.commands.iter().map(|command| command.candidates.len()).sum();
    let bought: usize = proposal.commands.iter().map(|command| command.replacements.len()).sum();
    println!(
        "{name}: {took:.1} ms, {worked:.1} ms at work; {} commands, {gone} nodes for {bought}, ${:.2} an hour; {} MB, at most {} MB",
        proposal.commands.len(),
        savings as f64 / 1e6,
        resident(),
        status("VmHWM:")
    );
    proposal
}

/// How long this thread has been working, in milliseconds: the machine may be busy with something else.
fn on_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) / 1e6
}

/// In megabytes.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn resident() -> u64 {
    status("VmRSS:")
}
