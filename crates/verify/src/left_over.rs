//! Pods that were left over although nothing stood in their way.

use karpenter_core::plan::Reason;
use karpenter_core::{Pod, Taint};

use crate::amounts::Amounts;
use crate::cluster::Cluster;
use crate::existing::{one_pod, taken, too_many_volumes};
use crate::fresh::clash;
use crate::topology::{Settled, everybody};
use crate::violation::Violation;
use crate::weights::{alone, coupled, has_wishes};
use crate::{tolerations, waiting};

/// Only pods that other pods have no say about, and only what is plain to see: room on a node that exists once the plan
/// is carried out, or a fresh node for the pod alone.
pub(crate) fn judge(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    if cluster.plan.left_over.is_empty() {
        return;
    }
    let everybody = everybody(cluster);
    for left in &cluster.plan.left_over {
        let pod = cluster.pod(left.pod);
        let deferred = left.reason == Reason::ReservedCapacityDeferred;
        let waits = cluster.waiting[left.pod].is_some() && waiting::invalid(cluster.world, pod).is_none();
        if deferred || !waits || coupled(cluster, &everybody, pod) || avoided_on_hosts(cluster, &everybody, pod) {
            continue;
        }
        // Alternatives are given up before wishes and before soft taints are put up with, so there those decide.
        let choosy = pod.shape.required_node_affinity.len() > 1;
        if choosy && has_wishes(pod) {
            continue;
        }
        let welcome = |taints: &[Taint]| !choosy || tolerations::all(taints, &pod.shape.tolerations);
        let nodes = 0..cluster.world.nodes.len();
        let mut nodes = nodes.filter(|node| welcome(&cluster.world.nodes[*node].taints));
        let node = nodes.find(|node| has_room(cluster, *node, pod));
        let mut pools = cluster.world.pools.iter().filter(|pool| welcome(&pool.taints));
        let mut pool = || pools.find(|pool| alone(cluster, pod, pool));
        let fits = match node {
            Some(node) => Some(cluster.world.nodes[node].name.to_string()),
            None => pool().map(|pool| format!("a new node of pool {}", pool.name)),
        };
        if let Some(fits) = fits {
            found.push(Violation::LeftOver { pod: cluster.pod_name(left.pod), fits });
        }
    }
}

/// Somebody keeps it off his host; which host that is shall not matter here.
fn avoided_on_hosts(cluster: &Cluster<'_>, everybody: &[Settled], pod: &Pod) -> bool {
    use crate::labels::{selector_matches, term_covers};
    everybody.iter().any(|s| {
        let owner = cluster.pod(s.pod);
        owner.shape.required_pod_anti_affinity.iter().any(|term| {
            term_covers(cluster.world, &owner.namespace, term, &pod.namespace)
                && selector_matches(term.selector.as_ref(), &pod.shape.labels)
        })
    })
}

fn has_room(cluster: &Cluster<'_>, node: usize, pod: &Pod) -> bool {
    let is = &cluster.world.nodes[node];
    let beside: Vec<&Pod> = cluster.added(node).iter().map(|pod| cluster.pod(*pod)).collect();
    let mut with_pod = beside.clone();
    with_pod.push(pod);
    let clashes = beside.iter().any(|other| clash(&other.shape.host_ports, &pod.shape.host_ports));
    let mut wanted = taken(cluster, node);
    with_pod.iter().for_each(|pod| wanted.add(&pod.shape.requests));
    // A node that is short of anything is left alone, even by pods that do not ask for it.
    let fits = wanted.first_over(&Amounts::of(&is.allocatable)).is_none()
        && is.allocatable.0.values().all(|quantity| quantity.nanos() >= 0);
    !is.deleting
        && fits
        && !clashes
        && one_pod(cluster, node, pod).is_empty()
        && too_many_volumes(cluster, node, &with_pod).is_empty()
}
