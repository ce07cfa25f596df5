//! Heavier pools come first, and what one pod alone could have had.

use std::collections::BTreeSet;

use karpenter_core::labels::HOSTNAME;
use karpenter_core::{Pod, Pool, Requirements};

use crate::amounts::{Amounts, allocatable};
use crate::claim::{possible, template_labels};
use crate::cluster::Cluster;
use crate::fresh::clash;
use crate::labels::{canonical, holds, selector_matches, selects_node, term_covers};
use crate::topology::{Settled, everybody, spreads};
use crate::violation::Violation;
use crate::{daemons, tolerations, volumes};

/// A node must not come from a pool when a heavier one without limits could have taken each of its pods alone. Pods that
/// anything couples to others, or that have wishes, are not judged: there company may have decided.
pub(crate) fn judge(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    let everybody = everybody(cluster);
    let depends = |pod: &Pod| has_wishes(pod) || has_needs_of_its_own(pod) || coupled(cluster, &everybody, pod);
    for claim in &cluster.claims {
        let pods: Vec<&Pod> = claim.node.pods.iter().map(|pod| cluster.pod(*pod)).collect();
        if pods.is_empty() || pods.iter().any(|pod| depends(pod)) {
            continue;
        }
        let takes_all = |pool: &&Pool| {
            let soft = |pod: &&Pod| tolerations::all(&pool.taints, &pod.shape.tolerations);
            pool.weight > claim.pool.weight && pods.iter().all(|pod| soft(pod) && alone(cluster, pod, pool))
        };
        if let Some(heavier) = cluster.world.pools.iter().find(takes_all) {
            found.push(Violation::LighterPool {
                node: claim.name.clone(),
                pool: claim.pool.name.to_string(),
                heavier: heavier.name.to_string(),
            });
        }
    }
}

fn has_needs_of_its_own(pod: &Pod) -> bool {
    let shape = &pod.shape;
    shape.required_node_affinity.len() > 1 || !shape.host_ports.is_empty() || !pod.claims.is_empty()
}

/// Whether it asks for something it can do without.
pub(crate) fn has_wishes(pod: &Pod) -> bool {
    let shape = &pod.shape;
    !shape.preferred_node_affinity.is_empty()
        || !shape.preferred_pod_affinity.is_empty()
        || !shape.preferred_pod_anti_affinity.is_empty()
        || !shape.spread.is_empty()
}

/// Whether other pods have a say in where this one goes.
pub(crate) fn coupled(cluster: &Cluster<'_>, everybody: &[Settled], pod: &Pod) -> bool {
    let shape = &pod.shape;
    let avoided = |s: &Settled| {
        let owner = cluster.pod(s.pod);
        owner.shape.required_pod_anti_affinity.iter().any(|term| {
            canonical(&cluster.world.vocabulary, &term.topology_key) != HOSTNAME
                && term_covers(cluster.world, &owner.namespace, term, &pod.namespace)
                && selector_matches(term.selector.as_ref(), &shape.labels)
        })
    };
    !shape.required_pod_affinity.is_empty()
        || !shape.required_pod_anti_affinity.is_empty()
        || !spreads(cluster.world, pod).is_empty()
        || everybody.iter().any(avoided)
}

/// Whether a fresh node of the pool could run the pod and nothing else but its daemons. Pools with limits, minValues,
/// custom requirements or reservations are passed over: there more than the pod decides.
pub(crate) fn alone(cluster: &Cluster<'_>, pod: &Pod, pool: &Pool) -> bool {
    let (world, words) = (cluster.world, &cluster.world.vocabulary);
    let custom = |key: &str| !words.well_known.contains(canonical(words, key));
    let depends = |e: &karpenter_core::requirement::Expression| e.min_values.is_some() || custom(&e.key);
    let reserved = pool.instance_types.iter().flat_map(|kind| &kind.offerings).any(|o| o.reservation.is_some());
    if !pool.limits.0.is_empty() || reserved || pool.requirements.iter().any(depends) {
        return false;
    }
    if tolerations::hard(&pool.taints, &pod.shape.tolerations).is_some() {
        return false;
    }
    let labels = template_labels(world, pool);
    let anything = Requirements::default();
    let keys = all_keys(cluster, pod, pool);
    pool.instance_types.iter().any(|kind| {
        let of_pool: Vec<_> = possible("alone", &labels, kind, &anything, &keys)
            .into_iter()
            .filter(|on| pool.requirements.iter().all(|e| holds(words, e, on)))
            .filter(|on| labels.iter().all(|(key, value)| on.label_of(key) == Some(value)))
            .collect();
        // Daemons are counted wherever the pool could put the type, not only where this pod would go.
        let running = |d: &&daemons::Daemon<'_>| of_pool.iter().any(|on| d.runs_on(world, &pool.taints, on));
        let running: Vec<_> = cluster.daemons.iter().filter(running).copied().collect();
        let mut wanted = daemons::requests(running.iter().copied());
        wanted.add_amounts(&Amounts::of(&pod.shape.requests));
        let room = allocatable(kind);
        let negative = room.0.values().any(|nanos| *nanos < 0);
        let fits = !negative && wanted.first_over(&room).is_none();
        let free = !running.iter().any(|d| clash(&d.shape.host_ports, &pod.shape.host_ports));
        let suits = |on: &crate::claim::Possible<'_>| {
            selects_node(words, &pod.shape, on) && volumes::out_of_reach(world, pod, on).is_none()
        };
        fits && free && of_pool.iter().any(suits)
    })
}

fn all_keys<'w>(cluster: &Cluster<'w>, pod: &'w Pod, pool: &'w Pool) -> BTreeSet<&'w str> {
    let words = &cluster.world.vocabulary;
    let terms = pod.shape.required_node_affinity.iter().flat_map(|term| &term.expressions);
    let expressions = terms.chain(&pool.requirements).map(|e| &*e.key);
    let selected = pod.shape.node_selector.keys().map(String::as_str);
    let daemons = cluster.daemons.iter().flat_map(daemons::Daemon::keys);
    let volumes = volumes::keys(cluster.world, pod);
    let all = expressions.chain(selected).chain(daemons).chain(volumes);
    all.map(|key| canonical(words, key)).collect()
}
