//! How much memory machines of a type really have: the first node that registers tells, and estimates give way to it.

use k8s_openapi::api::core::v1::Node;
use karpenter_api::{NodeClaim, labels};
use karpenter_core::Quantity;
use karpenter_ec2::images;
use karpenter_provider::BoxError;

use crate::launch::template::status_images;
use crate::provider::Parts;

pub fn is_registered(node: &Node) -> bool {
    let label = node.metadata.labels.as_ref().and_then(|labels| labels.get(labels::REGISTERED));
    label.is_some_and(|value| value == "true")
}

/// Learns from a registered node, if it runs what the class would launch today: another image may keep more memory for
/// itself. Answers whether it did.
pub async fn observe(parts: &Parts, node: &Node, claim: &NodeClaim) -> Result<bool, BoxError> {
    let Some(class) = parts.usable_class(&claim.spec.node_class_ref.name).await? else { return Ok(false) };
    let name = node.metadata.labels.as_ref().and_then(|labels| labels.get(labels::INSTANCE_TYPE));
    let told = node.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("memory"));
    let memory = told.and_then(|memory| memory.0.parse::<Quantity>().ok()).filter(|memory| !memory.is_zero());
    let (Some(name), Some(memory)) = (name, memory) else { return Ok(false) };
    let types = parts.class_types(&class)?;
    let Some(kind) = types.iter().find(|kind| *kind.name == **name) else { return Ok(false) };
    let wanted = status_images(&class);
    let wanted = images::image_for(kind, wanted.iter().map(|(id, set)| (id.as_str(), set)));
    let runs = claim.status.as_ref().and_then(|status| status.image_id.as_deref());
    if wanted.is_none() || wanted != runs {
        return Ok(false);
    }
    parts.types.observe_memory(&class, name, memory, (parts.now)());
    Ok(true)
}
