//! Looks at the world again and again, and says what changed.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_controllers::decision::{Decision, Launch};

use super::stage::{LineKind, Stage};
use super::view::{Expected, NodeRow, State, View, counted, sentence};
use super::world::World;

const GLANCE: Duration = Duration::from_millis(250);

/// More than are ever on their way at once.
const MOST_EXPECTED: usize = 500;

/// Reports for as long as it is polled.
pub(crate) async fn report(world: &World, stage: &Stage) {
    let (mut seen, mut next) = (View::default(), 0);
    let mut expected = BTreeMap::new();
    loop {
        world.ledger.bought(world.region.instances().into_iter().map(|one| one.instance.id));
        let mut view = View::of(world, stage.elapsed());
        for record in world.context.recorder.decisions_since(next) {
            next = record.number + 1;
            if let Decision::Launch(launch) = &record.decision {
                expected.insert(launch.claim.to_string(), expectation(launch));
            }
            stage.say(LineKind::Decision, sentence(&record, &view.nodes));
        }
        if expected.len() > MOST_EXPECTED {
            expected.retain(|claim, _| view.nodes.iter().any(|row| row.claim == *claim));
        }
        view.fill_in(&expected);
        for text in changes(&seen.nodes, &view.nodes) {
            stage.say(LineKind::Node, text);
        }
        if let Some(text) = pods(&seen, &view) {
            stage.say(LineKind::Pods, text);
        }
        stage.show(view.clone());
        seen = view;
        tokio::time::sleep(GLANCE).await;
    }
}

fn expectation(launch: &Launch) -> Expected {
    let offer = &launch.expected;
    Expected {
        instance_type: offer.instance_type.to_string(),
        zone: offer.zone.to_string(),
        capacity_type: offer.capacity_type.to_string(),
        price: offer.price,
    }
}

/// What became of nodes between two looks.
pub(crate) fn changes(before: &[NodeRow], after: &[NodeRow]) -> Vec<String> {
    let old: BTreeMap<&str, &NodeRow> = before.iter().map(|row| (row.claim.as_str(), row)).collect();
    let new: BTreeMap<&str, &NodeRow> = after.iter().map(|row| (row.claim.as_str(), row)).collect();
    let mut said = Vec::new();
    for (claim, row) in &new {
        let was = old.get(claim).map(|row| row.state);
        if was == Some(row.state) {
            continue;
        }
        let kind = format!("{} {} in {}", row.instance_type, row.capacity_type, row.zone);
        match row.state {
            State::Planned => {}
            State::Booting => said.push(format!("{claim} is a {kind} at ${:.4}/h; it boots", row.price.dollars())),
            State::Joining => said.push(format!("{claim} joined as {}", row.node)),
            State::Ready => said.push(format!("{} is ready for pods", row.called())),
            State::Leaving => said.push(format!("{} leaves, {} on it", row.called(), counted(row.pods, "pod"))),
        }
    }
    for (_, row) in old.iter().filter(|(claim, _)| !new.contains_key(*claim)) {
        said.push(format!("{} is gone", row.called()));
    }
    said
}

/// A word about pods when they have come to rest.
fn pods(before: &View, after: &View) -> Option<String> {
    let restless = |view: &View| view.waiting + view.starting;
    match (restless(before), restless(after)) {
        (0, 0) => (before.running > 0 && after.pods() == 0).then(|| "no pod is left".to_owned()),
        (0, n) => Some(format!("{} for a place or to start", waits(n))),
        (_, 0) if after.running > 0 => {
            Some(format!("all {} run; ${:.4}/h", counted(after.running, "pod"), after.per_hour.dollars()))
        }
        _ => None,
    }
}

fn waits(n: usize) -> String {
    if n == 1 { "1 pod waits".to_owned() } else { format!("{n} pods wait") }
}

#[cfg(test)]
mod tests {
    use karpenter_core::MicroUsd;

    use super::*;

    fn row(claim: &str, state: State) -> NodeRow {
        NodeRow {
            claim: claim.to_owned(),
            node: "ip-1".to_owned(),
            instance_type: "m6g.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            capacity_type: "spot".to_owned(),
            price: MicroUsd(30_800),
            state,
            pods: 2,
            cpu: (0, 0),
            memory: (0, 0),
        }
    }

    #[test]
    fn each_stage_of_a_node_is_told_once() {
        let stages = [State::Planned, State::Booting, State::Joining, State::Ready, State::Leaving];
        let mut before = Vec::new();
        let mut told = Vec::new();
        for state in stages {
            let after = vec![row("a", state)];
            told.extend(changes(&before, &after));
            assert!(changes(&after, &after).is_empty());
            before = after;
        }
        told.extend(changes(&before, &[]));
        assert_eq!(
            told,
            [
                "a is a m6g.large spot in us-east-1a at $0.0308/h; it boots",
                "a joined as ip-1",
                "a (ip-1) is ready for pods",
                "a (ip-1) leaves, 2 pods on it",
                "a (ip-1) is gone",
            ]
        );
    }

    #[test]
    fn pods_are_told_when_they_begin_to_wait_and_when_all_run() {
        let view = |waiting, running| View { waiting, running, ..View::default() };
        assert_eq!(pods(&view(0, 0), &view(1, 0)).unwrap(), "1 pod waits for a place or to start");
        assert_eq!(pods(&view(3, 0), &view(2, 1)), None);
        assert_eq!(pods(&view(2, 1), &view(0, 3)).unwrap(), "all 3 pods run; $0.0000/h");
        assert_eq!(pods(&view(0, 3), &view(0, 0)).unwrap(), "no pod is left");
    }
}
