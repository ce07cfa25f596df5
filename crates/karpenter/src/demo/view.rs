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
    planned_row(claim.metadata.name.as_deref().unwrap_or_default())
}

fn planned_row(claim: &str) -> NodeRow {
    NodeRow {
        claim: claim.to_owned(),
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

impl NodeRow {
    /// What people may know it by: the claim, and the Node once there is one.
    pub(crate) fn called(&self) -> String {
        if self.node.is_empty() { self.claim.clone() } else { format!("{} ({})", self.claim, self.node) }
    }
}

/// What is expected of a claim before anything is bought for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    pub(crate) price: MicroUsd,
}

impl View {
    /// Rows of claims that nothing is bought for yet show what is expected.
    pub(crate) fn fill_in(&mut self, expected: &BTreeMap<String, Expected>) {
        for row in &mut self.nodes {
            let Some(expected) = expected.get(&row.claim).filter(|_| row.price.0 == 0) else { continue };
            if row.instance_type.is_empty() {
                row.instance_type.clone_from(&expected.instance_type);
                row.zone.clone_from(&expected.zone);
                row.capacity_type.clone_from(&expected.capacity_type);
            }
            row.price = expected.price;
        }
    }
}

/// A decision in one line, with its reason. Nodes are called as `rows` knows them.
pub(crate) fn sentence(record: &Record, rows: &[NodeRow]) -> String {
    let called = |nodes: &[String]| {
        let called = |name: &String| rows.iter().find(|row| row.node == *name || row.claim == *name);
        let names = nodes.iter().map(|name| called(name).map_or_else(|| name.clone(), NodeRow::called));
        names.collect::<Vec<_>>().join(", ")
    };
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
            let difference = savings.unsigned_abs() as f64 / 1e6;
            let price = match *savings {
                0 => "costs the same".to_owned(),
                1.. => format!("saves ${difference:.4}/h"),
                _ => format!("costs ${difference:.4}/h more"),
            };
            format!("remove {}{instead}: {reason}, {price}", called(nodes))
        }
        Decision::Resized { pool, replicas, added, removed } => match added.len() {
            0 => format!("delete {} of static pool {pool}, which wants {replicas}", called(removed)),
            _ => format!("buy {} for static pool {pool}, which wants {replicas}", added.join(", ")),
        },
        Decision::RolledBack { reason, nodes, why } => format!("keep {} after all ({reason}): {why}", called(nodes)),
    }
}

pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(claim: &str, node: &str) -> NodeRow {
        NodeRow { node: node.to_owned(), ..planned_row(claim) }
    }

    fn disrupted(savings: i64) -> String {
        let decision = Decision::Disrupt {
            reason: "Drifted",
            method: "drift",
            nodes: vec!["ip-1".to_owned(), "ip-9".to_owned()],
            replacements: vec!["default-2".to_owned()],
            savings,
        };
        let record = Record { number: 0, at: "2026-01-02T00:00:00Z".parse().unwrap(), decision };
        sentence(&record, &[row("default-1", "ip-1")])
    }

    #[test]
    fn lines_name_claim_and_node_and_say_what_drift_costs() {
        let start = "remove default-1 (ip-1), ip-9 for default-2: Drifted, ";
        assert_eq!(disrupted(30_800), format!("{start}saves $0.0308/h"));
        assert_eq!(disrupted(-6_600), format!("{start}costs $0.0066/h more"));
        assert_eq!(disrupted(0), format!("{start}costs the same"));
    }

    #[test]
    fn what_is_planned_shows_what_is_expected_and_what_is_bought_what_it_is() {
        let expected = Expected {
            instance_type: "m6g.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            capacity_type: "spot".to_owned(),
            price: MicroUsd(30_800),
        };
        let bought = NodeRow { instance_type: "c6g.large".to_owned(), price: MicroUsd(27_000), ..planned_row("b") };
        let mut view = View { nodes: vec![planned_row("a"), bought.clone()], ..View::default() };
        view.fill_in(&["a", "b"].into_iter().map(|claim| (claim.to_owned(), expected.clone())).collect());
        assert_eq!((view.nodes[0].instance_type.as_str(), view.nodes[0].price), ("m6g.large", MicroUsd(30_800)));
        assert_eq!(view.nodes[1], bought);
    }
}
