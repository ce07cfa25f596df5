//! What nobody refers to any more: profiles without a class. Instances without a claim are the controllers' to sweep,
//! who also know what was launched and is not stored yet.

use std::collections::BTreeSet;

use karpenter_api::{EC2NodeClass, NodeClaim, labels};
use karpenter_provider::ProviderError;
use kube::Api;

use crate::provider::Parts;

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
