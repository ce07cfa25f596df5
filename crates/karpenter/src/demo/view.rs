//! What there is to see at one moment: plain data, from which the screen and the timeline are drawn.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_controllers::decision::{Decision, Record};
use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_core::pod::Phase;
use karpenter_core::{MicroUsd, resources};
use karpenter_index::Machine;

use super::world::World;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    /// Since the start, by the world's clock.
    pub(crate) elapsed: Duration,
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) waiting: usize,
    pub(crate) starting: usize,
    pub(crate) running: usize,
    pub(crate) per_hour: MicroUsd,
    pub(crate) spent: MicroUsd,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeRow {
    pub(crate) claim: String,
    /// The Node's name, once there is one.
    pub(crate) node: String,
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    pub(crate) price: MicroUsd,
    pub(crate) state: State,
    pub(crate) pods: usize,
    /// In thousandths of a core: asked for by pods, and all there is.
    pub(crate) cpu: (i64, i64),
    /// In MiB.
    pub(crate) memory: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// A claim, and nothing bought yet.
    Planned,
    /// Bought; the machine boots.
    Booting,
    /// The Node is there and not ready for pods yet.
    Joining,
    Ready,
    /// Being drained or already without its machine.
    Leaving,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Booting => "booting",
            Self::Joining => "joining",
            Self::Ready => "ready",
            Self::Leaving => "leaving",
        }
    }
}

impl View {
    /// Everything as it is now.
    pub(crate) fn of(world: &World, elapsed: Duration) -> Self {
        let prices: BTreeMap<String, MicroUsd> =
            world.region.instances().into_iter().map(|one| (one.instance.id, one.price)).collect();
        let mut view =
            Self { elapsed, per_hour: world.region.price_per_hour(), spent: world.region.spent(), ..Self::default() };
        let index = &world.context.index;
        view.nodes = index.machines().iter().filter_map(|machine| row(world, machine, &prices)).collect();
        for claim in index.node_claims() {
            if claim.status.as_ref().and_then(|status| status.provider_id.as_ref()).is_none() {
                view.nodes.push(planned(&claim));
            }
        }
        view.nodes.sort_by(|a, b| a.claim.cmp(&b.claim));
        for tracked in index.pods() {
            let pod = &tracked.pod;
            match (pod.is_daemon() || pod.terminating, pod.phase, &pod.node) {
                (true, ..) | (_, Phase::Succeeded | Phase::Failed, _) => {}
                (_, Phase::Running, _) => view.running += 1,
                (_, _, Some(_)) => view.starting += 1,
                (_, _, None) => view.waiting += 1,
            }
        }
        view
    }

    pub(crate) fn pods(&self) -> usize {
        self.waiting + self.starting + self.running
    }
}

fn row(world: &World, machine: &Machine, prices: &BTreeMap<String, MicroUsd>) -> Option<NodeRow> {
    let claim = machine.claim.as_ref()?;
    let labels = claim.metadata.labels.clone().unwrap_or_default();
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.clone()).unwrap_or_default();
    let instance = provider_id.rsplit('/').next().unwrap_or_default();
    let node = machine.node.as_ref().and_then(|node| node.metadata.name.clone()).unwrap_or_default();
    let pods = if node.is_empty() { Vec::new() } else { world.context.index.pods_on(&node) };
    let live: Vec<_> = pods.iter().filter(|pod| !matches!(pod.pod.phase, Phase::Succeeded | Phase::Failed)).collect();
    let asked = |name: &str| -> i64 { live.iter().map(|pod| pod.pod.shape.requests.get(name).milli()).sum() };
    let there = |name: &str| machine.reduced.as_ref().map_or(0, |node| node.allocatable.get(name).milli());
    let mebibytes = |milli: i64| milli / 1000 / (1 << 20);
    let reduced = machine.reduced.as_ref();
    let leaving =
        machine.marked || claim.metadata.deletion_timestamp.is_some() || reduced.is_some_and(|node| node.deleting);
    let state = match (leaving, machine.node.is_some(), reduced.is_some_and(|node| node.is_initialized())) {
        (true, ..) => State::Leaving,
        (_, false, _) => State::Booting,
        (_, _, false) => State::Joining,
        (_, _, true) => State::Ready,
    };
    Some(NodeRow {
        claim: claim.metadata.name.clone().unwrap_or_default(),
        instance_type: label(INSTANCE_TYPE),
        zone: label(ZONE),
        capacity_type: label(CAPACITY_TYPE),
        price: prices.get(instance).copied().unwrap_or_default(),
        state,
        pods: live.iter().filter(|pod| !pod.pod.is_daemon()).count(),
        cpu: (asked(resources::CPU), there(resources::CPU)),
        memory: (mebibytes(asked(resources::MEMORY)), mebibytes(there(resources::MEMORY))),
        node,
    })
}

fn planned(claim: &karpenter_api::NodeClaim) -> NodeRow {
    NodeRow {
        claim: claim.metadata.name.clone().unwrap_or_default(),
        node: String::new(),
        instance_type: String::new(),
        zone: String::new(),
        capacity_type: String::new(),
        price: MicroUsd(0),
        state: State::Planned,
        pods: 0,
        cpu: (0, 0),
        memory: (0, 0),
    }
}

/// A decision in one line, with its reason.
pub(crate) fn sentence(record: &Record) -> String {
    match &record.decision {
        Decision::Launch(launch) => {
            let expected = &launch.expected;
            let others = launch.instance_types.len().saturating_sub(1);
            let cpu = launch.requests.get(resources::CPU);
            let memory = launch.requests.get(resources::MEMORY).units() / (1 << 20);
            format!(
                "buy {} for {}: {cpu} cpu, {memory}Mi; expecting {} {} in {} at ${:.4}/h, cheapest of {}",
                launch.claim,
                counted(launch.pods.len(), "pod"),
                expected.instance_type,
                expected.capacity_type,
                expected.zone,
                expected.price.dollars(),
                counted(others + 1, "type"),
            )
        }
        Decision::NotLaunched { pool, why } => format!("no node from pool {pool}: {why}"),
        Decision::Unschedulable { pod, why, nearest_miss } => {
            let miss = nearest_miss.as_ref().map(|text| format!("; nearest miss: {text}")).unwrap_or_default();
            format!("no place for {pod}: {why}{miss}")
        }
        Decision::Disrupt { reason, nodes, replacements, savings, .. } => {
            let instead =
                if replacements.is_empty() { String::new() } else { format!(" for {}", replacements.join(", ")) };
            let saves = *savings as f64 / 1e6;
            format!("remove {}{instead}: {reason}, saves ${saves:.4}/h", nodes.join(", "))
        }
        Decision::Resized { pool, replicas, added, removed } => match added.len() {
            0 => format!("delete {} of static pool {pool}, which wants {replicas}", removed.join(", ")),
            _ => format!("buy {} for static pool {pool}, which wants {replicas}", added.join(", ")),
        },
        Decision::RolledBack { reason, nodes, why } => format!("keep {} after all ({reason}): {why}", nodes.join(", ")),
    }
}

pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
