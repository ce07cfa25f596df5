//! Topology spread constraints.

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use karpenter_core::pod::{NodePolicy, Spread, WhenUnsatisfiable};

use super::{Faults, selector};
use crate::path::Path;

/// A constraint of a later Kubernetes is one that has to be met, and as even as can be.
pub(super) fn spread(wire: &TopologySpreadConstraint, at: &Path<'_>, faults: &mut Faults) -> Spread {
    let when = match wire.when_unsatisfiable.as_str() {
        "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
        "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
        other => {
            let message = format!("{other:?} is not one of DoNotSchedule, ScheduleAnyway");
            faults.careful(&at.field("whenUnsatisfiable"), message);
            WhenUnsatisfiable::DoNotSchedule
        }
    };
    if wire.max_skew < 1 {
        faults.careful(&at.field("maxSkew"), "must be at least 1");
    }
    // As in Kubernetes: affinity is honoured and taints are ignored unless the constraint says otherwise.
    let node_affinity =
        policy(wire.node_affinity_policy.as_deref(), NodePolicy::Honor, &at.field("nodeAffinityPolicy"), faults);
    let node_taints =
        policy(wire.node_taints_policy.as_deref(), NodePolicy::Ignore, &at.field("nodeTaintsPolicy"), faults);
    Spread {
        topology_key: wire.topology_key.as_str().into(),
        max_skew: wire.max_skew.max(1),
        min_domains: wire.min_domains,
        when,
        selector: wire.label_selector.as_ref().map(selector),
        match_label_keys: wire.match_label_keys.clone().unwrap_or_default(),
        node_affinity,
        node_taints,
    }
}

fn policy(text: Option<&str>, default: NodePolicy, at: &Path<'_>, faults: &mut Faults) -> NodePolicy {
    match text {
        None | Some("") => default,
        Some("Honor") => NodePolicy::Honor,
        Some("Ignore") => NodePolicy::Ignore,
        Some(other) => {
            faults.add(at, format!("{other:?} is not one of Honor, Ignore"));
            default
        }
    }
}
