//! The NodeClaim for a new node of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_api::conversion;
use karpenter_api::labels as api_labels;
use karpenter_api::nodeclaim::ResourceRequirements;
use karpenter_api::requirement::NodeSelectorRequirement;
use karpenter_api::{NODEPOOL_HASH_VERSION, NodeClaim, NodePool, Quantity, nodepool_hash};
use karpenter_core::labels::{CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, Labels, REGISTERED, Vocabulary};
use karpenter_core::plan::NewNode;
use karpenter_core::requirement::Requirement;
use karpenter_core::requirements::Requirements;
use karpenter_core::{Offering, Pool};

use crate::amounts::shown;

/// As it is sent to an API server, which names it. `object` is what `pool` was reduced from when the pass began: a pool
/// that is edited meanwhile still gives claims with its old hash, so that drift finds them.
pub fn node_claim(pool: &Pool, object: &NodePool, node: &NewNode) -> NodeClaim {
    let mut claim = of_template(object, node.labels.clone());
    let relaxed = (api_labels::MIN_VALUES_RELAXED.to_owned(), node.min_values_relaxed.to_string());
    claim.metadata.annotations.get_or_insert_default().extend([relaxed]);
    claim.spec.requirements = written(&narrowed(pool, node));
    let requests = shown(&node.requests).into_iter().map(|(name, text)| (name, Quantity(text))).collect();
    claim.spec.resources = Some(ResourceRequirements { requests: Some(requests) });
    claim
}

/// A claim that no pod asked for, of a static pool: what the template says, and the provider chooses.
pub fn static_claim(pool: &Pool, object: &NodePool, words: &Vocabulary) -> NodeClaim {
    let (requirements, labels) = karpenter_scheduling::bare_claim(pool, words);
    let mut claim = of_template(object, labels);
    claim.spec.requirements = written(&requirements);
    claim
}

fn of_template(object: &NodePool, labels: Labels) -> NodeClaim {
    let (template, name) = (&object.spec.template, object.metadata.name.as_deref().unwrap_or_default());
    let mut claim = NodeClaim::default();
    claim.metadata.generate_name = Some(format!("{name}-"));
    // Nothing is launched without it; a claim that is born with it saves a write.
    claim.metadata.finalizers = Some(vec![api_labels::TERMINATION_FINALIZER.to_owned()]);
    claim.metadata.labels = Some(labels);
    claim.metadata.annotations = Some(annotations(object));
    claim.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodePool".to_owned(),
        name: name.to_owned(),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }]);
    claim.spec.taints = template.spec.taints.clone();
    claim.spec.startup_taints = template.spec.startup_taints.clone();
    claim.spec.node_class_ref = template.spec.node_class_ref.clone();
    claim.spec.termination_grace_period = template.spec.termination_grace_period.clone();
    claim.spec.expire_after = template.spec.expire_after.clone();
    claim
}

fn annotations(pool: &NodePool) -> BTreeMap<String, String> {
    let own = pool.spec.template.annotations().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut all: BTreeMap<String, String> = own.collect();
    // Kubelet settings from the days of v1beta1 are the pool's own, and its nodes get them.
    let kubelet = pool.metadata.annotations.as_ref().and_then(|given| given.get_key_value(conversion::KUBELET));
    all.extend(kubelet.map(|(key, value)| (key.clone(), value.clone())));
    all.insert(api_labels::NODEPOOL_HASH.to_owned(), nodepool_hash(pool));
    all.insert(api_labels::NODEPOOL_HASH_VERSION.to_owned(), NODEPOOL_HASH_VERSION.to_owned());
    all
}

/// The claim's requirements with the types it may become and the capacity types in which those can be bought, without
/// what only the simulation knows.
fn narrowed(pool: &Pool, node: &NewNode) -> Requirements {
    let mut requirements = node.requirements.clone();
    requirements.0.retain(|key, _| ![HOSTNAME, REGISTERED, INITIALIZED].contains(&&**key));
    let types = node.instance_types.iter().map(|position| &pool.instance_types[*position]);
    let capacity_types = capacity_types(&requirements, types.clone().flat_map(|it| &it.offerings));
    let min_values = |key: &str| requirements.0.get(key).and_then(|requirement| requirement.min_values);
    let (of_types, of_capacity) = (min_values(INSTANCE_TYPE), min_values(CAPACITY_TYPE));
    let names: Vec<&str> = types.map(|it| &*it.name).collect();
    let exactly = |values: Vec<&str>, min_values| Requirement { min_values, ..Requirement::one_of(values) };
    requirements.0.insert(INSTANCE_TYPE.into(), exactly(names, of_types));
    if !capacity_types.is_empty() {
        let values = capacity_types.iter().map(|text| &**text).collect();
        requirements.0.insert(CAPACITY_TYPE.into(), exactly(values, of_capacity));
    }
    requirements
}

/// The capacity types of offerings that are available and compatible. Hundreds of types share a dozen combinations of
/// zone and capacity type, so each combination is compared once.
fn capacity_types<'a>(
    requirements: &Requirements,
    offerings: impl Iterator<Item = &'a Offering>,
) -> BTreeSet<Arc<str>> {
    let mut seen: BTreeSet<Vec<Option<Arc<str>>>> = BTreeSet::new();
    let mut found = BTreeSet::new();
    for offering in offerings.filter(|offering| offering.available) {
        let Some(capacity_type) = offering.capacity_type() else { continue };
        let reservation = offering.reservation.as_ref().map(|reservation| reservation.id.clone());
        let combination = vec![offering.zone(), Some(capacity_type.clone()), reservation];
        if !found.contains(&capacity_type) && seen.insert(combination) && requirements.overlaps(&offering.requirements)
        {
            found.insert(capacity_type);
        }
    }
    found
}

fn written(requirements: &Requirements) -> Vec<NodeSelectorRequirement> {
    let expressions = requirements.iter().flat_map(|(key, requirement)| requirement.to_expressions(key));
    expressions
        .map(|expression| NodeSelectorRequirement {
            key: expression.key.to_string(),
            operator: expression.operator.as_str().to_owned(),
            values: (!expression.values.is_empty())
                .then(|| expression.values.iter().map(ToString::to_string).collect()),
            min_values: expression.min_values.map(i64::from),
        })
        .collect()
}

#[cfg(test)]
mod tests;
