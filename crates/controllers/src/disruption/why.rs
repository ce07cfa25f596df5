//! Words for why a node stays, and where they are told.

use karpenter_core::World;
use karpenter_disruption::{Blocked, Reason};

use crate::provisioning::why as placing;

/// How people learn of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Event `DisruptionBlocked`: nothing voluntary may take the node.
    Blocked,
    /// Event `Unconsolidatable`: it could go, and there is no better way to run its pods.
    Unconsolidatable,
    /// The node's own business for now, its pool's, or another controller's.
    Not,
}

/// `drifted`: it would go for that reason, whatever consolidation thinks of it.
pub fn told(reason: &Reason, drifted: bool) -> Told {
    match reason {
        Reason::Blocked(Blocked::InQueue | Blocked::Unmanaged) => Told::Not,
        Reason::Blocked(_) | Reason::Paused { .. } => Told::Blocked,
        Reason::PodHasNoPlace { .. } | Reason::TargetNotReady { .. } if drifted => Told::Blocked,
        Reason::UnknownInstanceType { .. }
        | Reason::MissingLabel { .. }
        | Reason::ConsolidationDisabled { .. }
        | Reason::OnlyWhenEmpty { .. }
        | Reason::HoldsBuffer
        | Reason::PodHasNoPlace { .. }
        | Reason::TargetNotReady { .. }
        | Reason::NotCheaper { .. }
        | Reason::SameType { .. }
        | Reason::MinValues { .. }
        | Reason::SpotToSpotDisabled
        | Reason::SpotToSpotFlexibility { .. }
        | Reason::NotAsScheduled { .. }
        | Reason::NotWorthIt { .. } => Told::Unconsolidatable,
        Reason::NoSpareNode { .. } => Told::Blocked,
        Reason::StaticPool { .. }
        | Reason::NotYetQuiet { .. }
        | Reason::Budget { .. }
        | Reason::Score { .. }
        | Reason::NotWithOthers { .. }
        | Reason::ReceivesPods { .. } => Told::Not,
    }
}

/// In words; why a pod would find no other place is told pool by pool.
pub fn text(world: &World, reason: &Reason) -> String {
    match reason {
        Reason::PodHasNoPlace { pod, why: Some(why) } => {
            format!("Pod {pod} would not schedule: {}", placing::reason(world, why))
        }
        other => other.to_string(),
    }
}
