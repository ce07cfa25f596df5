//! What an answer rests on, and what an answer that is kept changes for others: an answer whose grounds did not change
//! need not be asked for again.

use super::{Mark, WhatIf};

/// What would have to change before an answer does. While a cluster only gets fuller, an answer stays as it is until one
/// of the nodes it fills is filled or closed by somebody else, or one of the groups that decide about its pods counts
/// differently: nodes that refused go on refusing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rests {
    /// In `World::nodes`.
    pub nodes: Vec<u32>,
    /// Of topology, by numbers of this what-if.
    pub groups: Vec<u32>,
    /// How many new nodes there were.
    pub new_nodes: u32,
    /// A pool's limit may have had a say.
    pub limited: bool,
}

/// What an answer makes different.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In `World::nodes`.
    pub nodes: Vec<u32>,
    pub groups: Vec<u32>,
    /// Limits changed: so many nodes of any kind can be bought in each pool now.
    pub buyable: Option<u32>,
    /// No answer can be relied on any more.
    pub everything: bool,
}

impl WhatIf<'_> {
    /// What the answer since the mark, not taken back yet, rests on.
    pub fn rests_on(&self, mark: Mark) -> Rests {
        let filled = self.state.filled_since(mark.0).into_iter();
        let nodes = filled.map(|target| self.problem.nodes[target].index as u32).collect();
        let mut classes: Vec<usize> = self.queue.iter().map(|pod| self.problem.pods[*pod].class).collect();
        classes.sort_unstable();
        classes.dedup();
        let mut groups: Vec<u32> = Vec::new();
        for class in classes.into_iter().map(|class| &self.problem.classes[class]) {
            let owned = class.variants.iter().flat_map(|variant| &variant.owned);
            groups.extend(owned.chain(&class.kept_out_by).map(|group| group.0));
        }
        groups.sort_unstable();
        groups.dedup();
        let new_nodes = (self.state.claims.len() - self.state.settled) as u32;
        Rests { nodes, groups, new_nodes, limited: self.buyable() == 0 }
    }

    /// How many nodes of the largest type the limits of every pool leave at least.
    pub(super) fn buyable(&self) -> u32 {
        let mut least = i128::from(u32::MAX);
        for (at, template) in self.problem.templates.iter().enumerate() {
            let of_each = self.state.limits[at].iter().zip(&template.largest).filter(|(_, most)| **most > 0);
            least = of_each.map(|(left, most)| left.div_euclid(*most)).fold(least, i128::min);
            least = least.min(self.state.node_limits[at].map_or(least, i128::from));
        }
        u32::try_from(least.max(0)).unwrap_or(u32::MAX)
    }

    /// What keeping the answer since the mark would change.
    pub fn changes_since(&self, mark: Mark) -> Changes {
        let found = self.state.changes_since(mark.0);
        let nodes = found.nodes.iter().map(|target| self.problem.nodes[*target as usize].index as u32).collect();
        // Those that wait are placed with the first answer that is kept, so every later one is another question.
        let everything = found.everything || !self.waiting.is_empty();
        let buyable = found.limits.then(|| self.buyable());
        Changes { nodes, groups: found.groups, buyable, everything }
    }
}
