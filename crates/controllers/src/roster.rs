//! The list of what runs, with what controllers share.

use std::sync::Arc;

use crate::buffers::CapacityBuffers;
use crate::consistency::Consistency;
use crate::disruption;
use crate::expiration::Expiration;
use crate::garbage::{ClaimCollection, MachineCollection};
use crate::hydration::{ClaimHydration, NodeHydration};
use crate::lifecycle::{Launched, Lifecycle};
use crate::metrics::StatusKind;
use crate::nodepool::{Counter, Hash, Readiness, RegistrationHealth, SharedRegistrations, Validation};
use crate::nomination::Nomination;
use crate::pricing::Pricing;
use crate::provisioning::{NodeTrigger, PodTrigger, Provisioner};
use crate::reconciler::Reconciler;
use crate::repair::Repair;
use crate::settings::Settings;
use crate::static_pools;
use crate::termination::{Evictions, SharedEntries, Termination};
use crate::transitions::Transitions;
use crate::waiting::Waiting;

/// Every controller that knows no cloud.
pub fn all(settings: &Settings) -> Vec<Arc<dyn Reconciler>> {
    let mut all = provisioning();
    all.extend(life(settings));
    all.extend(disruption::reconcilers());
    all.push(Arc::new(Pricing::default()));
    all
}

/// From pods that wait to claims, and pods to their nodes.
pub fn provisioning() -> Vec<Arc<dyn Reconciler>> {
    vec![Arc::new(PodTrigger), Arc::new(NodeTrigger), Arc::new(Provisioner::default()), Arc::new(Nomination::default())]
}

/// Everything from a claim's launch to its end, and what pools say of themselves.
pub fn life(settings: &Settings) -> Vec<Arc<dyn Reconciler>> {
    let launched = Arc::new(Launched::default());
    let registrations = SharedRegistrations::default();
    let entries = SharedEntries::default();
    let mut all: Vec<Arc<dyn Reconciler>> = vec![
        Arc::new(Lifecycle::new(launched.clone(), registrations.clone(), settings)),
        Arc::new(Termination::new(entries.clone(), settings)),
        Arc::new(Evictions::new(entries, settings)),
        Arc::new(Expiration),
        Arc::new(ClaimCollection),
        Arc::new(MachineCollection::new(launched)),
        Arc::new(Consistency::default()),
        Arc::new(ClaimHydration),
        Arc::new(NodeHydration),
        Arc::new(Hash),
        Arc::new(Readiness),
        Arc::new(Validation),
        Arc::new(RegistrationHealth::new(registrations)),
        Arc::new(Counter),
    ];
    if !settings.quiet_status {
        all.extend(StatusKind::ALL.map(|kind| Arc::new(Transitions(kind)) as Arc<dyn Reconciler>));
        all.push(Arc::new(Waiting));
    }
    if settings.capacity_buffers {
        all.push(Arc::new(CapacityBuffers));
    }
    if settings.static_capacity {
        all.push(Arc::new(static_pools::Provisioning::default()));
        all.push(Arc::new(static_pools::Deprovisioning));
    }
    if settings.node_repair {
        all.push(Arc::new(Repair));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_others_does_more_at_once_the_more_cores_there_are() {
        for (cpu_requests, want) in [(1_000, [1_000, 100, 100]), (60_000, [5_000, 5_000, 5_000])] {
            let all = life(&Settings { cpu_requests, ..Settings::default() });
            let of = |name: &str| all.iter().find(|one| one.name() == name).unwrap().concurrency();
            assert_eq!(["nodeclaim.lifecycle", "node.termination", "eviction-queue"].map(of), want, "{cpu_requests}m");
        }
    }

    #[test]
    fn controllers_have_upstreams_names() {
        let names = |settings: &Settings| life(settings).iter().map(|one| one.name()).collect::<Vec<_>>();
        let plain = names(&Settings::default());
        let want = [
            "nodeclaim.lifecycle",
            "node.termination",
            "eviction-queue",
            "nodeclaim.expiration",
            "nodeclaim.garbagecollection",
            "instance.garbagecollection",
            "nodeclaim.consistency",
            "nodeclaim.hydration",
            "node.hydration",
            "nodepool.hash",
            "nodepool.readiness",
            "nodepool.validation",
            "nodepool.registrationhealth",
            "nodepool.counter",
            "operatorpkg.nodeclaim.status",
            "operatorpkg.nodepool.status",
            "operatorpkg.node.status",
            "operatorpkg.ec2nodeclass.status",
            "metrics.pod",
        ];
        assert_eq!(plain, want);
        let repairing = names(&Settings { node_repair: true, ..Settings::default() });
        assert_eq!(repairing.last(), Some(&"node.health"), "only where it is switched on");
        let fixed = names(&Settings { static_capacity: true, ..Settings::default() });
        assert_eq!(fixed[fixed.len() - 2..], ["static.provisioning", "static.deprovisioning"]);
        // covers: API-EV-40
        let quiet = names(&Settings { quiet_status: true, ..Settings::default() });
        assert!(!quiet.iter().any(|name| name.starts_with("operatorpkg.") || *name == "metrics.pod"));
    }
}
