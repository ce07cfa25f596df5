//! Commands and kept nodes for programs. Field names and order are an interface.

use karpenter_core::World;
use karpenter_core::plan::NewNode;
use karpenter_disruption::{Decision, NodeDecision, Proposal};
use serde::Serialize;

use super::Names;
use crate::plan::json::{Node, new_node};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Disruption<'a> {
    reason: &'static str,
    method: &'static str,
    nodes: Vec<&'a str>,
    replacements: Vec<Node<'a>>,
    moves: Vec<Move>,
    savings_per_hour: f64,
    /// What follows in later passes, as budgets let it: the replacements have room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    later: Option<Later<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Later<'a> {
    nodes: Vec<&'a str>,
    moves: Vec<Move>,
    savings_per_hour: f64,
}

#[derive(Serialize)]
struct Move {
    pod: String,
    to: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decided<'a> {
    name: &'a str,
    price_per_hour: f64,
    decision: &'static str,
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest_miss: Option<Miss>,
}

#[derive(Serialize)]
struct Miss {
    object: String,
    field: String,
    from: String,
    to: String,
    text: String,
}

pub(crate) fn disruptions<'a>(world: &'a World, planned: &[NewNode], proposal: &'a Proposal) -> Vec<Disruption<'a>> {
    let names = Names::new(world, planned, proposal);
    let commands = proposal.commands.iter().enumerate();
    let one = |(number, command): (usize, &'a karpenter_disruption::Command)| {
        let moves = |moves: &[karpenter_disruption::Move]| {
            let named = |moved: &karpenter_disruption::Move| Move {
                pod: world.pods[moved.pod].key(),
                to: names.target(world, number, moved.to).to_owned(),
            };
            let mut moves: Vec<Move> = moves.iter().map(named).collect();
            moves.sort_by(|a, b| a.pod.cmp(&b.pod));
            moves
        };
        let later = &command.later;
        let follows = (!later.candidates.is_empty()).then(|| Later {
            nodes: later.candidates.iter().map(|candidate| &*candidate.name).collect(),
            moves: moves(&later.moves),
            savings_per_hour: later.savings() as f64 / 1e6,
        });
        let replacements = command.replacements.iter().zip(&names.0[number]);
        Disruption {
            reason: command.method.reason(),
            method: command.method.label(),
            nodes: command.candidates.iter().map(|candidate| &*candidate.name).collect(),
            replacements: replacements.map(|(new, name)| new_node(world, &new.node, name.clone())).collect(),
            moves: moves(&command.moves),
            savings_per_hour: command.savings as f64 / 1e6,
            later: follows,
        }
    };
    commands.map(one).collect()
}

pub(crate) fn nodes(proposal: &Proposal) -> Vec<Decided<'_>> {
    proposal.nodes.iter().map(decided).collect()
}

fn decided(node: &NodeDecision) -> Decided<'_> {
    let miss = node.nearest_miss.as_ref().map(|miss| {
        let [object, field, from, to] = miss.change();
        Miss { object, field, from, to, text: miss.to_string() }
    });
    Decided {
        name: &node.name,
        price_per_hour: node.price.dollars(),
        decision: match node.decision {
            Decision::Disrupt { .. } => "disrupt",
            Decision::Keep => "keep",
        },
        reasons: node.reasons.iter().map(ToString::to_string).collect(),
        nearest_miss: miss,
    }
}
