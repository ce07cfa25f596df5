//! Everything that reconciles, in one list.

use std::sync::Arc;

use karpenter_controllers::disruption;
use karpenter_controllers::nomination::Nomination;
use karpenter_controllers::provisioning::{NodeTrigger, PodTrigger, Provisioner};
use karpenter_controllers::roster::life;
use karpenter_controllers::{Reconciler, Settings};

/// In the order in which the engine asks them. The provider's own come last: they serve the others.
pub fn roster(settings: &Settings, of_the_provider: Vec<Arc<dyn Reconciler>>) -> Vec<Arc<dyn Reconciler>> {
    let mut all: Vec<Arc<dyn Reconciler>> = Vec::new();
    // From pods that wait to NodeClaims.
    all.push(Arc::new(PodTrigger));
    all.push(Arc::new(NodeTrigger));
    all.push(Arc::new(Provisioner));
    all.push(Arc::new(Nomination::default()));
    // Claims, nodes and pools: launch, registration, initialization, termination, expiry, garbage, status.
    all.extend(life(settings));
    // Nodes that are no longer worth their price.
    all.extend(disruption::reconcilers());
    // Node classes and tags.
    all.extend(of_the_provider);
    all
}
