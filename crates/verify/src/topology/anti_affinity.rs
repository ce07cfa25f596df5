//! Anti-affinity: what a pod must not meet is out of reach in every domain its node may get, whoever declared it.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::pod::PodTerm;

use super::{Settled, matching};
use crate::cluster::Cluster;
use crate::labels::canonical;
use crate::violation::Violation;

/// A pod on its way out is no company any more, but as long as it runs nobody may come near whom it avoids.
pub(crate) fn judge(cluster: &Cluster<'_>, everybody: &[Settled], staying: &[Settled], found: &mut Vec<Violation>) {
    type Meeting<'c> = BTreeMap<&'c str, Vec<Settled>>;
    let mut meetings: BTreeMap<(&str, &PodTerm), Meeting<'_>> = BTreeMap::new();
    let mut reported = BTreeSet::new();
    for owner in everybody {
        let pod = cluster.pod(owner.pod);
        for term in &pod.shape.required_pod_anti_affinity {
            let key = canonical(&cluster.world.vocabulary, &term.topology_key);
            let by_domain = meetings.entry((&pod.namespace, term)).or_insert_with(|| {
                let mut by_domain = Meeting::new();
                for other in matching(cluster, staying, &pod.namespace, term) {
                    for domain in cluster.domains(other.place, key) {
                        by_domain.entry(domain).or_default().push(other);
                    }
                }
                by_domain
            });
            for domain in cluster.domains(owner.place, key) {
                let there = by_domain.get(domain).into_iter().flatten();
                // What both ran before the plan is not the plan's doing.
                for other in there.filter(|o| o.pod != owner.pod && (o.planned || owner.planned)) {
                    let pair = (owner.pod.min(other.pod), owner.pod.max(other.pod), key);
                    if reported.insert(pair) {
                        found.push(Violation::UnwantedCompany {
                            owner: cluster.pod_name(owner.pod),
                            other: cluster.pod_name(other.pod),
                            key: key.to_owned(),
                            domain: domain.to_owned(),
                        });
                    }
                }
            }
        }
    }
}
