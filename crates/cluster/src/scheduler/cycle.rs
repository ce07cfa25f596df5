//! One pod's hard constraints against one node, in the order kube-scheduler checks them.

use super::affinity::AffinityState;
use super::node::NodeInfo;
use super::pod::PodInfo;
use super::reject::{Plugin, Reject};
use super::snapshot::Snapshot;
use super::spread::SpreadState;
use super::volumes::{PodVolumes, VolumeState};
use k8s_openapi::api::core::v1::Taint;
use std::sync::Arc;

const UNSCHEDULABLE: &str = "node(s) were unschedulable";
const WRONG_NAME: &str = "node(s) didn't match the requested node name";
const TAINTED: &str = "node(s) had untolerated taint(s)";
const WRONG_LABELS: &str = "node(s) didn't match Pod's node affinity/selector";
const PORTS_TAKEN: &str = "node(s) didn't have free ports for the requested pod ports";

/// What is computed once per attempt, before any node is looked at.
#[derive(Clone, Debug)]
pub struct Cycle {
    affinity: Option<AffinityState>,
    spread: Option<SpreadState>,
    volumes: Option<VolumeState>,
}

impl Cycle {
    pub fn new(snapshot: &Snapshot, pod: &PodInfo) -> Result<Self, Reject> {
        Ok(Self {
            volumes: VolumeState::new(snapshot, pod)?,
            spread: SpreadState::new(snapshot, pod),
            affinity: AffinityState::new(snapshot, pod),
        })
    }

    /// Counts another pod in or out.
    pub fn update(&mut self, snapshot: &Snapshot, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, by: i64) {
        match &mut self.affinity {
            Some(state) => state.update(snapshot, pod, other, node, by),
            // Only a pod with rules of its own can matter to a pod nobody had a say about.
            None if !other.anti_affinity.is_empty() => {
                let mut state = AffinityState::default();
                state.update(snapshot, pod, other, node, by);
                self.affinity = Some(state);
            }
            None => {}
        }
        if let Some(state) = &mut self.spread {
            state.update(pod, other, node, by);
        }
        if let Some(state) = &mut self.volumes {
            state.update(pod, other, by);
        }
    }

    /// Judges a node as it is and with the pods that hope for it: room kept for others must not be taken, and the pod
    /// must not depend on company that may never come.
    pub fn filter(&self, snapshot: &Snapshot, pod: &PodInfo, node: &NodeInfo) -> Result<PodVolumes, Reject> {
        let expected = |other: &&Arc<PodInfo>| {
            other.priority >= pod.priority && other.uid != pod.uid && !node.pods.iter().any(|r| r.pod.uid == other.uid)
        };
        let nominated: Vec<&Arc<PodInfo>> = snapshot.nominated_on(&node.name).iter().filter(expected).collect();
        if !nominated.is_empty() {
            let mut fuller = node.clone();
            let mut cycle = self.clone();
            for other in nominated {
                // The class only matters for counting over all nodes, which has been done.
                fuller.add(other.clone(), u32::MAX);
                cycle.update(snapshot, pod, other, node, 1);
            }
            cycle.filter_alone(snapshot, pod, &fuller)?;
        }
        self.filter_alone(snapshot, pod, node)
    }

    fn filter_alone(&self, snapshot: &Snapshot, pod: &PodInfo, node: &NodeInfo) -> Result<PodVolumes, Reject> {
        if node.unschedulable && !pod.tolerates(&cordon()) {
            return Err(Reject::for_good(Plugin::NodeUnschedulable, UNSCHEDULABLE));
        }
        let named = pod.spec().and_then(|s| s.node_name.as_deref()).filter(|n| !n.is_empty());
        if named.is_some_and(|n| n != &*node.name) {
            return Err(Reject::for_good(Plugin::NodeName, WRONG_NAME));
        }
        if !node.taints.is_empty() && pod.untolerated(&node.taints).is_some() {
            return Err(Reject::for_good(Plugin::TaintToleration, TAINTED));
        }
        if !pod.demand.matches(&node.name, &node.labels) {
            return Err(Reject::for_good(Plugin::NodeAffinity, WRONG_LABELS));
        }
        if !pod.ports.is_empty() && pod.ports.iter().any(|p| node.ports.iter().any(|q| p.clashes(q))) {
            return Err(Reject::resolvable(Plugin::NodePorts, PORTS_TAKEN));
        }
        fits(pod, node)?;
        let volumes = match &self.volumes {
            Some(state) => state.filter(snapshot, pod, node)?,
            None => PodVolumes::default(),
        };
        if let Some(state) = &self.spread {
            state.filter(pod, node)?;
        }
        if let Some(state) = &self.affinity {
            state.filter(snapshot, pod, node)?;
        }
        Ok(volumes)
    }
}

fn cordon() -> Taint {
    Taint { key: "node.kubernetes.io/unschedulable".into(), effect: "NoSchedule".into(), ..Taint::default() }
}

/// Every resource that is short is named; a request larger than the whole node cannot be helped by eviction.
fn fits(pod: &PodInfo, node: &NodeInfo) -> Result<(), Reject> {
    let (want, have, used) = (&pod.requests, &node.allocatable, &node.requested);
    let crowded = node.pods.len() as i64 + 1 > have.pods;
    let plain = [
        ("Insufficient cpu", want.milli_cpu, used.milli_cpu, have.milli_cpu),
        ("Insufficient memory", want.memory, used.memory, have.memory),
        ("Insufficient ephemeral-storage", want.ephemeral_storage, used.ephemeral_storage, have.ephemeral_storage),
    ];
    let short = |want: i64, used: i64, have: i64| want > 0 && want > have - used;
    let scalars_short = want.scalars.iter().any(|(n, w)| short(*w, used.scalar(n), have.scalar(n)));
    if !crowded && !scalars_short && !plain.iter().any(|(_, w, u, h)| short(*w, *u, *h)) {
        return Ok(());
    }
    let mut reasons = Vec::new();
    let mut unresolvable = false;
    if crowded {
        reasons.push("Too many pods".to_owned());
    }
    for (reason, want, used, have) in plain {
        if short(want, used, have) {
            reasons.push(reason.to_owned());
            unresolvable |= want > have;
        }
    }
    for (name, want) in &want.scalars {
        if short(*want, used.scalar(name), have.scalar(name)) {
            reasons.push(format!("Insufficient {name}"));
            unresolvable |= *want > have.scalar(name);
        }
    }
    Err(Reject::worded(Plugin::NodeResources, reasons, unresolvable))
}
