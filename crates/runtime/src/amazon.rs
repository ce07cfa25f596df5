//! The AWS provider, wired to the controllers' context.

mod bridge;
mod discovered;
mod memory;
mod node_class;
mod tagging;

use std::sync::Arc;

use karpenter_controllers::{Clock, Context, Reconciler};
use karpenter_core::labels::Vocabulary;
use karpenter_provider::overlay::Store;
use karpenter_provider::{CloudProvider, ProviderError};
use karpenter_provider_aws::{Aws, AwsProvider, NodeClassController, Parts, Settings, Task, tasks};
use kube::Client;

use bridge::Bridge;
use memory::Memory;
use node_class::{Classes, NodeClassHashes, NodeClasses};
use tagging::Tagging;

/// The provider with everything of its own that runs.
pub struct Amazon {
    client: Client,
    parts: Arc<Parts>,
    bridge: Arc<Bridge>,
    classes: Arc<Classes>,
}

impl Amazon {
    /// Loads instance types and zones, which must be known before anything is decided.
    pub async fn start(client: Client, clock: &Clock, aws: Aws, settings: Settings) -> Result<Self, ProviderError> {
        let classes = Arc::new(Classes::new(client.clone()));
        let bridge = Arc::new(Bridge::new(client.clone(), classes.clone()));
        let now = clock.clone();
        let parts =
            Parts::new(aws, settings, Arc::new(move || now.now()), bridge.clone(), bridge.clone(), bridge.clone());
        parts.start().await?;
        Ok(Self { client, parts, bridge, classes })
    }

    pub fn provider(&self) -> Arc<dyn CloudProvider> {
        Arc::new(AwsProvider::new(self.parts.clone()))
    }

    /// What people say of its types, if that is asked for.
    pub(crate) fn overlays(&self) -> Option<Arc<Store>> {
        self.parts.overlays.clone()
    }

    /// The labels it adds to Kubernetes' own.
    pub fn vocabulary(&self) -> Arc<Vocabulary> {
        Arc::new(karpenter_ec2::vocabulary())
    }

    pub(crate) fn reconcilers(&self) -> Vec<Arc<dyn Reconciler>> {
        let controller = Arc::new(NodeClassController::new(self.parts.clone(), self.client.clone()));
        vec![
            Arc::new(NodeClasses { controller: controller.clone(), classes: self.classes.clone() }),
            Arc::new(NodeClassHashes { controller, classes: self.classes.clone() }),
            Arc::new(Memory { parts: self.parts.clone() }),
            Arc::new(Tagging { parts: self.parts.clone(), client: self.client.clone() }),
        ]
    }

    /// What it does by the clock.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        tasks(&self.parts, &self.client)
    }

    /// From now on events go out through the context, and reads are answered from its index.
    pub(crate) fn join(&self, context: &Arc<Context>) {
        self.bridge.join(context);
    }
}
