//! What the pods of a DaemonSet really ask for: admission may make more of them than their template says.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::world::DaemonSet;
use karpenter_core::{Pod, PodShape};

/// The newest pod that was seen of each DaemonSet, by the set's uid. It stays when the last pod of a set is gone, as
/// between two nodes.
#[derive(Debug, Default)]
pub(crate) struct Samples(BTreeMap<Arc<str>, Sample>);

#[derive(Debug)]
struct Sample {
    created: Timestamp,
    name: Arc<str>,
    shape: Arc<PodShape>,
}

impl Samples {
    /// Whether this pod is the newest of its set.
    pub(super) fn see(&mut self, pod: &Pod) -> bool {
        let mut news = false;
        for uid in sets_of(pod) {
            let newer = |known: &Sample| (known.created, &known.name) <= (pod.created, &pod.name);
            if self.0.get(uid).is_none_or(newer) {
                let sample = Sample { created: pod.created, name: pod.name.clone(), shape: pod.shape.clone() };
                let before = self.0.insert(uid.clone(), sample);
                news |= before.is_none_or(|before| before.shape != pod.shape);
            }
        }
        news
    }

    pub(super) fn forget(&mut self, set: &str) {
        self.0.remove(set);
    }

    /// The set as its next pod will be.
    pub(crate) fn applied_to(&self, set: &DaemonSet) -> DaemonSet {
        let sample = self.0.get(&set.uid);
        let template = sample.map_or(&set.template, |sample| &sample.shape).clone();
        DaemonSet { template, ..set.clone() }
    }
}

/// The uids of the DaemonSets that control a pod, of which there is at most one.
pub(super) fn sets_of(pod: &Pod) -> impl Iterator<Item = &Arc<str>> {
    let sets = pod.owners.iter().filter(|owner| &*owner.kind == "DaemonSet" && owner.controller);
    sets.map(|owner| &owner.uid)
}
