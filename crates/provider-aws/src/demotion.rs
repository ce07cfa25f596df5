//! A reserved instance may outlive its reservation; EC2 then bills it as on-demand, and so it is called.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::{NodeClaim, labels};
use karpenter_core::labels::{ON_DEMAND, RESERVED};
use karpenter_ec2::labels as aws_labels;
use karpenter_provider::ProviderError;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::instances::{capacity_type, instance_id};
use crate::node_class::is_status;
use crate::provider::Parts;

pub const EVERY: Duration = Duration::from_secs(60);

/// One round; how many claims were renamed. The other way round never happens: what was bought as on-demand stays so.
pub async fn round(parts: &Parts, client: &kube::Client) -> Result<usize, ProviderError> {
    let failed = |what: &'static str| move |error| ProviderError::new(what, error);
    let claims = Api::<NodeClaim>::all(client.clone());
    let listed = parts.objects.node_claims().await;
    let mut reserved = listed.map_err(|error| ProviderError::new("listing NodeClaims", error))?;
    reserved.retain(|claim| {
        let kind = claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::CAPACITY_TYPE));
        kind.is_some_and(|kind| kind == RESERVED) && claim.metadata.deletion_timestamp.is_none()
    });
    if reserved.is_empty() {
        return Ok(0);
    }
    let instances = parts.instances.list().await.map_err(|error| ProviderError::new("listing instances", error))?;
    let demoted: BTreeSet<String> = instances
        .into_iter()
        .filter(|instance| capacity_type(instance, true) == ON_DEMAND)
        .map(|instance| instance.id)
        .collect();
    let nodes = Api::<Node>::all(client.clone());
    let mut count = 0;
    for claim in reserved {
        let status = claim.status.clone().unwrap_or_default();
        let id = status.provider_id.as_deref().and_then(instance_id);
        if !id.is_some_and(|id| demoted.contains(id)) {
            continue;
        }
        let name = claim.metadata.name.clone().unwrap_or_default();
        match claims.patch(&name, &PatchParams::default(), &Patch::Merge(relabel())).await {
            Err(error) if is_status(&error, 404) => continue,
            other => other.map(|_| ()).map_err(failed("relabelling the NodeClaim"))?,
        }
        count += 1;
        tracing::info!(claim = %name, "a reserved instance is on-demand now");
        let Some(node) = status.node_name.filter(|name| !name.is_empty()) else { continue };
        let found = nodes.get_opt(&node).await.map_err(failed("reading the node"))?;
        let registered = found.is_some_and(|node| {
            let labelled = node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(labels::REGISTERED));
            labelled && node.metadata.deletion_timestamp.is_none()
        });
        if registered {
            match nodes.patch(&node, &PatchParams::default(), &Patch::Merge(relabel())).await {
                Err(error) if is_status(&error, 404) => {}
                other => other.map(|_| ()).map_err(failed("relabelling the node"))?,
            }
        }
    }
    Ok(count)
}

fn relabel() -> Value {
    json!({"metadata": {"labels": {
        labels::CAPACITY_TYPE: ON_DEMAND,
        aws_labels::CAPACITY_RESERVATION_ID: null,
        aws_labels::CAPACITY_RESERVATION_TYPE: null,
        aws_labels::CAPACITY_RESERVATION_INTERRUPTIBLE: null,
    }}})
}
