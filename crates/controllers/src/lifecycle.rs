//! A NodeClaim's life: launched, registered, initialized; given up if it takes too long; and its end.
//!
//! ```text
//!   finalizer ─▶ launch ─▶ registration ─▶ initialization ─▶ liveness ─▶ metadata, then status   one pass
//!   deletion  ─▶ deadline ─▶ Nodes ─▶ machine ─▶ finalizer                                       finalize
//! ```
//!
//! Each step is a pure module; this one reads, calls and writes, in an order in which any write may be the last.

pub mod finalize;
pub mod initialization;
pub mod launch;
pub mod launched;
pub mod liveness;
pub mod registration;

mod end;
mod gone;
mod health;
mod patience;
mod questions;
mod reopening;
mod steps;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{REGISTERED, Status};
use karpenter_api::labels::TERMINATION_FINALIZER;
use karpenter_index::{Change, Key, Kind};
use tokio::time::Instant;

use crate::context::Context;
use crate::error::{Error, Result, unless_gone};
use crate::nodepool::SharedRegistrations;
use crate::ownership::{claim_provider_id, node_provider_id};
use crate::patch::Lock;
use crate::reconciler::{Action, Backoff, Reconciler};
use crate::settings::Settings;

pub(crate) use end::{ask_again, terminate};
pub(crate) use gone::Gone;
pub use launched::Launched;
pub(crate) use questions::Questions;

/// The controller.
#[derive(Debug)]
pub struct Lifecycle {
    launched: Arc<Launched>,
    registrations: SharedRegistrations,
    patience: patience::Patience,
    reopenings: reopening::Reopenings,
    concurrency: usize,
}

impl Lifecycle {
    pub fn new(launched: Arc<Launched>, registrations: SharedRegistrations, settings: &Settings) -> Self {
        Self {
            launched,
            registrations,
            patience: patience::Patience::default(),
            reopenings: reopening::Reopenings::default(),
            concurrency: settings.parallelism(1_000, 5_000),
        }
    }

    /// One look at a claim that is not being deleted.
    async fn advance(&self, claim: &NodeClaim, context: &Context) -> Result<Action> {
        let Some(before) = guard(claim, context).await? else {
            return Ok(Action::Done);
        };
        let mut pass = steps::Pass::new(before.clone(), context, &self.launched, &self.registrations);
        if !pass.launch().await? {
            return Ok(Action::Done);
        }
        pass.register().await;
        pass.reopen(&self.reopenings).await;
        pass.initialize().await;
        if !pass.check_liveness().await? {
            return Ok(Action::Done);
        }
        let steps::Pass { claim, errors, action, .. } = pass;
        if let Some(left) = self.patience.left(&before, &claim, Instant::now()) {
            return Error::all(errors).map(|()| action.sooner(Action::After(left)));
        }
        let Some(after) = unless_gone(store(&before, &claim, context).await)? else {
            return Ok(Action::Done);
        };
        if before.condition_status(REGISTERED) != Status::True && after.condition_status(REGISTERED) == Status::True {
            context.metrics.life.node_created(&after);
        }
        Error::all(errors).map(|()| action)
    }
}

/// Nothing is launched before the finalizer is stored: what is deleted without it is gone without a trace. `None` if the
/// claim is gone.
async fn guard(claim: &NodeClaim, context: &Context) -> Result<Option<NodeClaim>> {
    let mut guarded = claim.clone();
    let finalizers = guarded.metadata.finalizers.get_or_insert_default();
    if finalizers.iter().any(|finalizer| finalizer == TERMINATION_FINALIZER) {
        return Ok(Some(guarded));
    }
    finalizers.push(TERMINATION_FINALIZER.to_owned());
    unless_gone(context.write(claim, &guarded, Lock::Version).await)
}

/// First metadata and spec, then the status: a claim that says it is launched has its labels.
async fn store(before: &NodeClaim, after: &NodeClaim, context: &Context) -> Result<NodeClaim> {
    if before == after {
        return Ok(after.clone());
    }
    let stored = context.write(before, after, Lock::Version).await?;
    let mut read = before.clone();
    read.metadata = stored.metadata;
    context.write_status(&read, after, Lock::Version).await
}

#[async_trait]
impl Reconciler for Lifecycle {
    fn name(&self) -> &'static str {
        "nodeclaim.lifecycle"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        if change.node_claim().is_some() {
            return vec![change.key.clone()];
        }
        let Some(node) = change.node() else {
            return Vec::new();
        };
        let mut ids: Vec<&str> = node.both().filter_map(|node| node_provider_id(node)).collect();
        ids.dedup();
        ids.into_iter().flat_map(|id| context.index.claims_of(id)).map(|claim| Key::of(&claim.metadata)).collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(claim) = context.index.node_claim(&key.name).filter(|claim| context.index.is_managed(claim)) else {
            return Ok(Action::Done);
        };
        if context.index.unreadable(Kind::NodeClaim, key).is_some() {
            // What is known of it is old. It comes back by itself once it can be read.
            return Ok(Action::Done);
        }
        if claim.metadata.deletion_timestamp.is_some() {
            self.patience.forget(&claim);
            return end::finalize(&claim, context, &self.launched).await;
        }
        self.advance(&claim, context).await
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn backoff(&self) -> Backoff {
        // The last retries of a failing launch come shortly before it times out.
        Backoff { first: Duration::from_secs(1), last: Duration::from_secs(60), per_second: 10, burst: 100 }
    }
}

/// The Nodes of a claim.
pub(crate) fn nodes_of(claim: &NodeClaim, context: &Context) -> Vec<Arc<k8s_openapi::api::core::v1::Node>> {
    claim_provider_id(claim).map(|id| context.index.nodes_of(id)).unwrap_or_default()
}
