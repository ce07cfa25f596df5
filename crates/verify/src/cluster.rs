//! The state a plan leads to: what runs, what is planned beside it, and what each node may be.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::plan::Plan;
use karpenter_core::{Pod, Taint, World};

use crate::claim::Claim;
use crate::daemons::{self, Daemon};
use crate::labels;
use crate::waiting::{self, Waiting};

/// Where a pod is or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// In `World::nodes`.
    Existing(usize),
    /// In `Plan::new_nodes`.
    New(usize),
}

pub(crate) struct Cluster<'w> {
    pub(crate) world: &'w World,
    pub(crate) plan: &'w Plan,
    /// Of each pod of the world.
    pub(crate) waiting: Vec<Option<Waiting>>,
    /// Of each node of the world: pods that run there and stay.
    pub(crate) bound: Vec<Vec<usize>>,
    /// Of each node of the world, under canonical keys.
    pub(crate) node_labels: Vec<BTreeMap<&'w str, &'w str>>,
    /// Of each new node.
    pub(crate) claims: Vec<Claim<'w>>,
    pub(crate) daemons: Vec<Daemon<'w>>,
}

impl<'w> Cluster<'w> {
    pub(crate) fn new(world: &'w World, plan: &'w Plan) -> Self {
        let waiting: Vec<_> = world.pods.iter().map(|pod| waiting::waiting(world, pod)).collect();
        let by_name: BTreeMap<&str, usize> = world.nodes.iter().enumerate().map(|(i, n)| (&*n.name, i)).collect();
        let mut bound = vec![Vec::new(); world.nodes.len()];
        for (i, pod) in world.pods.iter().enumerate() {
            let node = pod.node.as_ref().and_then(|name| by_name.get(&**name));
            if let Some(node) = node
                && waiting[i].is_none()
                && !waiting::is_terminal(pod)
            {
                bound[*node].push(i);
            }
        }
        let daemons = daemons::of(world);
        let keys = topology_keys(world);
        let claims = plan.new_nodes.iter().enumerate();
        Self {
            world,
            plan,
            waiting,
            bound,
            node_labels: world.nodes.iter().map(|node| labels::of_node(world, node)).collect(),
            claims: claims.map(|(i, new)| Claim::new(world, new, i, &daemons, &keys)).collect(),
            daemons,
        }
    }

    pub(crate) fn placements(&self) -> impl Iterator<Item = (usize, Place)> {
        let new = self.plan.new_nodes.iter().enumerate();
        let new = new.flat_map(|(i, node)| node.pods.iter().map(move |pod| (*pod, Place::New(i))));
        let existing = self.plan.existing.iter();
        new.chain(existing.flat_map(|(i, pods)| pods.iter().map(|pod| (*pod, Place::Existing(*i)))))
    }

    /// Pods planned for an existing node.
    pub(crate) fn added(&self, node: usize) -> &'w [usize] {
        self.plan.existing.get(&node).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn pod(&self, pod: usize) -> &'w Pod {
        &self.world.pods[pod]
    }

    pub(crate) fn pod_name(&self, pod: usize) -> String {
        let pod = self.pod(pod);
        format!("{}/{}", pod.namespace, pod.name)
    }

    pub(crate) fn name(&self, place: Place) -> String {
        match place {
            Place::Existing(node) => self.world.nodes[node].name.to_string(),
            Place::New(node) => self.claims[node].name.clone(),
        }
    }

    pub(crate) fn taints(&self, place: Place) -> &'w [Taint] {
        match place {
            Place::Existing(node) => &self.world.nodes[node].taints,
            Place::New(node) => &self.claims[node].pool.taints,
        }
    }

    /// Values of the key that the node has or, where it is still to be launched, may get.
    pub(crate) fn domains(&self, place: Place, key: &str) -> BTreeSet<&str> {
        match place {
            Place::Existing(node) => self.node_labels[node].get(key).copied().into_iter().collect(),
            Place::New(node) => self.claims[node].domains(key),
        }
    }

    /// The value of the key that the node has, or has if the launch goes as planned.
    pub(crate) fn expected_domain(&self, place: Place, key: &str) -> Option<&str> {
        match place {
            Place::Existing(node) => self.node_labels[node].get(key).copied(),
            Place::New(node) => self.claims[node].launched()?.label_of(key),
        }
    }
}

/// Every key that a rule between pods speaks of, canonical.
fn topology_keys(world: &World) -> BTreeSet<&str> {
    let defaults = world.settings.default_spread.iter().map(|default| default.topology_key.as_str());
    let mut keys: BTreeSet<&str> = defaults.collect();
    for pod in &world.pods {
        let shape = &pod.shape;
        keys.extend(shape.spread.iter().map(|spread| &*spread.topology_key));
        let terms = shape.required_pod_affinity.iter().chain(&shape.required_pod_anti_affinity);
        keys.extend(terms.map(|term| &*term.topology_key));
    }
    keys.into_iter().map(|key| labels::canonical(&world.vocabulary, key)).collect()
}
