//! kube-scheduler's decisions, as a pure function of a snapshot.
//!
//! ```text
//! changes ──> Snapshot ──> decide(pod) ──> Place     bind it there, binding its volumes first
//!                                    ├──> Preempt   evict the victims, hope for their node
//!                                    └──> Unschedulable   say why, wait for a change that could help
//! ```

pub mod affinity;
pub mod classes;
pub mod cycle;
pub mod decide;
pub mod limits;
pub mod node;
pub mod pod;
pub mod preempt;
pub mod queue;
pub mod reject;
pub mod score;
pub mod shell;
pub mod snapshot;
pub mod spread;
pub mod storage;
pub mod volumes;

pub use decide::{Decision, Placement, Preemption, Unschedulable, decide};
pub use pod::PodInfo;
pub use shell::Scheduler;
pub use snapshot::Snapshot;

use crate::key::Key;

/// A number that decides between equals: the same for the same seed and pod, on every machine.
pub(crate) fn tie(seed: u64, key: &Key) -> u64 {
    crate::chance::draw(seed, &[&key.namespace, &key.name])
}

#[cfg(test)]
mod tests;
