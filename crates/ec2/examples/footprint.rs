//! What the types of a node class take in memory, on Linux: `cargo run --release -p karpenter-ec2 --example footprint`.

use karpenter_ec2::catalogue::builtin;
use karpenter_ec2::nodeclass::NodeClassFacts;
use karpenter_ec2::{Ec2Settings, instance_types};

/// So many lists that one is told from noise.
const LISTS: usize = 10;

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(f64::NAN) / 1024.0
}

fn main() {
    let before = resident_mib();
    let catalogue = builtin::catalogue();
    println!("catalogue, MiB                {:6.1}", resident_mib() - before);
    let (class, settings) = (NodeClassFacts::default(), Ec2Settings::default());
    let before = resident_mib();
    let lists: Vec<_> = (0..LISTS).map(|_| instance_types(catalogue, "us-east-1", &class, &settings)).collect();
    let count = lists.iter().flatten().next().map_or(0, Vec::len);
    println!("types of us-east-1            {count:6}");
    println!("types of a node class, MiB    {:6.1}", (resident_mib() - before) / LISTS as f64);
}
