//! Which of the nodes that can take a pod should: kube-scheduler's default scores and weights, image locality aside,
//! because simulated machines have no images worth comparing.

use super::node::NodeInfo;
use super::pod::PodInfo;
use super::snapshot::Snapshot;
use super::{affinity, spread};
use crate::resources::Resources;

const TAINT_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const SPREAD_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;

/// One total per candidate.
pub fn totals(snapshot: &Snapshot, pod: &PodInfo, nodes: &[usize]) -> Vec<i64> {
    let info = |slot: &usize| snapshot.node(*slot);
    let best_effort = pod.requests.milli_cpu == 0 && pod.requests.memory == 0;
    let balance = |node: &NodeInfo| if best_effort { 0 } else { balanced(pod, node) };
    let mut totals: Vec<i64> = nodes.iter().map(|s| least_allocated(pod, info(s)) + balance(info(s))).collect();
    let mut add = |scores: Vec<i64>, weight: i64| {
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += weight * score);
    };
    let untolerated = |node: &NodeInfo| {
        let soft = node.taints.iter().filter(|t| t.effect == "PreferNoSchedule");
        soft.filter(|t| !pod.tolerates(t)).count() as i64
    };
    add(normalise(nodes.iter().map(|s| untolerated(info(s))).collect(), true), TAINT_WEIGHT);
    if !pod.preferences.is_empty() {
        let raw = nodes.iter().map(|s| pod.preferences.score(&info(s).name, &info(s).labels)).collect();
        add(normalise(raw, false), NODE_AFFINITY_WEIGHT);
    }
    if let Some(scores) = spread::scores(snapshot, pod, nodes) {
        add(scores, SPREAD_WEIGHT);
    }
    if let Some(scores) = affinity::scores(snapshot, pod, nodes) {
        add(scores, POD_AFFINITY_WEIGHT);
    }
    totals
}

/// Brings counts to 0..=100, turned round when fewer is better.
fn normalise(raw: Vec<i64>, fewer_is_better: bool) -> Vec<i64> {
    let most = raw.iter().max().copied().unwrap_or(0);
    let scaled = |s: i64| if most == 0 { 0 } else { 100 * s / most };
    raw.into_iter().map(|s| if fewer_is_better { 100 - scaled(s) } else { scaled(s) }).collect()
}

fn least_allocated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let free = |requested: i64, capacity: i64| {
        if requested > capacity {
            0
        } else {
            i64::try_from((i128::from(capacity - requested) * 100) / i128::from(capacity)).unwrap_or(0)
        }
    };
    let mut score = 0;
    let mut weight = 0;
    for (requested, capacity) in [
        (node.non_zero.0 + pod.non_zero.0, node.allocatable.milli_cpu),
        (node.non_zero.1 + pod.non_zero.1, node.allocatable.memory),
    ] {
        if capacity != 0 {
            score += free(requested, capacity);
            weight += 1;
        }
    }
    if weight == 0 { 0 } else { score / weight }
}

/// Rewards the node whose CPU and memory use the pod brings closer together.
fn balanced(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let mut after = node.requested.clone();
    after.milli_cpu += pod.requests.milli_cpu;
    after.memory += pod.requests.memory;
    let with = balance_of(&after, &node.allocatable);
    let without = balance_of(&node.requested, &node.allocatable);
    50 + (50 + with - without) / 2
}

fn balance_of(used: &Resources, have: &Resources) -> i64 {
    let fraction = |used: i64, have: i64| (have != 0).then(|| (used as f64 / have as f64).min(1.0));
    let deviation = match (fraction(used.milli_cpu, have.milli_cpu), fraction(used.memory, have.memory)) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * 100.0) as i64
}
