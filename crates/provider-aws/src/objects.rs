//! What the provider reads of the cluster, and how it names objects in notices.

use std::sync::Arc;

use async_trait::async_trait;
use karpenter_api::{EC2NodeClass, NodeClaim, NodePool};
use karpenter_provider::{BoxError, Subject};
use kube::Api;

/// Reads by name. Whoever has a watch at hand may answer from it.
#[async_trait]
pub trait ClusterReads: Send + Sync {
    async fn node_class(&self, name: &str) -> Result<Option<Arc<EC2NodeClass>>, BoxError>;
    async fn node_pool(&self, name: &str) -> Result<Option<Arc<NodePool>>, BoxError>;
    async fn node_pools(&self) -> Result<Vec<Arc<NodePool>>, BoxError>;
}

/// Asks the API server each time.
#[derive(Clone)]
pub struct LiveReads(pub kube::Client);

#[async_trait]
impl ClusterReads for LiveReads {
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
