//! What nobody refers to any more: profiles without a class. Instances without a claim are the controllers' to sweep,
//! who also know what was launched and is not stored yet.

use std::collections::BTreeSet;

use karpenter_api::{EC2NodeClass, NodeClaim, labels};
use karpenter_provider::ProviderError;
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

use crate::provider::Parts;

/// One round over the instance profiles.
pub async fn profiles(parts: &Parts, client: &kube::Client) -> Result<usize, ProviderError> {
    if parts.settings.isolated_vpc {
        return Ok(0);
    }
    let listing = |error| ProviderError::new("listing the cluster", error);
    let classes = all::<EC2NodeClass>(client).await.map_err(listing)?;
    let claims = all::<NodeClaim>(client).await.map_err(listing)?;
    let in_use = in_use(&classes, &claims);
    let swept = parts.profiles.sweep(&in_use, (parts.now)()).await;
    swept.map_err(|error| ProviderError::new("deleting instance profiles", error))
}

#[derive(Deserialize)]
struct Listed {
    items: Vec<Value>,
}

/// As the server has them: one that no type takes keeps its profile, and does not keep those of others for ever.
async fn all<K: Resource<DynamicType = ()>>(client: &kube::Client) -> kube::Result<Vec<Value>> {
    let request = kube::core::Request::new(K::url_path(&(), None)).list(&Default::default());
    let listed: Listed = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(listed.items)
}

/// The profiles that classes have now, and those that claims were launched with.
fn in_use(classes: &[Value], claims: &[Value]) -> BTreeSet<String> {
    let of_classes = classes.iter().map(|class| &class["status"]["instanceProfile"]);
    let of_claims = claims.iter().map(|claim| &claim["metadata"]["annotations"][labels::INSTANCE_PROFILE_NAME]);
    of_classes.chain(of_claims).filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_cannot_be_read_keep_their_profiles() {
        let class = json!({"spec": {"subnetSelectorTerms": 7}, "status": {"instanceProfile": "of-class"}});
        let annotations = json!({labels::INSTANCE_PROFILE_NAME: "of-claim", "other": "x"});
        let claim = json!({"metadata": {"annotations": annotations}, "spec": 7});
        assert!(serde_json::from_value::<EC2NodeClass>(class.clone()).is_err(), "no type takes it");
        assert!(serde_json::from_value::<NodeClaim>(claim.clone()).is_err(), "nor this one");
        let found = in_use(&[class, json!({"metadata": {}})], &[claim, json!({})]);
        assert_eq!(found, BTreeSet::from(["of-class".to_owned(), "of-claim".to_owned()]));
    }
}
