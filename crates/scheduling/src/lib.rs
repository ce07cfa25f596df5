//! From a world to a plan: pods onto existing nodes, pods onto new ones, and a reason for every pod left over.
//!
//! ```text
//!   World ─ admit ─▶ Problem (terms, catalogs, templates, classes, groups) ─▶ first_match ─▶ finalize ─▶ Plan
//!                                                     State (claims, nodes, counts, undo log)
//! ```
//!
//! Pure: the same world gives the same plan, whatever the machine, the thread count and the order of hash maps.

mod admit;
mod best;
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
pub mod miss;
mod no_room;
mod place;
mod problem;
mod relax;
mod repack;
mod solution;
mod spread_defaults;
mod state;
mod template;
mod terms;
mod topology;
mod volumes;
pub mod what_if;

use karpenter_core::plan::{LeftOver, Plan};
use karpenter_core::world::World;

use crate::problem::Problem;
use crate::solution::{BASELINE, Solution};

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
    let solution = match packing {
        Packing::FirstMatch => Solution::new(&mut problem, BASELINE),
        Packing::Best => best::solve(&mut problem),
    };
    solution.into_plan(&mut problem)
}

/// Pods without a node that validation will refuse as soon as somebody waits for them: gated and preempting ones. They
/// are no part of a pass; `plan` tells of them all the same.
pub fn refused_bystanders(world: &World) -> Vec<LeftOver> {
    admit::refused_bystanders(world)
}
