//! What controllers and kubelets of a healthy cluster would have written, where the manifests leave it open.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core_v1;
use karpenter_api::conditions;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::labels::{HOSTNAME, INITIALIZED, NODEPOOL, REGISTERED, ZONE};
use karpenter_core::storage::VolumeClaim;
use karpenter_index::reduce;

/// A pod without a node is waiting and was found unschedulable, unless gates hold it back; one with a node runs.
pub(crate) fn pod(object: &mut core_v1::Pod) {
    let spec = object.spec.get_or_insert_default();
    let bound = spec.node_name.as_deref().is_some_and(|name| !name.is_empty());
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    let status = object.status.get_or_insert_default();
    if status.phase.as_deref().unwrap_or("").is_empty() {
        status.phase = Some(if bound { "Running" } else { "Pending" }.to_owned());
    }
    if !bound && status.conditions.as_ref().is_none_or(Vec::is_empty) {
        status.conditions = Some(vec![core_v1::PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some(if gated { "SchedulingGated" } else { "Unschedulable" }.to_owned()),
            ..core_v1::PodCondition::default()
        }]);
    }
}

/// A claim with its namespace and name.
pub(crate) type NamedClaim = ((Arc<str>, Arc<str>), VolumeClaim);

/// The claims made for a pod's generic ephemeral volumes, by namespace and name.
pub(crate) fn ephemeral_claims(object: &core_v1::Pod, namespace: &Arc<str>) -> Vec<NamedClaim> {
    let name = object.metadata.name.as_deref().unwrap_or("");
    let volumes = object.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claim = |volume: &core_v1::Volume| {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        let made = core_v1::PersistentVolumeClaim { spec: Some(template.spec.clone()), ..Default::default() };
        let key = (namespace.clone(), format!("{name}-{}", volume.name).into());
        Some((key, reduce::volume_claim(&made)))
    };
    volumes.filter_map(claim).collect()
}

/// A node is ready and, if a NodePool made it, registered and initialized, unless its labels say otherwise.
pub(crate) fn node(object: &mut core_v1::Node) {
    let name = object.metadata.name.clone().unwrap_or_default();
    let labels = object.metadata.labels.get_or_insert_default();
    labels.entry(HOSTNAME.to_owned()).or_insert_with(|| name.clone());
    let managed = labels.get(NODEPOOL).is_some_and(|pool| !pool.is_empty());
    if managed && !labels.contains_key(REGISTERED) {
        labels.insert(REGISTERED.to_owned(), "true".to_owned());
        labels.entry(INITIALIZED.to_owned()).or_insert_with(|| "true".to_owned());
    }
    let zone = labels.get(ZONE).cloned().unwrap_or_default();
    let spec = object.spec.get_or_insert_default();
    if spec.provider_id.as_deref().unwrap_or("").is_empty() {
        spec.provider_id = Some(format!("aws:///{zone}/{name}"));
    }
    let conditions = object.status.get_or_insert_default().conditions.get_or_insert_default();
    if conditions.is_empty() {
        let ready = core_v1::NodeCondition { type_: "Ready".into(), status: "True".into(), ..Default::default() };
        conditions.push(ready);
    }
}

/// A claim without conditions has been launched, and so has a machine.
pub(crate) fn node_claim(object: &mut NodeClaim, node: Option<&core_v1::Node>) {
    let name = object.metadata.name.clone().unwrap_or_default();
    let status = object.status.get_or_insert_default();
    let untold = status.conditions.as_ref().is_none_or(Vec::is_empty);
    if status.provider_id.as_deref().unwrap_or("").is_empty() && (untold || node.is_some()) {
        let of_node = node.and_then(reduce::provider_id).map(str::to_owned);
        status.provider_id = Some(of_node.unwrap_or_else(|| format!("aws:///unknown/{name}")));
    }
}

/// A claim without conditions is launched and, if its node exists, initialized, and may be consolidated.
pub(crate) fn conditions(object: &mut NodeClaim, node: Option<&core_v1::Node>, now: Timestamp) {
    if object.status.as_ref().is_some_and(|status| status.conditions.iter().flatten().next().is_some()) {
        return;
    }
    let mut conditions = object.conditions_at(now);
    conditions.set_true(conditions::LAUNCHED);
    if node.is_some() {
        for name in [conditions::REGISTERED, conditions::INITIALIZED, conditions::CONSOLIDATABLE] {
            conditions.set_true(name);
        }
    }
}

/// The claim of a node that is given without one.
pub(crate) fn claim_for(node: &core_v1::Node, pool: &NodePool) -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.name = node.metadata.name.clone();
    claim.metadata.uid = node.metadata.uid.clone();
    claim.metadata.creation_timestamp = node.metadata.creation_timestamp.clone();
    claim.metadata.labels = node.metadata.labels.clone();
    claim.spec.node_class_ref = pool.spec.template.spec.node_class_ref.clone();
    claim.spec.expire_after = pool.spec.template.spec.expire_after.clone();
    claim.spec.taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
    let status = claim.status.get_or_insert_default();
    status.node_name = node.metadata.name.clone();
    status.provider_id = reduce::provider_id(node).map(str::to_owned);
    status.capacity = node.status.as_ref().and_then(|status| status.capacity.clone());
    status.allocatable = node.status.as_ref().and_then(|status| status.allocatable.clone());
    claim
}
