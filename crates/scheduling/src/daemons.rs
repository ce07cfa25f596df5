//! DaemonSet pods: what new nodes and existing ones must keep free for them.

use std::sync::Arc;

use karpenter_core::pod::NodeTerm;
use karpenter_core::taints::{Effect, Taint};
use karpenter_core::{PodShape, Requirements, World};
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::catalog::Catalog;
use crate::columns::{Amounts, ResourceNames};
use crate::terms::{SetId, Terms};

/// A DaemonSet as its next pod will be.
#[derive(Clone)]
pub(crate) struct Daemon {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) requests: Amounts,
    /// Alternatives of its node selection.
    pub(crate) alternatives: Vec<SetId>,
}

/// Represented by its newest pod, which shows what admission made of the template, or by the template. Live pods are
/// pinned to their own node, so the template's required affinity takes the place of theirs.
pub(crate) fn compile(world: &World, terms: &mut Terms, names: &mut ResourceNames) -> Vec<Daemon> {
    let mut newest: FxHashMap<&str, usize> = FxHashMap::default();
    for (index, pod) in world.pods.iter().enumerate() {
        for owner in pod.owners.iter().filter(|owner| &*owner.kind == "DaemonSet" && owner.controller) {
            let seen = newest.entry(&owner.uid).or_insert(index);
            let other = &world.pods[*seen];
            if (pod.created, &pod.name) > (other.created, &other.name) {
                *seen = index;
            }
        }
    }
    let mut daemons = Vec::new();
    for set in &world.daemon_sets {
        let observed = newest.get(&*set.uid).map(|index| &world.pods[*index].shape);
        let shape = observed.unwrap_or(&set.template).clone();
        if world.settings.ignore_device_requests && shape.wants_devices {
            continue;
        }
        let required = if set.required_node_affinity.is_empty() {
            shape.required_node_affinity.clone()
        } else {
            set.required_node_affinity.clone()
        };
        let alternatives = alternatives(&shape, &required, terms);
        daemons.push(Daemon { requests: names.amounts(&shape.requests), alternatives, shape });
    }
    daemons
}

/// The node selector with each required term; the selector alone where there is none.
pub(crate) fn alternatives(shape: &PodShape, required: &[NodeTerm], terms: &mut Terms) -> Vec<SetId> {
    let words = terms.vocabulary().clone();
    let selector = Requirements::from_labels(&shape.node_selector, &words);
    if required.is_empty() {
        return vec![terms.set(&selector)];
    }
    let with = |term: &NodeTerm| {
        let mut set = selector.clone();
        set.add_all(&Requirements::from_expressions(&term.expressions, &words));
        set
    };
    required.iter().map(|term| terms.set(&with(term))).collect()
}

impl Daemon {
    /// Soft taints never keep a daemon away.
    pub(crate) fn tolerates(&self, taints: &[Taint]) -> bool {
        taints
            .iter()
            .filter(|taint| taint.effect != Effect::PreferNoSchedule)
            .all(|taint| self.shape.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
    }

    /// The types of a template on which it will run; every alternative is tried for each.
    pub(crate) fn types(&self, base: SetId, taints: &[Taint], catalog: &mut Catalog, terms: &mut Terms) -> Bits {
        let mut runs = Bits::zeros(catalog.len());
        if self.tolerates(taints) {
            for set in &self.alternatives {
                if terms.compatible(base, *set, true) {
                    runs.or(&catalog.usable(*set, terms).by_requirements);
                }
            }
        }
        runs
    }

    /// Whether it runs on a node with these labels and taints, nothing permitted undefined.
    pub(crate) fn runs_on(&self, node: SetId, taints: &[Taint], terms: &mut Terms) -> bool {
        self.tolerates(taints) && self.alternatives.iter().any(|set| terms.compatible(node, *set, false))
    }
}
