//! Instances learn the names of their claim and node: the controller `nodeclaim.tagging`.

use std::sync::Arc;

use async_trait::async_trait;
use karpenter_controllers::{Action, Context, Error, Reconciler, Result};
use karpenter_index::{Change, Key};
use karpenter_provider_aws::{Parts, tagging};
use kube::Client;

pub(crate) struct Tagging {
    pub(crate) parts: Arc<Parts>,
    pub(crate) client: Client,
}

#[async_trait]
impl Reconciler for Tagging {
    fn name(&self) -> &'static str {
        "nodeclaim.tagging"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        let claim = change.node_claim().and_then(|pair| pair.new.as_ref());
        claim.filter(|claim| tagging::is_taggable(claim)).map(|_| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        if let Some(claim) = context.index.node_claim(&key.name).filter(|claim| context.index.is_managed(claim)) {
            let tagged = tagging::tag(&self.parts, &self.client, &claim).await;
            tagged.map_err(|error| Error::provider("tagging", error))?;
        }
        Ok(Action::Done)
    }

    /// CreateTags shares its limit with launches.
    fn concurrency(&self) -> usize {
        1
    }
}
