//! Rules between pods: spread, affinity, anti-affinity, on the state the plan leads to.
//!
//! A new node may still become several things, so it may have several *domains* of a key. What a rule depends on must
//! be decided; what it is only kept away from must be out of reach altogether.

mod affinity;
mod anti_affinity;
mod defaults;
mod spread;
mod universe;

use std::collections::BTreeMap;

use karpenter_core::pod::PodTerm;

use crate::cluster::{Cluster, Place};
use crate::labels::{selector_matches, term_covers};
use crate::violation::Violation;

pub(crate) use defaults::spreads;

pub(crate) fn judge(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    let everybody = everybody(cluster);
    let staying = staying(cluster, &everybody);
    spread::judge(cluster, &staying, found);
    affinity::judge(cluster, &staying, found);
    anti_affinity::judge(cluster, &everybody, &staying, found);
}

/// A pod of the final state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) pod: usize,
    pub(crate) place: Place,
    /// The plan put it there.
    pub(crate) planned: bool,
}

/// Everybody on a node of the final state. Those that stay behind on a node that goes away are there as long as it is.
pub(crate) fn everybody(cluster: &Cluster<'_>) -> Vec<Settled> {
    let planned = cluster.placements().map(|(pod, place)| Settled { pod, place, planned: true });
    let running = cluster.bound.iter().enumerate().flat_map(|(node, pods)| {
        let place = Place::Existing(node);
        pods.iter().map(move |pod| Settled { pod: *pod, place, planned: false })
    });
    planned.chain(running).collect()
}

/// Those whose company counts: not running pods on their way out.
fn staying(cluster: &Cluster<'_>, everybody: &[Settled]) -> Vec<Settled> {
    let stays = |s: &&Settled| s.planned || !cluster.pod(s.pod).terminating;
    everybody.iter().filter(stays).copied().collect()
}

/// The pods of the final state that a term of a pod in `home` speaks of.
fn matching(cluster: &Cluster<'_>, settled: &[Settled], home: &str, term: &PodTerm) -> Vec<Settled> {
    let mut covered: BTreeMap<&str, bool> = BTreeMap::new();
    let mut of = |s: &&Settled| {
        let pod = cluster.pod(s.pod);
        let namespace = &*pod.namespace;
        let covers = covered.entry(namespace).or_insert_with(|| term_covers(cluster.world, home, term, namespace));
        *covers && selector_matches(term.selector.as_ref(), &pod.shape.labels)
    };
    settled.iter().filter(|s| of(s)).copied().collect()
}
