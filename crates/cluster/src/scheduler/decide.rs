//! The whole decision for one pod.

use super::cycle::Cycle;
use super::pod::PodInfo;
use super::preempt::{self, Outcome};
use super::reject::{Diagnosis, Plugin, Plugins, Reject};
use super::snapshot::Snapshot;
use super::volumes::PodVolumes;
use super::{score, tie};
use crate::key::Key;
use jiff::Timestamp;
use std::sync::Arc;

/// Below this many nodes all are looked at; above, a falling share of them, but never fewer than this.
const MIN_FEASIBLE: usize = 100;

#[derive(Clone, Debug)]
pub enum Decision {
    Place(Placement),
    Unschedulable(Unschedulable),
    Preempt(Preemption),
}

#[derive(Clone, Debug)]
pub struct Placement {
    pub node: Arc<str>,
    pub volumes: PodVolumes,
    /// How many nodes were looked at, for going on there next time.
    pub examined: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unschedulable {
    pub message: String,
    pub plugins: Plugins,
    /// Whether a node the pod hoped for is taken from it.
    pub clear_nomination: bool,
    pub examined: usize,
}

#[derive(Clone, Debug)]
pub struct Preemption {
    pub node: Arc<str>,
    pub victims: Vec<Arc<PodInfo>>,
    /// Less important pods that hoped for the same node.
    pub displaced: Vec<Key>,
    pub message: String,
    pub plugins: Plugins,
    pub examined: usize,
}

/// Decides where a pod goes, whom it replaces, or why neither is possible.
pub fn decide(snapshot: &Snapshot, pod: &PodInfo, now: Timestamp) -> Decision {
    if snapshot.order().is_empty() {
        return Decision::Unschedulable(Unschedulable {
            message: "no nodes available to schedule pods".into(),
            plugins: Plugins::default(),
            clear_nomination: true,
            examined: 0,
        });
    }
    let mut diagnosis = Diagnosis::default();
    let named = pod.demand.named_nodes();
    if named.as_ref().is_some_and(Vec::is_empty) {
        let conflict = Reject::for_good(Plugin::NodeAffinity, "pod affinity terms conflict");
        return fail_everywhere(snapshot, conflict);
    }
    let cycle = match Cycle::new(snapshot, pod) {
        Ok(cycle) => cycle,
        Err(reject) => return fail_everywhere(snapshot, reject),
    };
    if let Some(slot) = pod.nominated_node().and_then(|n| snapshot.slot(n))
        && let Ok(volumes) = cycle.filter(snapshot, pod, snapshot.node(slot))
    {
        return Decision::Place(Placement { node: snapshot.node(slot).name.clone(), volumes, examined: 0 });
    }
    let candidates: Vec<usize> = match named {
        Some(names) => {
            diagnosis.absent = Some("node(s) didn't satisfy plugin(s) [NodeAffinity]".into());
            names.iter().filter_map(|n| snapshot.slot(n)).collect()
        }
        None => {
            let (before, after) = snapshot.order().split_at(snapshot.start % snapshot.order().len());
            after.iter().chain(before).copied().collect()
        }
    };
    let wanted = feasible_wanted(candidates.len());
    let mut feasible = Vec::new();
    let mut volumes = Vec::new();
    for slot in candidates {
        match cycle.filter(snapshot, pod, snapshot.node(slot)) {
            Ok(found) => {
                feasible.push(slot);
                volumes.push(found);
                if feasible.len() >= wanted {
                    break;
                }
            }
            Err(reject) => diagnosis.note(slot, reject),
        }
    }
    let examined = feasible.len() + diagnosis.nodes.len();
    if feasible.is_empty() {
        return make_room(snapshot, pod, &cycle, &diagnosis, now);
    }
    let at = best(snapshot, pod, &feasible);
    Decision::Place(Placement {
        node: snapshot.node(feasible[at]).name.clone(),
        volumes: volumes.swap_remove(at),
        examined,
    })
}

fn best(snapshot: &Snapshot, pod: &PodInfo, feasible: &[usize]) -> usize {
    if feasible.len() == 1 {
        return 0;
    }
    let totals = score::totals(snapshot, pod, feasible);
    let top = totals.iter().max().copied().unwrap_or(0);
    let ties: Vec<usize> = (0..feasible.len()).filter(|&i| totals[i] == top).collect();
    ties[(tie(snapshot.seed, &pod.key) % ties.len() as u64) as usize]
}

fn feasible_wanted(nodes: usize) -> usize {
    if nodes < MIN_FEASIBLE {
        return nodes;
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(MIN_FEASIBLE)
}

/// No node needs to be looked at. Upstream's plugin for device claims misses its own preparation then and fails with "not
/// found", which ends the attempt before preemption is considered and leaves a nomination as it is.
fn fail_everywhere(snapshot: &Snapshot, reject: Reject) -> Decision {
    let mut diagnosis = Diagnosis::default();
    diagnosis.plugins.insert(reject.plugin);
    diagnosis.everywhere = Some(reject);
    Decision::Unschedulable(Unschedulable {
        message: diagnosis.message(snapshot.order().len(), "not found"),
        plugins: diagnosis.plugins,
        clear_nomination: false,
        examined: 0,
    })
}

fn make_room(snapshot: &Snapshot, pod: &PodInfo, cycle: &Cycle, diagnosis: &Diagnosis, now: Timestamp) -> Decision {
    let all = snapshot.order().len();
    let examined = diagnosis.nodes.len();
    let unschedulable = |after: String, clear_nomination: bool| {
        // The plugin for device claims speaks first, and has nothing to offer.
        let message = diagnosis.message(all, &format!("no new claims to deallocate, preemption: {after}"));
        Decision::Unschedulable(Unschedulable { message, plugins: diagnosis.plugins, clear_nomination, examined })
    };
    match preempt::search(snapshot, pod, cycle, diagnosis, now) {
        Outcome::NotEligible(why) => unschedulable(why.to_owned(), false),
        Outcome::NoCandidate(why) => unschedulable(why, true),
        Outcome::Evict(candidate) => {
            let node = snapshot.node(candidate.slot).name.clone();
            let lower = snapshot.nominated_on(&node).iter().filter(|p| p.priority < pod.priority && p.uid != pod.uid);
            Decision::Preempt(Preemption {
                displaced: lower.map(|p| p.key.clone()).collect(),
                node,
                victims: candidate.victims,
                message: diagnosis.message(all, ""),
                plugins: diagnosis.plugins,
                examined,
            })
        }
    }
}
