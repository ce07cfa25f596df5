//! Registered nodes tell how much memory their type has: the controller `providers.instancetype.capacity`.

use std::sync::Arc;

use async_trait::async_trait;
use karpenter_controllers::{Action, Context, Error, Reconciler, Result};
use karpenter_index::{Change, Key};
use karpenter_provider::ProviderError;
use karpenter_provider_aws::{Parts, memory};

pub(crate) struct Memory {
    pub(crate) parts: Arc<Parts>,
}

#[async_trait]
impl Reconciler for Memory {
    fn name(&self) -> &'static str {
        "providers.instancetype.capacity"
    }

    /// A node when it registers, and at the start all that have.
    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        let Some(nodes) = change.node() else { return Vec::new() };
        let registered = |node: &Option<Arc<_>>| node.as_deref().is_some_and(memory::is_registered);
        let news = registered(&nodes.new) && (change.initial || !registered(&nodes.old));
        if news { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(node) = context.index.node(&key.name).filter(|node| memory::is_registered(node)) else {
            return Ok(Action::Done);
        };
        let claims = context.index.claims_of_node(&node);
        if let Some(claim) = claims.iter().find(|claim| context.index.is_managed(claim)) {
            let observed = memory::observe(&self.parts, &node, claim).await;
            observed.map_err(|error| Error::provider("node", ProviderError::new("learning its memory", error)))?;
        }
        Ok(Action::Done)
    }

    fn concurrency(&self) -> usize {
        1
    }
}
