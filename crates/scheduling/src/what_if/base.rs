//! What answers were given from, and how far that has moved when they are to be used again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Changes, WhatIf};
use crate::bits::Bits;
use crate::columns::Amount;
use crate::state::{GroupState, NodeState};

/// Everything of a what-if that an answer can depend on and that moves between two moments.
#[derive(Clone, Debug)]
pub struct Base {
    nodes: Vec<NodeState>,
    closed: Bits,
    groups: Vec<GroupState>,
    limits: Vec<Vec<Amount>>,
    node_limits: Vec<Option<i64>>,
    reservations: BTreeMap<Arc<str>, u32>,
}

/// How a what-if differs from an earlier one over the same nodes and kinds of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    pub changes: Changes,
    /// By class: some node takes its pods that did not before.
    attracted: Vec<bool>,
}

impl WhatIf<'_> {
    pub fn base(&self) -> Base {
        let state = &self.state;
        Base {
            nodes: state.nodes.clone(),
            closed: state.closed.clone(),
            groups: state.groups.clone(),
            limits: state.limits.clone(),
            node_limits: state.node_limits.clone(),
            reservations: state.reservations.clone(),
        }
    }

    /// What is different from an earlier base. Whoever rests on none of it, and has no pod that is attracted, gets the
    /// same answer as before.
    pub fn shift_from(&mut self, base: &Base) -> Shift {
        let state = &self.state;
        let limits = state.limits != base.limits || state.node_limits != base.node_limits;
        let everything = state.reservations != base.reservations
            || state.groups.len() != base.groups.len()
            || state.nodes.len() != base.nodes.len()
            || !self.waiting.is_empty();
        if everything {
            return Shift { changes: Changes { everything, ..Changes::default() }, attracted: Vec::new() };
        }
        let groups = state.groups.iter().zip(&base.groups).enumerate();
        let groups: Vec<u32> =
            groups.filter(|(_, (now, before))| !now.same_counts(before)).map(|(at, _)| at as u32).collect();
        let moved: Vec<usize> = (0..state.nodes.len())
            .filter(|at| {
                let (now, before) = (&state.nodes[*at], &base.nodes[*at]);
                // Who waits for a place there moves with the node, and may be somebody else each time.
                let waited_for = !now.pods.is_empty() || !before.pods.is_empty();
                state.closed.contains(*at) != base.closed.contains(*at) || waited_for || !now.same_room(before)
            })
            .collect();
        let attracted = (0..self.problem.classes.len())
            .map(|class| moved.iter().any(|target| self.is_attracted(class, *target, base)))
            .collect();
        let nodes = moved.iter().map(|target| self.problem.nodes[*target].index as u32).collect();
        let buyable = limits.then(|| self.buyable());
        Shift { changes: Changes { nodes, groups, buyable, everything }, attracted }
    }

    /// Whether a node takes pods of a class that it did not take before, topology apart.
    fn is_attracted(&mut self, class: usize, target: usize, base: &Base) -> bool {
        let (of, now, before) = (&self.problem.classes[class], &self.state.nodes[target], &base.nodes[target]);
        if self.state.closed.contains(target) || !of.requests.fits(&now.free) {
            return false;
        }
        let other_claims = of.has_claims && now.volumes != before.volumes;
        let other_ports = !of.ports.is_empty() && now.ports != before.ports;
        if !base.closed.contains(target) && of.requests.fits(&before.free) && !other_claims && !other_ports {
            return false;
        }
        let problem = &mut self.problem;
        (0..problem.classes[class].variants.len()).any(|variant| {
            let set = problem.classes[class].variants[variant].set;
            problem.node_index.satisfying(set, &mut problem.terms).contains(target)
        })
    }

    /// Whether a pod is of a kind that some node takes now and did not before.
    pub fn is_drawn(&self, shift: &Shift, pod: usize) -> bool {
        let at = self.pod_at[pod] as usize;
        self.problem.pods.get(at).is_none_or(|pod| shift.attracted[pod.class])
    }
}
