//! Nodes that are not what their pool asks for any more.

use std::sync::Arc;

use karpenter_scheduling::what_if::WhatIf;

use crate::candidate::Candidate;
use crate::command::{Assumptions, Command, Later, Method};
use crate::decision::Reason;
use crate::rules::Rules;
use crate::snapshot::{Policy, Snapshot};
use crate::trial;

/// Consolidation settings do not matter.
pub fn looks_at(candidate: &Candidate, snapshot: &Snapshot<'_>, policy: &Policy) -> bool {
    let pool = &snapshot.pools[&candidate.pool];
    !policy.paused && !pool.paused
}

/// One node of a static pool for another: what it holds is not asked, for the new one comes before it goes.
pub(crate) fn of_static(candidate: &Candidate) -> Command {
    let (replacements, moves, later, assumes) = Default::default();
    let candidates = vec![candidate.clone()];
    let method = Method::StaticDrift;
    Command { method, candidates, replacements, moves, savings: 0, later, assumes, ahead: false }
}

/// Those without pods first, then whoever has drifted longest, then by name.
pub(crate) fn sort(candidates: &mut [Arc<Candidate>], snapshot: &Snapshot<'_>) {
    candidates.sort_by_key(|candidate| {
        let since = snapshot.nodes[candidate.node].drifted.as_ref().map(|drifted| drifted.since);
        (!candidate.pods.is_empty(), since, candidate.name.clone())
    });
}

/// As many replacements as its pods need, at whatever price. The what-if keeps what is taken.
pub(crate) fn command(
    what_if: &mut WhatIf<'_>,
    rules: &Rules<'_, '_>,
    candidate: &Candidate,
) -> Result<Command, Reason> {
    let mark = what_if.mark();
    match trial::replace(what_if, rules, &[candidate]) {
        Ok(trial) => {
            what_if.settle();
            let candidates = vec![candidate.clone()];
            Ok(Command {
                method: Method::Drift,
                candidates,
                replacements: trial.replacements,
                moves: trial.moves,
                savings: trial.savings,
                later: Later::default(),
                assumes: Assumptions::default(),
                ahead: false,
            })
        }
        Err(reason) => {
            what_if.rollback(mark);
            Err(reason)
        }
    }
}
