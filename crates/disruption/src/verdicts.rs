//! Answers that were given already, for as long as nothing they rest on has changed.
//!
//! A set of nodes is asked about many times: alone, with others, at the end for its reason, and in the next pass again.
//! While the cluster is the same to it, so is the answer.

use karpenter_scheduling::what_if::{Changes, Rests};
use rustc_hash::FxHashMap;

use crate::decision::Reason;

/// What a set of nodes came to.
pub(crate) type Verdict = Result<Worth, Reason>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Worth {
    /// Millionths of a dollar per hour.
    pub(crate) savings: i64,
    pub(crate) replacements: usize,
}

/// By the nodes asked about, in `World::nodes`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdicts {
    ids: FxHashMap<Box<[u32]>, u32>,
    known: Vec<Option<Known>>,
    by_node: FxHashMap<u32, Vec<u32>>,
    by_group: FxHashMap<u32, Vec<u32>>,
}

#[derive(Clone, Debug)]
struct Known {
    verdict: Verdict,
    new_nodes: u32,
    limited: bool,
}

impl Verdicts {
    pub(crate) fn get(&self, nodes: &[u32]) -> Option<&Verdict> {
        self.ids.get(nodes).and_then(|id| self.known[*id as usize].as_ref()).map(|known| &known.verdict)
    }

    pub(crate) fn put(&mut self, nodes: &[u32], verdict: Verdict, rests: &Rests) {
        let next = self.known.len() as u32;
        let id = *self.ids.entry(nodes.into()).or_insert(next);
        if id == next {
            self.known.push(None);
        }
        self.known[id as usize] = Some(Known { verdict, new_nodes: rests.new_nodes, limited: rests.limited });
        for node in nodes.iter().chain(&rests.nodes) {
            self.by_node.entry(*node).or_default().push(id);
        }
        for group in &rests.groups {
            self.by_group.entry(*group).or_default().push(id);
        }
    }

    /// Drops every answer that the changes may have made wrong.
    pub(crate) fn forget(&mut self, changes: &Changes) {
        if changes.everything {
            *self = Self::default();
            return;
        }
        if let Some(buyable) = changes.buyable {
            // With room for one more than it bought, no limit has a say.
            let stands = |known: &Known| !known.limited && known.new_nodes < buyable;
            self.known.iter_mut().filter(|known| !known.as_ref().is_some_and(stands)).for_each(|known| *known = None);
        }
        let by_node = changes.nodes.iter().filter_map(|node| self.by_node.remove(node));
        let by_group = changes.groups.iter().filter_map(|group| self.by_group.remove(group));
        for id in by_node.chain(by_group).flatten() {
            self.known[id as usize] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_until_something_it_rests_on_changes() {
        let no = || Err(Reason::HoldsBuffer);
        let yes = Ok(Worth { savings: 7, replacements: 1 });
        let mut verdicts = Verdicts::default();
        let rests = |nodes: &[u32], groups: &[u32], new_nodes, limited| Rests {
            nodes: nodes.to_vec(),
            groups: groups.to_vec(),
            new_nodes,
            limited,
        };
        verdicts.put(&[1], no(), &rests(&[5], &[2], 0, false));
        verdicts.put(&[1, 2], yes.clone(), &rests(&[6], &[], 2, false));
        let change = |nodes: &[u32], groups: &[u32]| Changes {
            nodes: nodes.to_vec(),
            groups: groups.to_vec(),
            buyable: None,
            everything: false,
        };
        verdicts.forget(&change(&[9], &[3]));
        assert_eq!((verdicts.get(&[1]), verdicts.get(&[1, 2])), (Some(&no()), Some(&yes)));
        assert_eq!(verdicts.get(&[2]), None);
        for (changes, first, second) in [
            (change(&[5], &[]), false, true),
            (change(&[], &[2]), false, true),
            (change(&[6], &[]), true, false),
            (change(&[2], &[]), true, false),
            (change(&[1], &[]), false, false),
            (Changes { buyable: Some(3), ..Changes::default() }, true, true),
            (Changes { buyable: Some(2), ..Changes::default() }, true, false),
            (Changes { buyable: Some(0), ..Changes::default() }, false, false),
            (Changes { everything: true, ..Changes::default() }, false, false),
        ] {
            let mut after = verdicts.clone();
            after.forget(&changes);
            assert_eq!((after.get(&[1]).is_some(), after.get(&[1, 2]).is_some()), (first, second), "{changes:?}");
        }
        verdicts.forget(&change(&[5], &[]));
        verdicts.put(&[1], no(), &rests(&[8], &[], 0, true));
        let mut after = verdicts.clone();
        after.forget(&Changes { buyable: Some(9), ..Changes::default() });
        assert_eq!(after.get(&[1]), None, "a limit had a say, and may have another now");
        verdicts.forget(&change(&[5], &[2]));
        assert_eq!(verdicts.get(&[1]), None, "dropping too much costs time, dropping too little would be wrong");
    }
}
