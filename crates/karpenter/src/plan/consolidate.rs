//! What `plan --consolidate` adds: which nodes would go, what would be bought for them, and why the others stay.

pub(crate) mod json;
pub(crate) mod table;

use karpenter_core::World;
use karpenter_core::plan::NewNode;
use karpenter_disruption::{Command, Policy, Proposal, Snapshot, Target, propose};
use karpenter_manifests::Loaded;

use super::order::names;

pub(crate) fn proposal(loaded: &Loaded, policy: &Policy) -> Proposal {
    let (nodes, pools) = (loaded.node_facts.clone(), loaded.pool_facts.clone());
    propose(&Snapshot { world: &loaded.world, nodes, pools }, policy)
}

/// Names for the replacements of every command, counted on from those of the plan's own nodes.
struct Names(Vec<Vec<String>>);

impl Names {
    fn new(world: &World, planned: &[NewNode], proposal: &Proposal) -> Self {
        let bought = proposal.commands.iter().flat_map(|command| &command.replacements);
        let all: Vec<NewNode> = planned.iter().cloned().chain(bought.map(|new| new.node.clone())).collect();
        let mut names = names(world, &all).into_iter().skip(planned.len());
        let of = |command: &Command| names.by_ref().take(command.replacements.len()).collect();
        Self(proposal.commands.iter().map(of).collect())
    }

    fn target<'a>(&'a self, world: &'a World, command: usize, target: Target) -> &'a str {
        match target {
            Target::Node(node) => &world.nodes[node].name,
            Target::Replacement(new) => &self.0[command][new],
        }
    }
}
