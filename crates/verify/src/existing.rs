//! Nodes that exist: what is planned for them must fit beside what runs there and what is still to come.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::Pod;

use crate::amounts::Amounts;
use crate::cluster::{Cluster, Place};
use crate::fresh::{clash, ports_among};
use crate::labels::selects_node;
use crate::violation::Violation;
use crate::{daemons, tolerations, volumes};

pub(crate) fn judge(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for (&node, pods) in &cluster.plan.existing {
        if pods.is_empty() {
            continue;
        }
        if cluster.world.nodes[node].deleting {
            found.push(Violation::OnDeletingNode { node: cluster.name(Place::Existing(node)) });
        }
        let pods: Vec<&Pod> = pods.iter().map(|pod| cluster.pod(*pod)).collect();
        pods.iter().for_each(|pod| found.extend(one_pod(cluster, node, pod)));
        found.extend(overfull(cluster, node, &pods));
        found.extend(too_many_volumes(cluster, node, &pods));
        ports_among(&cluster.world.nodes[node].name, &pods, found);
    }
}

/// What keeps this pod off this node, whoever else comes.
pub(crate) fn one_pod(cluster: &Cluster<'_>, node: usize, pod: &Pod) -> Vec<Violation> {
    let (world, is) = (cluster.world, &cluster.world.nodes[node]);
    let labels = &cluster.node_labels[node];
    let name = || format!("{}/{}", pod.namespace, pod.name);
    let mut found = Vec::new();
    if let Some(taint) = tolerations::hard(&is.taints, &pod.shape.tolerations) {
        let taint = taint.to_string();
        found.push(Violation::Untolerated { pod: name(), node: is.name.to_string(), taint });
    }
    if !selects_node(&world.vocabulary, &pod.shape, labels) {
        let as_it_may_be = "it is".to_owned();
        found.push(Violation::NotSelected { pod: name(), node: is.name.to_string(), as_it_may_be });
    }
    if let Some(claim) = volumes::out_of_reach(world, pod, labels) {
        let (node, claim) = (is.name.to_string(), claim.to_owned());
        let as_it_may_be = "it is".to_owned();
        found.push(Violation::VolumeOutOfReach { pod: name(), claim, node, as_it_may_be });
    }
    for bound in &cluster.bound[node] {
        let other = cluster.pod(*bound);
        if clash(&pod.shape.host_ports, &other.shape.host_ports) {
            let (node, other) = (is.name.to_string(), cluster.pod_name(*bound));
            found.push(Violation::PortClash { node, pod: name(), other });
        }
    }
    found
}

/// What runs on the node, and what its daemons will still add: never less than nothing, or daemons that came
/// unexpectedly would make room.
pub(crate) fn taken<'w>(cluster: &Cluster<'w>, node: usize) -> Amounts<'w> {
    let is = &cluster.world.nodes[node];
    let labels = &cluster.node_labels[node];
    let coming = cluster.daemons.iter().filter(|d| d.runs_on(cluster.world, &is.taints, labels));
    let mut still_to_come = daemons::requests(coming.copied());
    let mut taken = Amounts::default();
    for bound in &cluster.bound[node] {
        let pod = cluster.pod(*bound);
        taken.add(&pod.shape.requests);
        let daemon = pod.owners.iter().any(|o| &*o.api_version == "apps/v1" && &*o.kind == "DaemonSet");
        if daemon {
            for (name, quantity) in &pod.shape.requests.0 {
                if let Some(rest) = still_to_come.0.get_mut(&**name) {
                    *rest -= quantity.nanos();
                }
            }
        }
    }
    still_to_come.0.values_mut().for_each(|rest| *rest = (*rest).max(0));
    taken.add_amounts(&still_to_come);
    taken
}

/// Only what the pods ask for matters: a node that is short of something else keeps nobody away.
fn overfull(cluster: &Cluster<'_>, node: usize, pods: &[&Pod]) -> Option<Violation> {
    let mut added = Amounts::default();
    pods.iter().for_each(|pod| added.add(&pod.shape.requests));
    let taken = taken(cluster, node);
    let mut wanted = added.clone();
    for (name, nanos) in &mut wanted.0 {
        if *nanos > 0 {
            *nanos += taken.get(name);
        }
    }
    let is = &cluster.world.nodes[node];
    let (resource, wanted, allocatable) = wanted.first_over(&Amounts::of(&is.allocatable))?;
    Some(Violation::Overfull {
        node: is.name.to_string(),
        as_it_may_be: "it is".to_owned(),
        resource: resource.to_owned(),
        wanted,
        allocatable,
    })
}

/// A claim that several pods use is attached once.
pub(crate) fn too_many_volumes(cluster: &Cluster<'_>, node: usize, pods: &[&Pod]) -> Vec<Violation> {
    let is = &cluster.world.nodes[node];
    let mut attached: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    let bound = cluster.bound[node].iter().map(|pod| (cluster.pod(*pod), false));
    for (pod, new) in bound.chain(pods.iter().map(|pod| (*pod, true))) {
        for claim in &*pod.claims {
            if let Some(driver) = volumes::driver(cluster.world, pod, claim) {
                attached.entry(driver).or_default().insert((&pod.namespace, claim));
                if new {
                    asked.insert(driver);
                }
            }
        }
    }
    let over = |driver: &str| {
        let (limit, attached) = (*is.volume_limits.get(driver)?, attached[driver].len());
        (attached > limit as usize).then(|| Violation::TooManyVolumes {
            node: is.name.to_string(),
            driver: driver.to_owned(),
            attached,
            limit,
        })
    };
    asked.into_iter().filter_map(over).collect()
}
