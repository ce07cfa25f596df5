//! Everything that reconciles, in one list.

use std::sync::Arc;

use karpenter_controllers::disruption;
use karpenter_controllers::pricing::Pricing;
use karpenter_controllers::roster::{life, provisioning};
use karpenter_controllers::{Reconciler, Settings};

/// In the order in which the engine asks them. The provider's own come last: they serve the others.
pub fn roster(settings: &Settings, of_the_provider: Vec<Arc<dyn Reconciler>>) -> Vec<Arc<dyn Reconciler>> {
    // From pods that wait to NodeClaims.
    let mut all = provisioning();
    // Claims, nodes and pools: launch, registration, initialization, termination, expiry, garbage, status.
    all.extend(life(settings));
    // Nodes that are no longer worth their price.
    all.extend(disruption::reconcilers());
    // What pools cost.
    all.push(Arc::new(Pricing::default()));
    // Node classes and tags.
    all.extend(of_the_provider);
    all
}
