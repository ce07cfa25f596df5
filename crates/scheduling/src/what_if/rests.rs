//! What an answer rests on, and what an answer that is kept changes for others: an answer whose grounds did not change
//! need not be asked for again.

use rustc_hash::FxHashMap;

use super::{Mark, WhatIf};

/// Some pod found no place as it is on any node that is there.
pub(super) const NOWHERE: u32 = u32::MAX;

/// What would have to change before an answer does. While a cluster only gets fuller, an answer stays as it is until one
/// of the nodes it fills is filled or closed by somebody else, or one of the groups that decide about its pods counts
/// differently: nodes that refused go on refusing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rests {
    /// In `World::nodes`.
    pub nodes: Vec<u32>,
    /// Of topology, by numbers of this what-if.
    pub groups: Vec<u32>,
    /// Its pods in the order in which they were placed: what kind each is, and to which target it went.
    pub steps: Vec<(u32, u32)>,
    /// Every pod was placed as it is when its turn came first: the steps are the whole story.
    pub traced: bool,
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
        let filled = self.state.filled_since(mark.0);
        let of_nodes = || filled.iter().flat_map(|target| &self.state.nodes[*target].pods);
        let traced = self.rounds == 1 && of_nodes().all(|(_, variant)| *variant == 0);
        let steps = self.steps(filled.iter().copied());
        let nodes = filled.into_iter().map(|target| self.problem.nodes[target].index as u32).collect();
        let mut groups: Vec<u32> = Vec::new();
        let mut classes: Vec<u32> = steps.iter().map(|(class, _)| *class).collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes.into_iter().map(|class| &self.problem.classes[class as usize]) {
            let owned = class.variants.iter().flat_map(|variant| &variant.owned);
            groups.extend(owned.chain(&class.kept_out_by).map(|group| group.0));
        }
        groups.sort_unstable();
        groups.dedup();
        let new_nodes = (self.state.claims.len() - self.state.settled) as u32;
        Rests { nodes, groups, steps, traced, new_nodes, limited: self.buyable() == 0 }
    }

    /// Pods go to the first target that takes them, so what lies behind it has no say. One that gave up something first,
    /// or was tried several times, was refused by all others on the way.
    fn steps(&self, filled: impl Iterator<Item = usize>) -> Vec<(u32, u32)> {
        let mut at: FxHashMap<usize, u32> = FxHashMap::default();
        if self.rounds == 1 {
            // Also pods that others had put there: nobody asks for those.
            for target in filled {
                let pods = self.state.nodes[target].pods.iter().filter(|(_, variant)| *variant == 0);
                at.extend(pods.map(|(pod, _)| (*pod, target as u32)));
            }
        }
        let step = |pod: &usize| (self.problem.pods[*pod].class as u32, at.get(pod).copied().unwrap_or(NOWHERE));
        self.queue.iter().map(step).collect()
    }

    /// Whether a node that others have filled since an answer was given still takes what the answer puts there. Nodes
    /// that refused it then refuse it now, so nothing else of the answer changes.
    pub fn still_takes(&self, rests: &Rests, node: u32) -> bool {
        let Some(target) =
            self.targets.at[node as usize].filter(|target| !self.state.closed.contains(*target as usize))
        else {
            return false;
        };
        let mut free = self.state.nodes[target as usize].free.clone();
        let mut known = false;
        for (class, _) in rests.steps.iter().filter(|(_, to)| *to == target) {
            let of = &self.problem.classes[*class as usize];
            if !of.ports.is_empty() || of.has_claims || !of.requests.fits(&free) {
                return false;
            }
            free.subtract(&of.requests);
            known = true;
        }
        known
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
