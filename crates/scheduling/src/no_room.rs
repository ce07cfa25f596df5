//! Which existing nodes have no room for pods of a size, remembered for as long as it holds.
//!
//! Nodes only get fuller while a pass goes on. What is taken back gives room back, so each thing learnt is filed by what
//! would have to be taken back first: nothing at all, a settled answer, or what is being tried right now.

use rustc_hash::FxHashSet;

use crate::bits::Bits;

#[derive(Clone, Default)]
pub(crate) struct NoRoom {
    /// By size: nodes that had no room when nothing was put on them yet.
    as_found: Vec<Bits>,
    /// By size: nodes that have none since an answer was settled.
    settled: Vec<Bits>,
    /// By size: nodes that what is being tried has filled. Whoever takes that back says so.
    tried: Vec<Bits>,
}

/// Since when a node is as full as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Found,
    Settled,
    Tried,
}

impl NoRoom {
    /// Takes the nodes without room for a size out of a set.
    pub(crate) fn leave_out(&self, size: usize, nodes: &mut Bits) {
        for layer in [&self.as_found, &self.settled, &self.tried] {
            if let Some(full) = layer.get(size) {
                nodes.and_not(full);
            }
        }
    }

    pub(crate) fn note(&mut self, size: usize, node: usize, since: Since) {
        let layer = match since {
            Since::Found => &mut self.as_found,
            Since::Settled => &mut self.settled,
            Since::Tried => &mut self.tried,
        };
        if size >= layer.len() {
            layer.resize(size + 1, Bits::new());
        }
        layer[size].insert(node);
    }

    /// What filled the node in a trial was taken back.
    pub(crate) fn forget(&mut self, size: usize, node: usize) {
        self.tried[size].remove(node);
    }

    /// For another moment, in which these nodes have other pods: what was learnt of all others as they were found.
    pub(crate) fn forget_nodes(&mut self, nodes: &FxHashSet<usize>) {
        self.settled.clear();
        self.tried.clear();
        for full in &mut self.as_found {
            nodes.iter().for_each(|node| full.remove(*node));
        }
    }

    /// A settled answer was taken back.
    pub(crate) fn forget_settled(&mut self) {
        self.settled.clear();
    }
}
