//! Claims that ask for the same launch the same way: what was worked out for one holds for the next, as long as nothing
//! that it was made from has changed. A thousand claims of one plan cost little more than one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use karpenter_api::{EC2NodeClass, NodeClaim};
use karpenter_core::InstanceType;
use karpenter_provider::InstanceTypes;

use super::template::Planned;

/// Kinds of claims in one batch; more are worked out anew.
const KEPT: usize = 32;

pub(crate) struct Plan {
    pub(crate) types: Vec<InstanceType>,
    pub(crate) capacity_type: &'static str,
    pub(crate) tenancy: &'static str,
    pub(crate) templates: Vec<Planned>,
}

/// The partition asked for, and whether spot requests are tagged.
pub(crate) type Variant = (Option<u32>, bool);

#[derive(Default)]
pub(crate) struct Plans {
    /// Newest first.
    held: Mutex<VecDeque<Held>>,
}

struct Held {
    /// The very list it was made from, kept so that no other can take its address.
    types: InstanceTypes,
    key: String,
    plan: Arc<Plan>,
}

impl Plans {
    pub(crate) fn find(
        &self,
        class: &EC2NodeClass,
        claim: &NodeClaim,
        types: &InstanceTypes,
        variant: Variant,
    ) -> Option<Arc<Plan>> {
        let key = key(class, claim, variant);
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |held: &&Held| Arc::ptr_eq(&held.types, types) && held.key == key;
        held.iter().find(same).map(|held| held.plan.clone())
    }

    pub(crate) fn keep(
        &self,
        class: &EC2NodeClass,
        claim: &NodeClaim,
        types: &InstanceTypes,
        variant: Variant,
        plan: Arc<Plan>,
    ) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.push_front(Held { types: types.clone(), key: key(class, claim, variant), plan });
        held.truncate(KEPT);
    }
}

/// Everything of the two objects that a plan looks at. A class has kubelet settings of its own in each version, unless a
/// claim brings others along: then the class is of the same version and still another one.
fn key(class: &EC2NodeClass, claim: &NodeClaim, variant: Variant) -> String {
    let (of_class, of_claim) = (&class.metadata, &claim.metadata);
    let kubelet = &class.spec.kubelet;
    let parts = (&of_class.uid, &of_class.resource_version, kubelet, &of_claim.labels, &claim.spec, variant);
    serde_json::to_string(&parts).expect("plain data with string keys")
}

#[cfg(test)]
mod tests {
    use karpenter_api::conversion::KUBELET;
    use karpenter_ec2::Ec2Settings;

    use super::*;
    use crate::own_kubelet::effective;

    #[test]
    fn kubelet_settings_that_a_claim_brings_along_make_another_plan() {
        let class = Arc::new(EC2NodeClass::default());
        let types: InstanceTypes = Arc::from([]);
        let claim = |kubelet: &str| {
            let mut claim = NodeClaim::default();
            claim.metadata.annotations = Some([(KUBELET.to_owned(), kubelet.to_owned())].into());
            claim
        };
        let plans = Plans::default();
        let plan = Plan { types: Vec::new(), capacity_type: "spot", tenancy: "default", templates: Vec::new() };
        let (first, other) = (claim(r#"{"maxPods": 20}"#), claim(r#"{"maxPods": 30}"#));
        let wanted =
            |claim: &NodeClaim| effective(&class, &claim.metadata.annotations, &Ec2Settings::default()).unwrap();
        plans.keep(&wanted(&first), &first, &types, (None, false), Arc::new(plan));
        let found = |claim: &NodeClaim| plans.find(&wanted(claim), claim, &types, (None, false)).is_some();
        assert!(found(&first));
        assert!(!found(&other), "its nodes would get the kubelet settings of another pool");
        assert!(!found(&NodeClaim::default()), "as would those of the class itself");
    }
}
