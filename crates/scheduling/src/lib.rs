//! From a world to a plan: pods onto existing nodes, pods onto new ones, and a reason for every pod left over.
//!
//! ```text
//!   World ─ admit ─▶ Problem (terms, catalogs, templates, classes, groups) ─▶ first_match ─▶ finalize ─▶ Plan
//!                                                     State (claims, nodes, counts, undo log)
//! ```
//!
//! Pure: the same world gives the same plan, whatever the machine, the thread count and the order of hash maps.

mod admit;
mod bits;
mod catalog;
mod classes;
mod columns;
mod daemons;
mod domains;
pub mod duration;
mod existing;
mod explain;
mod finalize;
mod first_match;
mod groups;
mod launch;
mod place;
mod problem;
mod relax;
mod repack;
mod spread_defaults;
mod state;
mod template;
mod terms;
mod topology;
mod volumes;

use karpenter_core::plan::{LeftOver, Plan, PoolReason, Reason};
use karpenter_core::world::World;

use crate::place::Reserving;
use crate::problem::Problem;
use crate::state::State;

/// How pods are packed onto new nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// The reference's order; the baseline.
    FirstMatch,
    /// Starts from the baseline and may only place more and pay less.
    Best,
}

/// The plan for every pod of the world that waits for a node.
pub fn solve(world: &World) -> Plan {
    solve_with(world, Packing::Best)
}

pub fn solve_with(world: &World, packing: Packing) -> Plan {
    let mut problem = Problem::compile(world);
    let mut state = State::new(&problem);
    let queue: Vec<usize> = (0..problem.pods.len()).collect();
    let outcome = first_match::solve(&mut problem, &mut state, &queue, Reserving::Strict);
    let cheaper = match packing {
        Packing::FirstMatch => None,
        Packing::Best => repack::improve(&mut problem, &state),
    };
    let (new_nodes, discarded) = problem.new_nodes(cheaper.as_ref().unwrap_or(&state.claims));
    let mut plan = Plan { new_nodes, ..Plan::default() };
    for (node, of) in problem.nodes.iter().zip(&state.nodes).filter(|(_, of)| !of.pods.is_empty()) {
        plan.existing.insert(node.index, of.pods.iter().map(|(pod, _)| problem.pods[*pod].index).collect());
    }
    let mut reasons = explain::Reasons::default();
    for (pod, missed) in outcome.left {
        let reason = missed.reason().unwrap_or_else(|| reasons.of(&mut problem, &state, pod));
        plan.left_over.push(LeftOver { pod: problem.pods[pod].index, reason, nearest_miss: None });
    }
    for given_up in discarded {
        let keys: Vec<_> = given_up.keys.iter().map(|key| problem.terms.key_name(*key).clone()).collect();
        for pod in given_up.pods {
            let reason = Reason::Pools(vec![(given_up.pool, PoolReason::MinValues { keys: keys.clone() })]);
            plan.left_over.push(LeftOver { pod: problem.pods[pod].index, reason, nearest_miss: None });
        }
    }
    plan.ignored = std::mem::take(&mut problem.ignored);
    plan
}
