//! Judges a plan from first principles, the slow and obvious way.
//!
//! ```text
//!   World ─┐   waiting ─ who had to be placed          claim ──── what each new node may become
//!   Plan ──┴─▶ existing, fresh ─ one node at a time    launch ─── what would be started, at what price
//!              topology ─ spread, affinity, company    limits, reservations, weights, left_over
//! ```
//!
//! A solver is fast because it is clever; whether it was right is asked here by code that shares nothing with it but
//! the plain types of `core`: selectors, tolerations, label expressions, quantities and volumes are matched anew, by
//! Kubernetes' rules. Only what no order of arrival could excuse is a violation: where a pod may have come before the
//! one it now sits beside, the plan gets the benefit of the doubt.
//!
//! Not judged: whether preferences were worth keeping, and whether a cheaper plan exists.

mod amounts;
mod claim;
mod cluster;
mod commands;
mod daemons;
mod existing;
mod fresh;
mod labels;
mod launch;
mod left_over;
mod limits;
mod reservations;
mod tolerations;
mod topology;
mod violation;
mod volumes;
mod waiting;
mod weights;

use karpenter_core::World;
use karpenter_core::plan::Plan;

pub use commands::{Fault, allowed_disruptions, verify_commands, verify_decision, verify_start};
pub use violation::Violation;

/// Everything about the plan that no cluster could make true, in a fixed order. A sound plan has none.
pub fn verify(world: &World, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    waiting::positions(world, plan, &mut found);
    if !found.is_empty() {
        // Numbers that point nowhere leave nothing to judge.
        return found;
    }
    let cluster = cluster::Cluster::new(world, plan);
    waiting::bookkeeping(&cluster, &mut found);
    fresh::judge(&cluster, &mut found);
    existing::judge(&cluster, &mut found);
    topology::judge(&cluster, &mut found);
    limits::judge(&cluster, &mut found);
    reservations::judge(&cluster, &mut found);
    weights::judge(&cluster, &mut found);
    left_over::judge(&cluster, &mut found);
    found
}

#[cfg(test)]
mod tests;
