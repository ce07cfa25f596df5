//! What nobody refers to any more: instances without a claim, profiles without a class.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::{EC2NodeClass, NodeClaim, labels};
use karpenter_provider::{Machine, ProviderError};
use kube::Api;
use kube::api::DeleteParams;

use crate::instances::{instance_id, provider_id};
use crate::node_class::is_status;
use crate::provider::Parts;
use crate::ttl::later;

/// A claim learns its provider id only after the launch; younger instances may still be waiting for that.
const GRACE: Duration = Duration::from_secs(30);
const AT_ONCE: usize = 100;
const EAGER: Duration = Duration::from_secs(10);
const STEADY: Duration = Duration::from_secs(120);
const EAGER_ROUNDS: u32 = 20;

/// When the next round is due, after so many good ones.
pub fn interval(good_rounds: u32) -> Duration {
    if good_rounds < EAGER_ROUNDS { EAGER } else { STEADY }
}

/// The machines that nobody holds.
pub fn orphans(machines: &[(String, Timestamp, bool)], held: &BTreeSet<String>, now: Timestamp) -> Vec<String> {
    let orphaned = |(id, launched_at, deleting): &&(String, Timestamp, bool)| {
        !held.contains(id) && !*deleting && later(*launched_at, GRACE) < now
    };
    machines.iter().filter(orphaned).map(|(id, ..)| id.clone()).collect()
}

/// As [`orphans`] wants them.
pub fn facts(machine: &Machine) -> (String, Timestamp, bool) {
    (machine.provider_id.clone(), machine.launched_at, machine.deleting)
}

/// One round over the instances. EC2 is listed before the cluster, so that a claim made meanwhile is seen.
pub async fn instances(parts: &Parts, client: &kube::Client) -> Result<usize, ProviderError> {
    let listing = |error| ProviderError::new("listing the cluster", error);
    let found = parts.instances.list().await.map_err(|error| ProviderError::new("listing instances", error))?;
    let machines: Vec<(String, Timestamp, bool)> = found
        .iter()
        .map(|instance| {
            let deleting = matches!(
                instance.state,
                crate::calls::InstanceState::ShuttingDown | crate::calls::InstanceState::Terminated
            );
            (provider_id(&instance.zone, &instance.id), instance.launched_at, deleting)
        })
        .collect();
    let claims = Api::<NodeClaim>::all(client.clone()).list(&Default::default()).await.map_err(listing)?;
    let held: BTreeSet<String> = claims.items.into_iter().filter_map(|claim| claim.status?.provider_id).collect();
    let orphans = orphans(&machines, &held, (parts.now)());
    if orphans.is_empty() {
        return Ok(0);
    }
    let nodes = Api::<Node>::all(client.clone());
    let registered = nodes.list(&Default::default()).await.map_err(listing)?.items;
    let remove = |id: String| {
        let node = registered.iter().find(|node| {
            node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()).is_some_and(|found| *found == id)
        });
        let (node, nodes) = (node.and_then(|node| node.metadata.name.clone()), nodes.clone());
        async move {
            let Some(instance) = instance_id(&id) else { return Ok(()) };
            match parts.instances.terminate(instance).await {
                Err(error) if !error.is_not_found() => {
                    return Err(ProviderError::new("terminating the instance", error));
                }
                _ => tracing::info!(instance = %instance, "garbage collected an instance that no claim holds"),
            }
            if let Some(node) = node {
                match nodes.delete(&node, &DeleteParams::default()).await {
                    Err(error) if !is_status(&error, 404) => {
                        return Err(ProviderError::new("deleting the node", error));
                    }
                    _ => tracing::info!(%node, "garbage collected the node of a terminated instance"),
                }
            }
            Ok(())
        }
    };
    let count = orphans.len();
    let results: Vec<Result<(), ProviderError>> =
        futures_util::stream::iter(orphans).map(remove).buffer_unordered(AT_ONCE).collect().await;
    results.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(count)
}

/// One round over the instance profiles.
pub async fn profiles(parts: &Parts, client: &kube::Client) -> Result<usize, ProviderError> {
    if parts.settings.isolated_vpc {
        return Ok(0);
    }
    let listing = |error| ProviderError::new("listing the cluster", error);
    let classes = Api::<EC2NodeClass>::all(client.clone()).list(&Default::default()).await.map_err(listing)?;
    let claims = Api::<NodeClaim>::all(client.clone()).list(&Default::default()).await.map_err(listing)?;
    let of_classes = classes.items.into_iter().filter_map(|class| class.status?.instance_profile);
    let of_claims = claims
        .items
        .into_iter()
        .filter_map(|claim| claim.metadata.annotations?.get(labels::INSTANCE_PROFILE_NAME).cloned());
    let in_use: BTreeSet<String> = of_classes.chain(of_claims).collect();
    let swept = parts.profiles.sweep(&in_use, (parts.now)()).await;
    swept.map_err(|error| ProviderError::new("deleting instance profiles", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_instances_without_a_claim_are_orphans() {
        // covers: AWS-GC-01
        let at = |second| Timestamp::from_second(second).unwrap();
        let machine = |id: &str, second, deleting| (id.to_owned(), at(second), deleting);
        let machines = [
            machine("held", 0, false),
            machine("young", 71, false),
            machine("just", 70, false),
            machine("old", 69, false),
            machine("going", 0, true),
        ];
        assert_eq!(orphans(&machines, &BTreeSet::from(["held".to_owned()]), at(100)), ["old"]);
    }

    #[test]
    fn the_first_rounds_come_quickly() {
        // covers: AWS-GC-03
        assert_eq!((interval(0), interval(19), interval(20)), (EAGER, EAGER, STEADY));
        assert_eq!((EAGER.as_secs(), STEADY.as_secs()), (10, 120));
    }
}
