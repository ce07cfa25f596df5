//! What the provider reads of the cluster and ends in it, and how it names objects in notices.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::{EC2NodeClass, NodeClaim, NodePool, labels};
use karpenter_provider::{BoxError, Subject};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::node_class::is_status;

/// Whoever has a watch at hand may answer reads from it, and knows whom a deletion concerns.
#[async_trait]
pub trait Objects: Send + Sync {
    async fn node_class(&self, name: &str) -> Result<Option<Arc<EC2NodeClass>>, BoxError>;
    async fn node_pool(&self, name: &str) -> Result<Option<Arc<NodePool>>, BoxError>;
    async fn node_pools(&self) -> Result<Vec<Arc<NodePool>>, BoxError>;
    async fn node_claims(&self) -> Result<Vec<Arc<NodeClaim>>, BoxError>;
    async fn node(&self, name: &str) -> Result<Option<Arc<Node>>, BoxError>;

    /// Ends a claim whose instance is about to go; its pods need another place at once. With a deadline, drained only
    /// until then. Answers whether it was there to be deleted.
    async fn end_claim(&self, claim: &NodeClaim, deadline: Option<Timestamp>) -> Result<bool, BoxError>;
}

/// Asks the API server each time.
#[derive(Clone)]
pub struct LiveObjects(pub kube::Client);

#[async_trait]
impl Objects for LiveObjects {
    async fn node_class(&self, name: &str) -> Result<Option<Arc<EC2NodeClass>>, BoxError> {
        Ok(Api::all(self.0.clone()).get_opt(name).await?.map(Arc::new))
    }

    async fn node_pool(&self, name: &str) -> Result<Option<Arc<NodePool>>, BoxError> {
        Ok(Api::all(self.0.clone()).get_opt(name).await?.map(Arc::new))
    }

    async fn node_pools(&self) -> Result<Vec<Arc<NodePool>>, BoxError> {
        let pools = Api::<NodePool>::all(self.0.clone()).list(&Default::default()).await?;
        Ok(pools.items.into_iter().map(Arc::new).collect())
    }

    async fn node_claims(&self) -> Result<Vec<Arc<NodeClaim>>, BoxError> {
        let asked = kube::core::Request::new(NodeClaim::url_path(&(), None)).list(&Default::default())?;
        let listed: Listed = self.0.request(asked).await?;
        Ok(readable(listed.items))
    }

    async fn node(&self, name: &str) -> Result<Option<Arc<Node>>, BoxError> {
        Ok(Api::all(self.0.clone()).get_opt(name).await?.map(Arc::new))
    }

    async fn end_claim(&self, claim: &NodeClaim, deadline: Option<Timestamp>) -> Result<bool, BoxError> {
        let api = Api::<NodeClaim>::all(self.0.clone());
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        if let Some(deadline) = deadline {
            let patch = Patch::Merge(deadline_patch(deadline));
            match api.patch(name, &PatchParams::default(), &patch).await {
                Err(error) if is_status(&error, 404) => return Ok(false),
                other => other?,
            };
        }
        let preconditions = Preconditions { uid: claim.metadata.uid.clone(), ..Preconditions::default() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match api.delete(name, &params).await {
            // Gone, or another claim of the same name: either way not ours to delete.
            Err(error) if is_status(&error, 404) || is_status(&error, 409) => Ok(false),
            other => Ok(other.map(|_| true)?),
        }
    }
}

#[derive(Deserialize)]
struct Listed {
    items: Vec<Value>,
}

/// One claim that cannot be read costs no other its warning.
fn readable(items: Vec<Value>) -> Vec<Arc<NodeClaim>> {
    let read = |item: Value| {
        let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        serde_json::from_value(item)
            .inspect_err(|error| tracing::warn!(claim = name, %error, "a NodeClaim cannot be read"))
            .ok()
    };
    items.into_iter().filter_map(read).map(Arc::new).collect()
}

/// Tells termination to drain no longer than this.
pub fn deadline_patch(deadline: Timestamp) -> serde_json::Value {
    let whole = Timestamp::from_second(deadline.as_second()).unwrap_or(deadline);
    json!({"metadata": {"annotations": {labels::TERMINATION_TIMESTAMP: whole.to_string()}}})
}

pub fn node_subject(node: &Node) -> Subject {
    subject("v1", "Node", &node.metadata)
}

pub fn claim_subject(claim: &NodeClaim) -> Subject {
    subject("karpenter.sh/v1", "NodeClaim", &claim.metadata)
}

pub fn pool_subject(pool: &NodePool) -> Subject {
    subject("karpenter.sh/v1", "NodePool", &pool.metadata)
}

pub fn class_subject(class: &EC2NodeClass) -> Subject {
    subject("karpenter.k8s.aws/v1", "EC2NodeClass", &class.metadata)
}

fn subject(api_version: &str, kind: &str, metadata: &karpenter_api::ObjectMeta) -> Subject {
    Subject {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_cannot_be_read_costs_only_itself() {
        let claim = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"});
        let fine = |name: &str| claim(name, json!({"nodeClassRef": class, "requirements": []}));
        let read = readable(vec![fine("a"), claim("odd", json!(7)), fine("b")]);
        let names: Vec<&str> = read.iter().filter_map(|claim| claim.metadata.name.as_deref()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
