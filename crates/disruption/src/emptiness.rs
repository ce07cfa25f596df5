//! Nodes on which nothing runs that is worth moving.

use crate::candidate::Candidate;
use crate::decision::Reason;
use crate::snapshot::{Policy, Snapshot};

pub enum Interest {
    Yes,
    /// With what people should know of it, if there is anything.
    No(Option<Reason>),
}

/// Whether the method looks at a candidate.
pub fn judge(candidate: &Candidate, snapshot: &Snapshot<'_>, policy: &Policy) -> Interest {
    let (pool, facts) = (&snapshot.pools[&candidate.pool], &snapshot.nodes[candidate.node]);
    let name = candidate.pool.clone();
    if pool.is_static {
        return Interest::No(Some(Reason::StaticPool { pool: name }));
    }
    if policy.paused || pool.paused {
        return Interest::No(Some(Reason::Paused { pool: pool.paused.then_some(name) }));
    }
    if pool.consolidate_after.is_none() {
        return Interest::No(Some(Reason::ConsolidationDisabled { pool: name }));
    }
    if facts.holds_buffer {
        return Interest::No(Some(Reason::HoldsBuffer));
    }
    if !candidate.is_empty() {
        return Interest::No(None);
    }
    match facts.consolidatable {
        true => Interest::Yes,
        false => Interest::No(Some(Reason::NotYetQuiet { until: facts.quiet_from })),
    }
}
