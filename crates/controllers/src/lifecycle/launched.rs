//! What this process launched: between the provider's answer and the write that stores it, memory is all there is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_api::NodeClaim;
use karpenter_provider::Machine;

/// Far longer than any write is retried.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);

/// Machines by the UID of their claim.
#[derive(Debug, Default)]
pub struct Launched(Mutex<BTreeMap<String, (Arc<Machine>, Timestamp)>>);

impl Launched {
    pub fn remember(&self, claim: &NodeClaim, machine: Machine, now: Timestamp) -> Arc<Machine> {
        let machine = Arc::new(machine);
        let mut all = self.all();
        all.retain(|_, (_, since)| now.duration_since(*since) < REMEMBERED);
        all.insert(uid(claim), (machine.clone(), now));
        machine
    }

    pub fn get(&self, claim: &NodeClaim) -> Option<Arc<Machine>> {
        self.all().get(&uid(claim)).map(|(machine, _)| machine.clone())
    }

    pub fn forget(&self, claim: &NodeClaim) {
        self.all().remove(&uid(claim));
    }

    /// The provider ids that no claim may hold yet.
    pub fn provider_ids(&self) -> Vec<String> {
        self.all().values().map(|(machine, _)| machine.provider_id.clone()).collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, (Arc<Machine>, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn uid(claim: &NodeClaim) -> String {
    claim.metadata.uid.clone().unwrap_or_default()
}
