//! Answers that were given already, for as long as nothing they rest on has changed.
//!
//! A set of nodes is asked about many times: alone, with others, at the end for its reason, and in the next pass again.
//! While the cluster is the same to it, so is the answer.

use karpenter_scheduling::what_if::{Changes, Rests, Shift, WhatIf};
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
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Verdicts {
    ids: FxHashMap<Box<[u32]>, u32>,
    /// By node: its number when it is asked about alone.
    alone: Vec<Option<u32>>,
    known: Vec<Option<Known>>,
    /// By a node that is asked about.
    by_member: FxHashMap<u32, Vec<u32>>,
    /// By a node that pods go to.
    by_node: FxHashMap<u32, Vec<u32>>,
    by_group: FxHashMap<u32, Vec<u32>>,
    /// What to put back to have everything as it was at the mark, newest last.
    log: Option<Vec<Undo>>,
    /// How many entries the lists above have gained since they were last made anew.
    noted: usize,
}

#[derive(Clone, Debug)]
struct Known {
    verdict: Verdict,
    rests: Rests,
    /// Something that may concern it has happened since.
    due: bool,
}

#[derive(Clone, Debug)]
enum Undo {
    Known(u32, Option<Known>),
    Due(u32),
    Member(u32, Vec<u32>),
    Node(u32, Vec<u32>),
    Group(u32, Vec<u32>),
}

/// Entries of answers that were dropped are not looked for; at so many entries more than there are answers for, the
/// lists are made anew.
const SLACK: usize = 1 << 16;

impl Verdicts {
    pub(crate) fn get(&self, nodes: &[u32]) -> Option<&Verdict> {
        self.known(nodes).map(|known| &known.verdict)
    }

    fn known(&self, nodes: &[u32]) -> Option<&Known> {
        let id = match nodes {
            [node] => self.alone.get(*node as usize).copied().flatten(),
            _ => self.ids.get(nodes).copied(),
        };
        id.and_then(|id| self.known[id as usize].as_ref())
    }

    /// Whether there is no answer, or one from before something that may concern it.
    pub(crate) fn is_due(&self, nodes: &[u32]) -> bool {
        self.known(nodes).is_none_or(|known| known.due)
    }

    /// Drops what is due, so that it is asked before it is used.
    pub(crate) fn drop_due(&mut self) {
        self.known
            .iter_mut()
            .filter(|known| known.as_ref().is_some_and(|known| known.due))
            .for_each(|known| *known = None);
    }

    pub(crate) fn put(&mut self, nodes: &[u32], verdict: Verdict, rests: Rests) {
        let next = self.known.len() as u32;
        let id = *self.ids.entry(nodes.into()).or_insert(next);
        if id == next {
            self.known.push(None);
            if let [node] = nodes {
                let at = *node as usize;
                self.alone.resize(self.alone.len().max(at + 1), None);
                self.alone[at] = Some(id);
            }
        }
        self.note(id, nodes, &rests);
        self.set(id, Some(Known { verdict, rests, due: false }));
    }

    fn set(&mut self, id: u32, known: Option<Known>) {
        let before = std::mem::replace(&mut self.known[id as usize], known);
        if let Some(log) = &mut self.log {
            log.push(Undo::Known(id, before));
        }
    }

    /// From here on changes can be taken back.
    pub(crate) fn mark(&mut self) {
        self.log = Some(Vec::new());
    }

    /// Takes back everything since the mark.
    pub(crate) fn restore(&mut self) {
        for undo in self.log.iter_mut().flat_map(std::mem::take).collect::<Vec<_>>().into_iter().rev() {
            match undo {
                Undo::Known(id, known) => self.known[id as usize] = known,
                Undo::Due(id) => self.known[id as usize].iter_mut().for_each(|known| known.due = false),
                Undo::Member(node, ids) => drop(self.by_member.insert(node, ids)),
                Undo::Node(node, ids) => drop(self.by_node.insert(node, ids)),
                Undo::Group(group, ids) => drop(self.by_group.insert(group, ids)),
            }
        }
    }

    fn note(&mut self, id: u32, nodes: &[u32], rests: &Rests) {
        for node in nodes {
            self.by_member.entry(*node).or_default().push(id);
        }
        for node in &rests.nodes {
            self.by_node.entry(*node).or_default().push(id);
        }
        for group in &rests.groups {
            self.by_group.entry(*group).or_default().push(id);
        }
        self.noted += nodes.len() + rests.nodes.len() + rests.groups.len();
    }

    /// Drops every answer that the changes may have made wrong. `takes` tells whether a node that was filled still takes
    /// what an answer puts there.
    pub(crate) fn forget(&mut self, changes: &Changes, takes: impl Fn(&Rests, u32) -> bool) {
        self.forget_all(changes);
        for node in &changes.nodes {
            let Some(ids) = self.by_node.remove(node) else { continue };
            let stands = |id: &u32| {
                let known = self.known[*id as usize].as_ref();
                known.is_some_and(|known| known.due || takes(&known.rests, *node))
            };
            let (stand, fall): (Vec<u32>, Vec<u32>) = ids.iter().partition(|id| stands(id));
            fall.into_iter().for_each(|id| self.set(id, None));
            self.by_node.insert(*node, stand);
            self.log.iter_mut().for_each(|log| log.push(Undo::Node(*node, ids.clone())));
        }
    }

    /// As [`Self::forget`], but whoever could not go before is taken not to be able to now that there is less room, and is
    /// due.
    pub(crate) fn postpone(&mut self, changes: &Changes) {
        let concerned = changes.nodes.iter().filter_map(|node| self.by_node.get(node));
        let concerned = concerned.chain(changes.groups.iter().filter_map(|group| self.by_group.get(group)));
        for id in concerned.flatten().copied().collect::<Vec<u32>>() {
            match &mut self.known[id as usize] {
                Some(known) if known.verdict.is_ok() => self.set(id, None),
                Some(known) if !known.due => {
                    known.due = true;
                    self.log.iter_mut().for_each(|log| log.push(Undo::Due(id)));
                }
                Some(_) | None => {}
            }
        }
        self.forget_members(&changes.nodes);
    }

    fn forget_members(&mut self, nodes: &[u32]) {
        for node in nodes {
            let Some(ids) = self.by_member.remove(node) else { continue };
            ids.iter().for_each(|id| self.set(*id, None));
            self.log.iter_mut().for_each(|log| log.push(Undo::Member(*node, ids.clone())));
        }
    }

    /// But for nodes that answers put pods on.
    fn forget_all(&mut self, changes: &Changes) {
        if changes.everything {
            (0..self.known.len() as u32).for_each(|id| self.set(id, None));
            return;
        }
        if let Some(buyable) = changes.buyable {
            // With room for one more than it bought, no limit has a say.
            let fallen = |known: &Known| known.rests.limited || known.rests.new_nodes >= buyable;
            let all = self.known.iter().enumerate();
            let fallen: Vec<u32> =
                all.filter(|(_, known)| known.as_ref().is_some_and(fallen)).map(|(id, _)| id as u32).collect();
            fallen.into_iter().for_each(|id| self.set(id, None));
        }
        self.forget_members(&changes.nodes);
        for group in &changes.groups {
            let Some(ids) = self.by_group.remove(group) else { continue };
            ids.iter().for_each(|id| self.set(*id, None));
            self.log.iter_mut().for_each(|log| log.push(Undo::Group(*group, ids.clone())));
        }
    }

    /// For what changed from one pass to the next: nodes may have more room than before. What may be otherwise now is due
    /// to be asked again.
    pub(crate) fn shift(&mut self, shift: &Shift, what_if: &WhatIf<'_>) {
        self.log = None;
        if !shift.changes.everything {
            self.forget_all(&shift.changes);
        }
        for (nodes, id) in &self.ids {
            let known = &mut self.known[*id as usize];
            if let Some(known) = known.as_mut().filter(|known| !known.due) {
                known.due = shift.changes.everything || !what_if.stands(shift, nodes, &known.rests);
            }
            // Whoever could go is tried anyway.
            if known.as_ref().is_some_and(|known| known.due && known.verdict.is_ok()) {
                *known = None;
            }
        }
        let live = self.known.iter().flatten().count();
        if self.noted > SLACK + 32 * live {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let before = std::mem::take(self);
        let mut ids: Vec<(Box<[u32]>, u32)> = before.ids.into_iter().collect();
        ids.sort_unstable();
        let mut known = before.known;
        for (nodes, id) in ids {
            if let Some(Known { verdict, rests, due }) = known[id as usize].take() {
                self.put(&nodes, verdict, rests);
                self.known.last_mut().and_then(Option::as_mut).expect("it was just put there").due = due;
            }
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
            ..Rests::default()
        };
        verdicts.put(&[1], no(), rests(&[5], &[2], 0, false));
        verdicts.put(&[1, 2], yes.clone(), rests(&[6], &[], 2, false));
        let change = |nodes: &[u32], groups: &[u32]| Changes {
            nodes: nodes.to_vec(),
            groups: groups.to_vec(),
            buyable: None,
            everything: false,
        };
        verdicts.forget(&change(&[9], &[3]), |_, _| false);
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
            after.forget(&changes, |_, _| false);
            assert_eq!((after.get(&[1]).is_some(), after.get(&[1, 2]).is_some()), (first, second), "{changes:?}");
        }
        verdicts.forget(&change(&[5], &[]), |_, _| false);
        verdicts.put(&[1], no(), rests(&[8], &[], 0, true));
        let mut after = verdicts.clone();
        after.forget(&Changes { buyable: Some(9), ..Changes::default() }, |_, _| false);
        assert_eq!(after.get(&[1]), None, "a limit had a say, and may have another now");
        verdicts.forget(&change(&[5], &[2]), |_, _| false);
        assert_eq!(verdicts.get(&[1]), None, "dropping too much costs time, dropping too little would be wrong");
    }
}
