//! Node and pod affinity.

use k8s_openapi::api::core::v1 as core_v1;
use karpenter_core::PodShape;
use karpenter_core::pod::{PodTerm, Weighted};

use super::expressions::node_term;
use super::selector;

pub(super) fn affinity(wire: &core_v1::Affinity, shape: &mut PodShape) {
    if let Some(node) = &wire.node_affinity {
        let required = node.required_during_scheduling_ignored_during_execution.iter();
        shape.required_node_affinity =
            required.flat_map(|selector| &selector.node_selector_terms).map(node_term).collect();
        let preferred = node.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        shape.preferred_node_affinity =
            preferred.map(|p| Weighted { weight: p.weight, term: node_term(&p.preference) }).collect();
    }
    if let Some(near) = &wire.pod_affinity {
        shape.required_pod_affinity = required(near.required_during_scheduling_ignored_during_execution.as_ref());
        shape.preferred_pod_affinity = preferred(near.preferred_during_scheduling_ignored_during_execution.as_ref());
    }
    if let Some(far) = &wire.pod_anti_affinity {
        shape.required_pod_anti_affinity = required(far.required_during_scheduling_ignored_during_execution.as_ref());
        shape.preferred_pod_anti_affinity =
            preferred(far.preferred_during_scheduling_ignored_during_execution.as_ref());
    }
}

fn required(terms: Option<&Vec<core_v1::PodAffinityTerm>>) -> Vec<PodTerm> {
    terms.into_iter().flatten().map(pod_term).collect()
}

fn preferred(terms: Option<&Vec<core_v1::WeightedPodAffinityTerm>>) -> Vec<Weighted<PodTerm>> {
    let weighted = |term: &core_v1::WeightedPodAffinityTerm| Weighted {
        weight: term.weight,
        term: pod_term(&term.pod_affinity_term),
    };
    terms.into_iter().flatten().map(weighted).collect()
}

fn pod_term(wire: &core_v1::PodAffinityTerm) -> PodTerm {
    PodTerm {
        topology_key: wire.topology_key.as_str().into(),
        selector: wire.label_selector.as_ref().map(selector),
        namespaces: wire.namespaces.iter().flatten().map(|name| name.as_str().into()).collect(),
        namespace_selector: wire.namespace_selector.as_ref().map(selector),
    }
}
