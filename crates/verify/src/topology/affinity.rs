//! Affinity: a pod must join others in its domain, or be the first of its kind.
//!
//! Being first is no excuse where others end up elsewhere within its reach: such a plan comes true only if the cluster's
//! scheduler happens to look at the pods in the right order.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::Pod;
use karpenter_core::labels::HOSTNAME;
use karpenter_core::pod::PodTerm;

use super::{Settled, matching, spread};
use crate::cluster::{Cluster, Place};
use crate::labels::{canonical, selector_matches, term_covers};
use crate::violation::Violation;

pub(crate) fn judge(cluster: &Cluster<'_>, settled: &[Settled], found: &mut Vec<Violation>) {
    let mut matches: BTreeMap<(&str, &PodTerm), Vec<Settled>> = BTreeMap::new();
    for owner in settled.iter().filter(|s| s.planned) {
        let pod = cluster.pod(owner.pod);
        for term in &pod.shape.required_pod_affinity {
            let company = matches
                .entry((&pod.namespace, term))
                .or_insert_with(|| matching(cluster, settled, &pod.namespace, term));
            found.extend(one_term(cluster, owner, term, company));
        }
    }
}

fn one_term(cluster: &Cluster<'_>, owner: &Settled, term: &PodTerm, company: &[Settled]) -> Option<Violation> {
    let key = canonical(&cluster.world.vocabulary, &term.topology_key);
    let pod = cluster.pod(owner.pod);
    let (name, node) = (cluster.pod_name(owner.pod), cluster.name(owner.place));
    let mine = cluster.domains(owner.place, key);
    if mine.is_empty() {
        return Some(Violation::NoDomain { pod: name, node, key: key.to_owned() });
    }
    let others = || company.iter().filter(|other| other.pod != owner.pod);
    // On one node they are together, wherever that will be.
    let beside = others().any(|other| other.place == owner.place);
    // Wherever it ends up, somebody is expected there.
    let expected: BTreeSet<&str> = others().filter_map(|other| cluster.expected_domain(other.place, key)).collect();
    if beside || mine.is_subset(&expected) {
        return None;
    }
    if cluster.expected_domain(owner.place, key).is_some_and(|domain| expected.contains(domain)) {
        // It would join them if its launch went as planned, and only then.
        let domains = mine.into_iter().map(str::to_owned).collect();
        return Some(Violation::Undecided { pod: name, node, key: key.to_owned(), domains });
    }
    let counts_itself = term_covers(cluster.world, &pod.namespace, term, &pod.namespace)
        && selector_matches(term.selector.as_ref(), &pod.shape.labels);
    let within_reach = |domain: &&str| key == HOSTNAME || reachable(cluster, pod, owner.place, key, domain);
    if counts_itself && !expected.iter().any(within_reach) {
        return None;
    }
    let company_in = expected.into_iter().map(str::to_owned).collect();
    Some(Violation::NoCompany { pod: name, node, key: key.to_owned(), company_in })
}

/// Whether the pod's own hard constraints would let it go to the domain.
fn reachable(cluster: &Cluster<'_>, pod: &Pod, place: Place, key: &str, domain: &str) -> bool {
    let terms = spread::active_terms(cluster, pod, place);
    terms.into_iter().any(|term| spread::strictly_allowed(cluster, pod, term, key, domain))
}
