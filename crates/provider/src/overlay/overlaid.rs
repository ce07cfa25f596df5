//! A provider whose instance types are as overlays have them.

use std::sync::Arc;

use async_trait::async_trait;
use karpenter_api::{NodeClaim, NodePool};

use super::{Marks, Store};
use crate::{
    CloudProvider, DeleteError, GetError, InstanceTypes, LaunchError, Machine, NodeClassKind, ProviderError,
    Registration, RepairPolicy, TypesError,
};

/// Only what is listed differs; what a launch makes of overlays is the provider's own business.
pub struct Overlaid {
    inner: Arc<dyn CloudProvider>,
    store: Arc<Store>,
}

impl Overlaid {
    pub fn new(inner: Arc<dyn CloudProvider>, store: Arc<Store>) -> Self {
        Self { inner, store }
    }
}

#[async_trait]
impl CloudProvider for Overlaid {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn node_class_kinds(&self) -> &'static [NodeClassKind] {
        self.inner.node_class_kinds()
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        self.inner.create(claim).await
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), DeleteError> {
        self.inner.delete(claim).await
    }

    async fn get(&self, provider_id: &str) -> Result<Machine, GetError> {
        self.inner.get(provider_id).await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        self.inner.list().await
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, TypesError> {
        let types = self.inner.instance_types(pool).await?;
        self.store.apply(pool.metadata.name.as_deref().unwrap_or_default(), &types)
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<String>, GetError> {
        self.inner.is_drifted(claim).await
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        self.inner.repair_policies()
    }

    fn disruption_reasons(&self) -> Vec<String> {
        self.inner.disruption_reasons()
    }

    fn overlay_marks(&self, pool: &str, types: &[&str]) -> Marks {
        self.store.marks(pool, types)
    }

    async fn registration(&self, claim: &NodeClaim) -> Result<Registration, ProviderError> {
        self.inner.registration(claim).await
    }
}
