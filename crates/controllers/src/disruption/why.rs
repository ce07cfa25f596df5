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

#[cfg(test)]
mod tests {
    use karpenter_core::MicroUsd;

    use super::*;

    #[test]
    fn what_keeps_a_node_from_consolidation_alone_is_told_as_such() {
        // covers: API-EV-09
        let pool = || "p".into();
        let zero = MicroUsd(0);
        let unconsolidatable = [
            Reason::UnknownInstanceType { name: "m5.large".into() },
            Reason::MissingLabel { label: "topology.kubernetes.io/zone" },
            Reason::ConsolidationDisabled { pool: pool() },
            Reason::OnlyWhenEmpty { pool: pool(), pods: 1 },
            Reason::PodHasNoPlace { pod: "n/p".into(), why: None },
            Reason::NotCheaper { price: zero, cheapest: None },
            Reason::SameType { instance_type: "m5.large".into() },
            Reason::MinValues { keys: Vec::new() },
            Reason::SpotToSpotDisabled,
            Reason::SpotToSpotFlexibility { found: 14, wanted: 15 },
            Reason::HoldsBuffer,
        ];
        for reason in unconsolidatable {
            assert_eq!(told(&reason, false), Told::Unconsolidatable, "{reason:?}");
        }
        let held = Reason::Blocked(Blocked::Pod { pod: "n/p".into() });
        assert_eq!(told(&held, false), Told::Blocked, "nothing voluntary may take it");
        let no_place = Reason::PodHasNoPlace { pod: "n/p".into(), why: None };
        assert_eq!(told(&no_place, true), Told::Blocked, "it would go for another reason");
        let quiet = Reason::NotYetQuiet { until: None };
        assert_eq!(told(&quiet, false), Told::Not, "it is a matter of time");
    }
}
