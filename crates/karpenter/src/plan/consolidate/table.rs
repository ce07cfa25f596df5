//! Commands and kept nodes for people.

use karpenter_core::World;
use karpenter_core::plan::NewNode;
use karpenter_disruption::{Decision, Proposal};

use super::Names;
use crate::plan::table::{HOURS_PER_MONTH, dollars, pods};
use crate::terminal::{Align, Style, columns};

/// Longer reasons make the table unreadable; the JSON has them whole.
const LONGEST: usize = 110;

pub(crate) fn render(world: &World, planned: &[NewNode], proposal: &Proposal, style: Style) -> String {
    let mut text = String::from("\n");
    if proposal.commands.is_empty() {
        text += "Nothing to disrupt.\n";
    } else {
        text += &commands(world, planned, proposal, style);
    }
    let kept: Vec<Vec<String>> = proposal
        .nodes
        .iter()
        .filter(|node| node.decision == Decision::Keep)
        .map(|node| {
            let reasons: Vec<String> = node.reasons.iter().map(ToString::to_string).collect();
            vec![node.name.to_string(), format!("{:.4}", node.price.dollars()), shortened(&reasons.join("; "))]
        })
        .collect();
    if !kept.is_empty() {
        let header = [("KEPT NODE", Align::Left), ("$/HOUR", Align::Right), ("WHY", Align::Left)];
        text += &format!("\n{}", columns(&header, &kept, style));
    }
    let saved: i64 = proposal.commands.iter().map(|command| command.savings).sum();
    let saved = karpenter_core::MicroUsd(saved.max(0).unsigned_abs());
    let gone: usize = proposal.commands.iter().map(|command| command.candidates.len()).sum();
    let moved: usize = proposal.commands.iter().map(|command| command.moves.len()).sum();
    text += &format!(
        "\n{}: {}, {}; saves {} an hour, {} a month\n",
        style.bold("Consolidation"),
        if gone == 1 { "1 node goes".to_owned() } else { format!("{gone} nodes go") },
        if moved == 1 { "1 pod moves".to_owned() } else { format!("{} move", pods(moved)) },
        style.bold(&dollars(saved)),
        style.bold(&dollars(karpenter_core::MicroUsd(saved.0.saturating_mul(HOURS_PER_MONTH)))),
    );
    text
}

fn commands(world: &World, planned: &[NewNode], proposal: &Proposal, style: Style) -> String {
    let names = Names::new(world, planned, proposal);
    let header = [
        ("REASON", Align::Left),
        ("METHOD", Align::Left),
        ("NODES", Align::Left),
        ("REPLACED BY", Align::Left),
        ("MOVES", Align::Right),
        ("SAVES $/HOUR", Align::Right),
    ];
    let row = |(number, command): (usize, &karpenter_disruption::Command)| {
        let named = |candidates: &'_ [karpenter_disruption::Candidate]| {
            candidates.iter().map(|candidate| candidate.name.to_string()).collect::<Vec<_>>().join(", ")
        };
        let mut nodes = named(&command.candidates);
        if !command.later.candidates.is_empty() {
            nodes += &format!(", later {}", named(&command.later.candidates));
        }
        let bought = command.replacements.iter().zip(&names.0[number]);
        let bought: Vec<String> =
            bought.map(|(new, name)| format!("{name} ({})", new.node.launch.instance_type)).collect();
        vec![
            command.method.reason().to_owned(),
            command.method.label().to_owned(),
            shortened(&nodes),
            if bought.is_empty() { "-".to_owned() } else { shortened(&bought.join(", ")) },
            command.moves.len().to_string(),
            format!("{:.4}", command.savings as f64 / 1e6),
        ]
    };
    columns(&header, &proposal.commands.iter().enumerate().map(row).collect::<Vec<_>>(), style)
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}
