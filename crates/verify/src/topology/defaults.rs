//! The spread constraints a pod has: its own, or those of the cluster.

use karpenter_core::pod::{Owner, Spread};
use karpenter_core::selector::{Selector, SelectorExpression, SelectorOperator};
use karpenter_core::{Labels, Pod, World};

/// A pod with constraints of its own gets no others; one whose company cannot be told gets none.
pub(crate) fn spreads(world: &World, pod: &Pod) -> Vec<Spread> {
    if !pod.shape.spread.is_empty() || world.settings.default_spread.is_empty() {
        return pod.shape.spread.clone();
    }
    let Some(selector) = company(world, pod) else { return Vec::new() };
    let defaults = world.settings.default_spread.iter();
    defaults
        .map(|default| Spread {
            topology_key: default.topology_key.as_str().into(),
            max_skew: default.max_skew,
            min_domains: default.min_domains,
            when: default.when,
            selector: Some(selector.clone()),
            match_label_keys: Vec::new(),
            node_affinity: default.node_affinity,
            node_taints: default.node_taints,
        })
        .collect()
}

/// What Services and the controlling owner select the pod by.
fn company(world: &World, pod: &Pod) -> Option<Selector> {
    let mut equal: Labels = Labels::new();
    let services = world.services.iter().filter(|service| service.namespace == pod.namespace);
    for selector in services.filter_map(|service| service.selector.as_ref()) {
        if selector.iter().all(|(key, value)| pod.shape.labels.get(key) == Some(value)) {
            equal.extend(selector.clone());
        }
    }
    let kinds = [("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")];
    let selects = |owner: &&Owner| owner.controller && kinds.contains(&(&*owner.api_version, &*owner.kind));
    let owner = pod.owners.iter().find(selects);
    let theirs = owner.and_then(|owner| world.workload_selectors.get(&owner.uid));
    let replaces = owner.is_some_and(|owner| &*owner.kind == "ReplicationController");
    let mut on_top = Vec::new();
    for expression in theirs.iter().flat_map(|selector| selector.expressions()) {
        match (&expression.operator, expression.values.as_slice()) {
            (SelectorOperator::In, [value]) if replaces => {
                equal.insert(expression.key.clone(), value.clone());
            }
            (_, _) => on_top.push(expression.clone()),
        }
    }
    if equal.is_empty() && on_top.is_empty() {
        return None;
    }
    let equal = equal.into_iter().map(|(key, value)| SelectorExpression {
        key,
        operator: SelectorOperator::In,
        values: vec![value],
    });
    Some(Selector::new(equal.chain(on_top)))
}
