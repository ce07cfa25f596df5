//! Pods on their way from creation to running: the controller `metrics.pod`.

use async_trait::async_trait;
use karpenter_index::{Change, Key};

use crate::context::Context;
use crate::error::Result;
use crate::reconciler::{Action, Reconciler};

/// It has no work of its own: seeing is all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting;

#[async_trait]
impl Reconciler for Waiting {
    fn name(&self) -> &'static str {
        "metrics.pod"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        if let Some(pair) = change.pod() {
            context.metrics.pods.changed(&change.key, pair.new.as_deref(), context.clock.now());
        }
        Vec::new()
    }

    async fn reconcile(&self, _key: &Key, _context: &Context) -> Result<Action> {
        Ok(Action::Done)
    }
}
