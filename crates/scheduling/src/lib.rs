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
mod deadline;
mod domains;
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
mod type_tables;
mod volumes;
pub mod what_if;
mod zones;

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::plan::{LeftOver, Plan};
use karpenter_core::world::World;

pub use crate::deadline::Deadline;
use crate::problem::Problem;
use crate::solution::{BASELINE, Solution};
use crate::template::Dropped;
pub use crate::template::bare_claim;

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

/// A plan with what an operator is told besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub plan: Plan,
    /// How many pods wait for each zone: by its name, `flexible` where several will do, `none` where what they ask for
    /// excludes itself.
    pub zones: BTreeMap<Arc<str>, usize>,
    /// Pools of the world whose own requirements leave them no instance type.
    pub without_types: Vec<WithoutTypes>,
    /// Pods of the world that were placed after so many of their wishes were given up.
    pub relaxed: Vec<(usize, usize)>,
    /// Some pods were not tried any more.
    pub timed_out: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithoutTypes {
    pub pool: usize,
    /// Too few types, rather than none.
    pub min_values: bool,
}

/// As [`solve`], looking on, while there is time.
pub fn solve_observed(world: &World, deadline: &Deadline) -> Observed {
    let mut problem = Problem::compile(world);
    problem.deadline = deadline.clone();
    let zones = zones::count(&mut problem);
    let without_types =
        |(pool, why): &(usize, Dropped)| WithoutTypes { pool: *pool, min_values: matches!(why, Dropped::MinValues(_)) };
    let without_types = problem.dropped.iter().map(without_types).collect();
    let solution = best::solve(&mut problem);
    let relaxed = solution.relaxed().map(|(pod, times)| (problem.pods[pod].index, times)).collect();
    let timed_out = deadline.is_over();
    Observed { plan: solution.into_plan(&mut problem), zones, without_types, relaxed, timed_out }
}

/// Pods without a node that validation will refuse as soon as somebody waits for them: gated and preempting ones. They
/// are no part of a pass; `plan` tells of them all the same.
pub fn refused_bystanders(world: &World) -> Vec<LeftOver> {
    admit::refused_bystanders(world)
}
