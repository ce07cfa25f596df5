//! The cluster's default spread constraints, given to pods that have none of their own.

use std::sync::Arc;

use karpenter_core::labels::Labels;
use karpenter_core::pod::{Owner, Pod, Spread};
use karpenter_core::selector::Selector;
use karpenter_core::{PodShape, World};
use rustc_hash::FxHashMap;

pub(crate) struct Defaults<'w> {
    world: &'w World,
    /// Services with a selector, by namespace.
    services: FxHashMap<&'w str, Vec<&'w Labels>>,
    owners: FxHashMap<Arc<str>, u64>,
}

impl<'w> Defaults<'w> {
    pub(crate) fn new(world: &'w World) -> Self {
        let mut services: FxHashMap<&str, Vec<&Labels>> = FxHashMap::default();
        if !world.settings.default_spread.is_empty() {
            for service in &world.services {
                if let Some(selector) = &service.selector {
                    services.entry(&service.namespace).or_default().push(selector);
                }
            }
        }
        Self { world, services, owners: FxHashMap::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.world.settings.default_spread.is_empty()
    }

    /// A number for the owner whose selector matters; pods of one shape and different owners differ by it.
    pub(crate) fn owner_tag(&mut self, pod: &Pod) -> u64 {
        let Some(owner) = selecting_owner(pod) else { return 0 };
        let next = self.owners.len() as u64 + 1;
        *self.owners.entry(owner.uid.clone()).or_insert(next)
    }

    /// The pod's shape with the defaults, all of them or none.
    pub(crate) fn apply(&self, pod: &Pod) -> Arc<PodShape> {
        if self.is_empty() || !pod.shape.spread.is_empty() {
            return pod.shape.clone();
        }
        let Some(selector) = self.selector(pod) else {
            return pod.shape.clone();
        };
        let mut shape = (*pod.shape).clone();
        shape.spread = self
            .world
            .settings
            .default_spread
            .iter()
            .map(|default| Spread {
                topology_key: Arc::from(default.topology_key.as_str()),
                max_skew: default.max_skew,
                min_domains: default.min_domains,
                when: default.when,
                selector: Some(selector.clone()),
                match_label_keys: Vec::new(),
                node_affinity: default.node_affinity,
                node_taints: default.node_taints,
            })
            .collect();
        Arc::new(shape)
    }

    /// The merged selectors of the Services that match the pod, and that of its controlling workload. Nothing where
    /// neither says anything.
    fn selector(&self, pod: &Pod) -> Option<Selector> {
        let mut labels = Labels::new();
        for service in self.services.get(&*pod.namespace).into_iter().flatten() {
            if service.iter().all(|(key, value)| pod.shape.labels.get(key) == Some(value)) {
                labels.extend(service.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        let owner =
            selecting_owner(pod).and_then(|owner| Some((owner, self.world.workload_selectors.get(&owner.uid)?)));
        if let Some((owner, selector)) = owner {
            if &*owner.kind == "ReplicationController" {
                let equalities = selector.expressions().iter().filter(|e| e.values.len() == 1);
                labels.extend(equalities.map(|e| (e.key.clone(), e.values[0].clone())));
            } else {
                return Some(Selector::from_labels(&labels).and(selector.expressions().iter().cloned()));
            }
        }
        (!labels.is_empty()).then(|| Selector::from_labels(&labels))
    }
}

fn selecting_owner(pod: &Pod) -> Option<&Owner> {
    let owner = pod.owners.iter().find(|owner| owner.controller)?;
    let known = [("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")];
    known.contains(&(&*owner.api_version, &*owner.kind)).then_some(owner)
}
