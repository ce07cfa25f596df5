//! The one thing that would have to be different for a node to go.

use karpenter_core::MicroUsd;

use crate::candidate::Blocked;
use crate::decision::{Miss, Reason};
use crate::snapshot::Policy;

/// Where several things keep a node, no single one lets it go.
pub(crate) fn nearest(reasons: &[Reason], policy: &Policy) -> Option<Miss> {
    let [only] = reasons else { return None };
    match only {
        Reason::Blocked(Blocked::Pdb { budgets }) if budgets.len() == 1 => {
            Some(Miss::PodDisruptionBudget { name: budgets[0].clone() })
        }
        Reason::Blocked(Blocked::Pod { pod }) => Some(Miss::Annotation { object: format!("Pod {pod}") }),
        Reason::Blocked(Blocked::Annotated) => Some(Miss::Annotation { object: "Node".to_owned() }),
        Reason::Paused { pool } => {
            let object = pool.as_ref().map_or_else(|| "ConfigMap".to_owned(), |pool| format!("NodePool {pool}"));
            Some(Miss::Annotation { object })
        }
        Reason::NotYetQuiet { until } => until.map(Miss::At),
        Reason::Budget { pool, reason, allowed, .. } => {
            Some(Miss::Budget { pool: pool.clone(), reason, from: *allowed, to: allowed + 1 })
        }
        Reason::PodHasNoPlace { pod, .. } | Reason::TargetNotReady { pod, .. } => Some(Miss::Pod { pod: pod.clone() }),
        Reason::NotCheaper { price, cheapest: Some(cheapest) } => {
            Some(Miss::Price { below: *price, cheapest: *cheapest })
        }
        Reason::SpotToSpotDisabled => Some(Miss::SpotToSpot),
        Reason::NotWorthIt { savings, priced_at } => {
            let from = policy.threshold?;
            let to = from.fraction(savings.0, priced_at.0.max(1));
            (to > MicroUsd(0)).then_some(Miss::Threshold { from, to })
        }
        Reason::Blocked(_)
        | Reason::StaticPool { .. }
        | Reason::NoSpareNode { .. }
        | Reason::UnknownInstanceType { .. }
        | Reason::MissingLabel { .. }
        | Reason::ConsolidationDisabled { .. }
        | Reason::OnlyWhenEmpty { .. }
        | Reason::HoldsBuffer
        | Reason::NotCheaper { cheapest: None, .. }
        | Reason::SameType { .. }
        | Reason::MinValues { .. }
        | Reason::SpotToSpotFlexibility { .. }
        | Reason::Score { .. }
        | Reason::NotWithOthers { .. }
        | Reason::NotAsScheduled { .. }
        | Reason::ReceivesPods { .. } => None,
    }
}
