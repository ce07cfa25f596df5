//! Keeps the drift hash on every node class, and carries claims over when the way of hashing changes.

use std::collections::BTreeMap;

use karpenter_api::{EC2NODECLASS_HASH_VERSION, EC2NodeClass, NodeClaim, labels};
use karpenter_provider::{BoxError, ProviderError};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{NodeClassController, is_status};

impl NodeClassController {
    pub async fn reconcile_hash(&self, class: &EC2NodeClass) -> Result<(), ProviderError> {
        self.hash(class).await.map_err(|error| ProviderError::new("hashing EC2NodeClass", error))
    }

    async fn hash(&self, class: &EC2NodeClass) -> Result<(), BoxError> {
        let hash = self.parts.class_hash(class);
        let annotations = class.metadata.annotations.clone().unwrap_or_default();
        let held_version = annotations.get(labels::EC2NODECLASS_HASH_VERSION);
        if held_version.is_some_and(|version| version != EC2NODECLASS_HASH_VERSION) {
            // Claims first: should we die in between, the class still says that there is work to do.
            self.carry_over(class, &hash).await?;
        }
        let want = [
            (labels::EC2NODECLASS_HASH, hash.as_str()),
            (labels::EC2NODECLASS_HASH_VERSION, EC2NODECLASS_HASH_VERSION),
        ];
        if want.iter().all(|(key, value)| annotations.get(*key).is_some_and(|held| held == value)) {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": BTreeMap::from(want)}});
        let name = class.metadata.name.as_deref().unwrap_or_default();
        match self.api().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(error) if is_status(&error, 404) => Ok(()),
            other => other.map(|_| ()).map_err(Into::into),
        }
    }

    async fn carry_over(&self, class: &EC2NodeClass, hash: &str) -> Result<(), BoxError> {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let api = Api::<NodeClaim>::all(self.client.clone());
        for claim in api.list(&Default::default()).await?.items {
            if claim.spec.node_class_ref.name != name {
                continue;
            }
            let Some(annotations) = carried(&claim, hash) else { continue };
            let patch = json!({"metadata": {"annotations": annotations}});
            let claim_name = claim.metadata.name.as_deref().unwrap_or_default();
            match api.patch(claim_name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Err(error) if is_status(&error, 404) => {}
                other => {
                    other?;
                }
            }
        }
        Ok(())
    }
}

/// A claim that is drifted already stays so; others are taken to be what the class asks for now.
fn carried(claim: &NodeClaim, hash: &str) -> Option<BTreeMap<&'static str, String>> {
    let annotations = claim.metadata.annotations.clone().unwrap_or_default();
    if annotations.get(labels::EC2NODECLASS_HASH_VERSION).is_some_and(|version| version == EC2NODECLASS_HASH_VERSION) {
        return None;
    }
    let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let drifted = conditions.iter().any(|condition| condition.type_ == "Drifted" && condition.status == "True");
    let mut set = BTreeMap::from([(labels::EC2NODECLASS_HASH_VERSION, EC2NODECLASS_HASH_VERSION.to_owned())]);
    if !drifted {
        set.insert(labels::EC2NODECLASS_HASH, hash.to_owned());
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_api::{Condition, Time};

    fn claim(version: &str, drifted: bool) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.annotations = Some([(labels::EC2NODECLASS_HASH_VERSION.to_owned(), version.to_owned())].into());
        if drifted {
            let condition = Condition {
                type_: "Drifted".into(),
                status: "True".into(),
                reason: "x".into(),
                message: String::new(),
                observed_generation: None,
                last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            };
            claim.status.get_or_insert_default().conditions = Some(vec![condition]);
        }
        claim
    }

    #[test]
    fn a_new_way_of_hashing_does_not_drift_what_was_not_drifted() {
        // covers: AWS-DRIFT-16
        assert_eq!(carried(&claim(EC2NODECLASS_HASH_VERSION, false), "1"), None);
        let old = carried(&claim("v1", false), "1").unwrap();
        assert_eq!(old.get(labels::EC2NODECLASS_HASH).map(String::as_str), Some("1"));
        let drifted = carried(&claim("v1", true), "1").unwrap();
        assert!(!drifted.contains_key(labels::EC2NODECLASS_HASH) && drifted.len() == 1);
    }
}
