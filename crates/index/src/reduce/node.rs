//! Nodes and NodeClaims: two objects, one machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::storage::v1::CSINode;
use karpenter_api::{NodeClaim, ResourceList};
use karpenter_core::labels::{INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED};
use karpenter_core::node::{Node, Stage};
use karpenter_core::taints::{Taint, is_ephemeral};
use karpenter_core::{Labels, Resources};

use super::{Faults, Read, Reading, Refused, resources, taints};
use crate::path::Path;

/// A node as the scheduler should see it now. `None` where there is nothing to place pods on yet: a claim that is not
/// launched, a managed node whose provider id or instance type is not known.
pub fn node(
    node: Option<&core_v1::Node>,
    claim: Option<&NodeClaim>,
    csi: Option<&CSINode>,
) -> Result<Option<Node>, Refused> {
    read_node(node, claim, csi).strict()
}

/// As [`node`], however well it could be read: it is there. What it has of a resource that cannot be read is nothing.
pub fn read_node(node: Option<&core_v1::Node>, claim: Option<&NodeClaim>, csi: Option<&CSINode>) -> Read<Option<Node>> {
    let nothing = || Read { value: None, reading: Reading::Whole };
    let node = node.filter(|node| claim.is_some() || is_tracked(node));
    let Some(metadata) = node.map(|node| &node.metadata).or(claim.map(|claim| &claim.metadata)) else {
        return nothing();
    };
    if node.is_none() && claim.is_none_or(|claim| claim_provider_id(claim).is_none()) {
        return nothing();
    }
    let mut faults = Faults::default();
    let stage = stage(node, claim);
    // Until it registers, a managed node is what its claim says.
    let face = match (node, claim) {
        (Some(node), Some(claim)) if stage == Stage::Launched => (&claim.metadata, Some(node)),
        _ => (metadata, node),
    };
    let empty = Labels::new();
    let reduced = Node {
        name: face.0.name.as_deref().unwrap_or("").into(),
        claim: claim.and_then(|claim| claim.metadata.name.as_deref()).map(Into::into),
        provider_id: node.and_then(provider_id).or_else(|| claim.and_then(claim_provider_id)).map(Into::into),
        stage,
        has_node: node.is_some(),
        labels: face.0.labels.as_ref().unwrap_or(&empty).clone(),
        taints: effective_taints(node, claim, stage, &mut faults),
        capacity: effective_resources(node, claim, stage, "capacity", &mut faults),
        allocatable: effective_resources(node, claim, stage, "allocatable", &mut faults),
        deleting: is_deleting(node, claim),
        volume_limits: csi.map(volume_limits).unwrap_or_default(),
    };
    let kind = if node.is_some() { "Node" } else { "NodeClaim" };
    faults.read(kind, metadata, Some(reduced))
}

/// The cloud's name of the machine.
pub fn provider_id(node: &core_v1::Node) -> Option<&str> {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty())
}

/// As [`provider_id`], from the NodeClaim; one that is not launched has none.
pub fn claim_provider_id(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).filter(|id| !id.is_empty())
}

fn label<'a>(node: &'a core_v1::Node, key: &str) -> &'a str {
    node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

/// A node of ours is looked at once the cloud controller has told which machine it is and of what type.
pub fn is_tracked(node: &core_v1::Node) -> bool {
    let managed = !label(node, NODEPOOL).is_empty();
    let initialized = !label(node, INITIALIZED).is_empty();
    !managed || (provider_id(node).is_some() && (initialized || !label(node, INSTANCE_TYPE).is_empty()))
}

fn stage(node: Option<&core_v1::Node>, claim: Option<&NodeClaim>) -> Stage {
    let says = |key| node.is_some_and(|node| label(node, key) == "true");
    match claim {
        None => Stage::Unmanaged,
        Some(_) if says(INITIALIZED) => Stage::Initialized,
        Some(_) if says(REGISTERED) => Stage::Registered,
        Some(_) => Stage::Launched,
    }
}

/// While a node starts, taints that will go away by themselves are looked through.
fn effective_taints(
    node: Option<&core_v1::Node>,
    claim: Option<&NodeClaim>,
    stage: Stage,
    faults: &mut Faults,
) -> Vec<Taint> {
    let root = Path::Root;
    let at = root.field("spec");
    let own = match (node, claim, stage) {
        (_, Some(claim), Stage::Launched) | (None, Some(claim), _) => claim.spec.taints.as_ref(),
        (Some(node), _, _) => node.spec.as_ref().and_then(|spec| spec.taints.as_ref()),
        (None, None, _) => None,
    };
    let mut found = taints::taints(own, &at.field("taints"), faults);
    if let Some(claim) = claim.filter(|_| stage < Stage::Initialized) {
        let startup = taints::taints(claim.spec.startup_taints.as_ref(), &at.field("startupTaints"), faults);
        let passing = |taint: &Taint| {
            is_ephemeral(taint) || startup.iter().any(|s| s.key == taint.key && s.effect == taint.effect)
        };
        found.retain(|taint| !passing(taint));
    }
    found
}

/// What the node reports; before it is initialized, what it does not report yet is taken from the claim.
fn effective_resources(
    node: Option<&core_v1::Node>,
    claim: Option<&NodeClaim>,
    stage: Stage,
    which: &str,
    faults: &mut Faults,
) -> Resources {
    let root = Path::Root;
    let at = root.field("status");
    let pick = |capacity: Option<&ResourceList>, allocatable: Option<&ResourceList>, faults: &mut Faults| {
        let list = if which == "capacity" { capacity } else { allocatable };
        resources::read(list, &at.field(which), faults)
    };
    let mut reported = match node.and_then(|node| node.status.as_ref()) {
        Some(status) => pick(status.capacity.as_ref(), status.allocatable.as_ref(), faults),
        None => Resources::new(),
    };
    let expected = claim.filter(|_| stage < Stage::Initialized).and_then(|claim| claim.status.as_ref());
    if let Some(status) = expected {
        for (name, quantity) in pick(status.capacity.as_ref(), status.allocatable.as_ref(), faults).iter() {
            if reported.get(name).is_zero() {
                reported.set(name, quantity);
            }
        }
    }
    reported
}

fn is_deleting(node: Option<&core_v1::Node>, claim: Option<&NodeClaim>) -> bool {
    match claim {
        Some(claim) => {
            let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let mut terminating = conditions.filter(|c| c.type_ == "InstanceTerminating" && c.status == "True");
            claim.metadata.deletion_timestamp.is_some() || terminating.next().is_some()
        }
        None => node.is_some_and(|node| node.metadata.deletion_timestamp.is_some()),
    }
}

fn volume_limits(csi: &CSINode) -> BTreeMap<Arc<str>, u32> {
    let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((driver.name.as_str().into(), u32::try_from(count).unwrap_or(0)))
    };
    csi.spec.drivers.iter().filter_map(limit).collect()
}
