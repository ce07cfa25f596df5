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

/// Everything of the two objects that a plan looks at.
fn key(class: &EC2NodeClass, claim: &NodeClaim, variant: Variant) -> String {
    let (of_class, of_claim) = (&class.metadata, &claim.metadata);
    let parts = (&of_class.uid, &of_class.resource_version, &of_claim.labels, &claim.spec, variant);
    serde_json::to_string(&parts).expect("plain data with string keys")
}
