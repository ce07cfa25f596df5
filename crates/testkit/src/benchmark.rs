//! The reference's benchmark workloads (SCH 23.2), drawn from our own seeded generator.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::{InstanceType, Pod, World};

use crate::dice::Dice;
use crate::express::{is_in, spread};
use crate::{PodBuilder, pod, pool, world};

const CPU: [&str; 5] = ["100m", "250m", "500m", "1000m", "1500m"];
const MEMORY: [&str; 6] = ["100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi"];
const VALUES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const CLUSTER: (&str, &str) = ("testing/cluster", "unspecified");

/// One generous pool, no nodes, and `count` pods: a fifth each of plain, zone-spread, hostname-spread, zone-affine and
/// mutually hostname-anti-affine ones, the rest plain.
pub fn mixed_world(count: usize, types: Vec<InstanceType>, seed: u64) -> World {
    one_pool(types, mixed_pods(count, seed))
}

/// `count` identical pods, each with a satisfiable zone preference, an unsatisfiable preferred anti-affinity on zone and
/// a satisfiable one on hostname.
pub fn preference_world(count: usize, types: Vec<InstanceType>, seed: u64) -> World {
    one_pool(types, preference_pods(count, seed))
}

fn one_pool(types: Vec<InstanceType>, pods: Vec<Pod>) -> World {
    let generous =
        pool("default").label(CLUSTER.0, CLUSTER.1).limit("cpu", "10000000").limit("memory", "10000000Gi").types(types);
    world().pool(generous).pods(pods).build()
}

pub fn mixed_pods(count: usize, seed: u64) -> Vec<Pod> {
    let mut dice = Dice::new(seed);
    let fifth = count / 5;
    let row = |i: usize| if i < 5 * fifth { i / fifth.max(1) } else { 5 };
    (0..count).map(|i| finish(mixed_pod(i, row(i), &mut dice), i)).collect()
}

/// Labels are drawn before sizes, as the reference does.
fn mixed_pod(i: usize, row: usize, dice: &mut Dice) -> PodBuilder {
    let base = pod(&format!("pod-{i}")).label(CLUSTER.0, CLUSTER.1);
    let shaped = match row {
        1 | 2 => {
            let key = if row == 1 { ZONE } else { HOSTNAME };
            let mine = *dice.pick(&VALUES);
            let counted = *dice.pick(&VALUES);
            base.label("my-label", mine).spread(spread(key, 1, &[("my-label", counted)]))
        }
        3 => {
            // The reference spells this label so.
            let mine = *dice.pick(&VALUES);
            base.label("my-affininity", mine).affinity(ZONE, &[("my-affininity", mine)])
        }
        4 => base.app("nginx").anti_affinity(HOSTNAME, &[("app", "nginx")]),
        _ => {
            let mine = *dice.pick(&VALUES);
            base.label("my-label", mine)
        }
    };
    let cpu = *dice.pick(&CPU);
    let memory = *dice.pick(&MEMORY);
    shaped.cpu(cpu).memory(memory)
}

pub fn preference_pods(count: usize, seed: u64) -> Vec<Pod> {
    let mut dice = Dice::new(seed);
    let cpu = *dice.pick(&CPU);
    let memory = *dice.pick(&MEMORY);
    let shape = pod("pod")
        .label(CLUSTER.0, CLUSTER.1)
        .app("nginx")
        .prefer(1, vec![is_in(ZONE, &["test-zone-1"])])
        .prefer_anti_affinity(10, ZONE, &[("app", "nginx")])
        .prefer_anti_affinity(1, HOSTNAME, &[("app", "nginx")])
        .cpu(cpu)
        .memory(memory);
    let pods = shape.replicas(count).into_iter().enumerate();
    pods.map(|(i, pod)| Pod { created: birth(i), ..pod }).collect()
}

fn finish(builder: PodBuilder, i: usize) -> Pod {
    Pod {
        created: birth(i),
        // The queue's last tie-break, so it must sort like the creation times.
        uid: Arc::from(format!("uid-{i:08}")),
        ..builder.build()
    }
}

/// Times increase in generation order, by nanoseconds.
fn birth(i: usize) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a constant");
    start + SignedDuration::from_nanos(i as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_has_a_fifth_of_each_kind_and_the_rest_plain() {
        let pods = mixed_pods(53, 42);
        let spread_over = |key: &str| {
            let over = |pod: &&Pod| pod.shape.spread.iter().any(|s| &*s.topology_key == key);
            pods.iter().filter(over).count()
        };
        assert_eq!((spread_over(ZONE), spread_over(HOSTNAME)), (10, 10));
        let count = |has: fn(&Pod) -> bool| pods.iter().filter(|pod| has(pod)).count();
        assert_eq!(count(|pod| !pod.shape.required_pod_affinity.is_empty()), 10);
        assert_eq!(count(|pod| !pod.shape.required_pod_anti_affinity.is_empty()), 10);
        assert_eq!(count(|pod| pod.shape.labels.contains_key("my-label")), 33);
        assert!(pods.is_sorted_by(|a, b| a.created < b.created));
        assert_eq!(mixed_pods(3, 1).len(), 3);
    }

    #[test]
    fn preference_pods_share_one_shape() {
        let pods = preference_pods(10, 42);
        assert!(pods.iter().all(|pod| Arc::ptr_eq(&pod.shape, &pods[0].shape)));
    }
}
