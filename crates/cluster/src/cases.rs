//! Scheduling problems from a seed, for comparing one scheduler with another.
//!
//! A case is a small cluster and one pod, as manifests any API server takes. Whether the pod can be placed is left to
//! the schedulers; the families lean towards problems where the answer hangs by a thread.

mod families;
mod manifests;

pub use families::Family;

use crate::chance::{draw, mix};
use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub family: Family,
    pub nodes: Vec<Value>,
    pub csi_nodes: Vec<Value>,
    pub classes: Vec<Value>,
    pub volumes: Vec<Value>,
    pub claims: Vec<Value>,
    /// Pods that are there before, bound to their nodes.
    pub running: Vec<Value>,
    /// A pod that hopes for a node and is held back by a gate, so that only its hope counts.
    pub hopeful: Option<(Value, String)>,
    pub pod: Value,
    /// The node the pod itself is nominated to before it is tried.
    pub nominated: Option<String>,
}

/// As many cases as asked for, families taking turns.
pub fn cases(seed: u64, count: usize) -> Vec<Case> {
    (0..count).map(|i| families::case(Family::ALL[i % Family::ALL.len()], seed, i)).collect()
}

/// Dice for one case.
pub struct Dice {
    state: u64,
}

impl Dice {
    pub fn new(seed: u64, what: &str) -> Self {
        Self { state: draw(seed, &[what]) }
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.state = mix(self.state);
        (self.state % n.max(1) as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_gets_its_share_and_a_seed_decides_everything() {
        let all = cases(3, 550);
        for family in Family::ALL {
            assert_eq!(all.iter().filter(|c| c.family == family).count(), 50, "{family:?}");
        }
        let text = |seed| format!("{:?}", cases(seed, 55));
        assert_eq!(text(3), text(3));
        assert_ne!(text(3), text(4));
    }
}
