//! The steps of one pass. Each changes the claim in memory; a failure of one does not skip the next.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{CONSISTENT_STATE_FOUND, CONSOLIDATABLE, INITIALIZED, LAUNCHED, REGISTERED, Status};
use karpenter_api::labels;
use karpenter_index::Kind;
use karpenter_provider::{Machine, Registration, chain};
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::reopening::Reopenings;
use super::{Launched, health, initialization, launch, liveness, nodes_of, registration};
use crate::context::Context;
use crate::disruption::is_quiet;
use crate::error::{Error, Result};
use crate::nodepool::SharedRegistrations;
use crate::ownership::{Matches, claim_provider_id};
use crate::patch::Lock;
use crate::reconciler::Action;
use crate::recorder::{Event, ObjectRef};
use crate::unreadable::LOOK_AGAIN;

/// When to ask a provider again that is not ready for a Node to be registered, or look for devices nobody watches.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// What tells that a claim has run out of time.
const READS: [Kind; 2] = [Kind::NodeClaim, Kind::Node];

pub(super) struct Pass<'a> {
    pub(super) claim: NodeClaim,
    pub(super) errors: Vec<Error>,
    pub(super) action: Action,
    context: &'a Context,
    launched: &'a Launched,
    registrations: &'a SharedRegistrations,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        mut claim: NodeClaim,
        context: &'a Context,
        launched: &'a Launched,
        registrations: &'a SharedRegistrations,
    ) -> Self {
        claim.conditions_at(context.clock.now());
        Self { claim, errors: Vec::new(), action: Action::Done, context, launched, registrations }
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    fn name(&self) -> &str {
        self.claim.metadata.name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.claim.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Whether the pass goes on: not if the claim was given up.
    pub(super) async fn launch(&mut self) -> Result<bool> {
        let remembered = self.launched.get(&self.claim);
        match launch::next(&self.claim, remembered.as_deref()) {
            launch::Step::Settled => {
                let now = self.now();
                self.claim.conditions_at(now).refresh(LAUNCHED);
                if self.claim.condition_status(LAUNCHED) == Status::True {
                    self.launched.forget(&self.claim);
                }
            }
            launch::Step::Adopt(machine) => {
                let now = self.now();
                launch::populate(&mut self.claim, machine, now);
            }
            launch::Step::Create => match self.context.provider.create(&self.claim).await {
                Ok(machine) => {
                    let now = self.now();
                    let machine = self.launched.remember(&self.claim, machine, now);
                    log_launch(self.name(), &machine);
                    launch::populate(&mut self.claim, &machine, now);
                }
                Err(error) => {
                    let now = self.now();
                    match launch::fail(&mut self.claim, &error, now) {
                        launch::Failure::GiveUp { reason, event } => {
                            tracing::error!(claim = self.name(), error = %chain(&error), "failed launching nodeclaim");
                            if let Some(message) = event {
                                let object = ObjectRef::node_claim(&self.claim);
                                let event = Event::warning(object, "InsufficientCapacityError", message);
                                self.context.recorder.publish(event);
                            }
                            self.delete(reason).await?;
                            return Ok(false);
                        }
                        launch::Failure::Retry => self.errors.push(Error::provider("launching nodeclaim", error)),
                    }
                }
            },
        }
        Ok(true)
    }

    pub(super) async fn register(&mut self) {
        let now = self.now();
        if self.claim.condition_status(REGISTERED) != Status::Unknown {
            self.claim.conditions_at(now).refresh(REGISTERED);
            return;
        }
        match nodes_of(&self.claim, self.context).into_iter().collect() {
            Matches::None => {
                let message = "Node not registered with cluster";
                self.claim.conditions_at(now).set_unknown(REGISTERED, "NodeNotFound", message);
            }
            Matches::Several => {
                let message = "Invariant violated, matched multiple nodes";
                self.claim.conditions_at(now).set_false(REGISTERED, "MultipleNodesFound", message);
            }
            Matches::One(node) => {
                if let Err(error) = self.register_node(&node).await {
                    self.errors.push(error);
                }
            }
        }
    }

    async fn register_node(&mut self, node: &Arc<Node>) -> Result<()> {
        if registration::lacks_unregistered_taint(node) {
            let message = format!(
                "Missing {} taint which prevents registration related race conditions on Karpenter-managed nodes",
                labels::UNREGISTERED_TAINT
            );
            let object = ObjectRef::node_claim(&self.claim);
            self.context.recorder.publish(Event::warning(object, "UnregisteredTaintMissing", message));
        }
        let mut synced = (**node).clone();
        registration::sync(&self.claim, &mut synced);
        let hook = self.context.provider.registration(&self.claim).await;
        let proceeds = match &hook {
            Ok(Registration::Proceed) => true,
            Ok(Registration::Relabel(labels)) => {
                self.claim.metadata.labels.get_or_insert_default().extend(labels.iter().cloned());
                registration::sync(&self.claim, &mut synced);
                true
            }
            Ok(Registration::Wait { .. }) | Err(_) => false,
        };
        if proceeds {
            registration::complete(&mut synced);
        }
        self.context.write(&**node, &synced, Lock::Version).await?;
        let now = self.now();
        if !proceeds {
            let names = self.context.provider.name();
            self.claim.conditions_at(now).set_unknown(REGISTERED, "RegistrationHookPending", names);
            self.action = self.action.sooner(Action::After(ASK_AGAIN));
            return hook.map(|_| ()).map_err(|error| Error::provider("asking the provider about registration", error));
        }
        let node_name = node.metadata.name.clone().unwrap_or_default();
        let provider_id = claim_provider_id(&self.claim);
        tracing::info!(claim = self.name(), provider_id, node = node_name, "registered nodeclaim");
        let mut conditions = self.claim.conditions_at(now);
        conditions.set_true(REGISTERED);
        // What would be the first answer about a node that nobody uses yet, in a write of its own.
        conditions.set_true(CONSISTENT_STATE_FOUND);
        self.claim.status.get_or_insert_default().node_name = Some(node_name);
        health::succeeded(&self.claim, self.context, self.registrations).await
    }

    /// Takes the taint of unregistered nodes off a registered one again.
    pub(super) async fn reopen(&mut self, reopenings: &Reopenings) {
        if self.claim.condition_status(REGISTERED) != Status::True {
            return;
        }
        let found: Matches<Arc<Node>> = nodes_of(&self.claim, self.context).into_iter().collect();
        let Some(node) = found.one().filter(|node| registration::is_closed(node)) else { return };
        let left = reopenings.left(self.uid(), Instant::now());
        if !left.is_zero() {
            self.action = self.action.sooner(Action::After(left));
            return;
        }
        let mut opened = (*node).clone();
        registration::open(&mut opened);
        match self.context.write(&*node, &opened, Lock::Version).await {
            Ok(_) => self.tell_reopened(&node, reopenings),
            Err(error) => self.errors.push(error),
        }
    }

    fn tell_reopened(&self, node: &Node, reopenings: &Reopenings) {
        reopenings.reopened(self.uid(), Instant::now());
        let taint = labels::UNREGISTERED_TAINT;
        let message = format!("Removed taint {taint}:NoExecute from a registered node, another writer had restored it");
        for object in [ObjectRef::node(node), ObjectRef::node_claim(&self.claim)] {
            let event = Event::warning(object, "UnregisteredTaintRestored", message.clone());
            self.context.recorder.publish(event);
        }
        let node_name = node.metadata.name.as_deref();
        tracing::warn!(
            claim = self.name(),
            node = node_name,
            "removed the taint {taint} from a registered node, another writer had restored it"
        );
    }

    pub(super) async fn initialize(&mut self) {
        let now = self.now();
        if self.claim.condition_status(INITIALIZED) != Status::Unknown {
            self.claim.conditions_at(now).refresh(INITIALIZED);
            return;
        }
        if self.claim.condition_status(REGISTERED) != Status::True {
            return;
        }
        let found: Matches<Arc<Node>> = nodes_of(&self.claim, self.context).into_iter().collect();
        let Some(node) = found.one() else {
            let message = "Node not registered with cluster";
            self.claim.conditions_at(now).set_unknown(INITIALIZED, "NodeNotFound", message);
            return;
        };
        if let Err(error) = self.initialize_node(&node).await {
            self.errors.push(error);
        }
    }

    async fn initialize_node(&mut self, node: &Arc<Node>) -> Result<()> {
        let node_name = node.metadata.name.as_deref().unwrap_or_default();
        let slices = self.slices_of(node_name).await?;
        let now = self.now();
        if let Err(not_yet) = initialization::check(&self.claim, node, slices.as_deref()) {
            self.claim.conditions_at(now).set_unknown(INITIALIZED, not_yet.reason, &not_yet.message);
            if not_yet.reason == "DRADriverPoolsNotPublished" {
                self.action = self.action.sooner(Action::After(ASK_AGAIN));
            }
            return Ok(());
        }
        let mut opened = (**node).clone();
        let labels = opened.metadata.labels.get_or_insert_default();
        labels.insert(labels::INITIALIZED.to_owned(), "true".to_owned());
        self.context.write(&**node, &opened, Lock::None).await?;
        let (provider_id, allocatable) = (claim_provider_id(&self.claim), allocatable_text(node));
        tracing::info!(claim = self.name(), provider_id, node = node_name, allocatable, "initialized nodeclaim");
        self.claim.conditions_at(now).set_true(INITIALIZED);
        if is_quiet(&self.claim, self.context, now) {
            self.claim.conditions_at(now).set_true(CONSOLIDATABLE);
        }
        Ok(())
    }

    /// The devices published on a Node, where the claim waits for some and they are not ignored altogether.
    async fn slices_of(&self, node: &str) -> Result<Option<Vec<ResourceSlice>>> {
        let ignored = self.context.settings.scheduling.ignore_device_requests;
        if ignored || initialization::requested_drivers(&self.claim).next().is_none() {
            return Ok(None);
        }
        let api = Api::<ResourceSlice>::all(self.context.client.clone());
        let all = api.list(&ListParams::default()).await?;
        Ok(Some(all.items.into_iter().filter(|slice| initialization::belongs_to(slice, node)).collect()))
    }

    /// Whether the pass goes on: not if the claim ran out of time.
    pub(super) async fn check_liveness(&mut self) -> Result<bool> {
        match liveness::judge(&self.claim, liveness::LAUNCH_TIMEOUT, self.now()) {
            liveness::Verdict::Alive => Ok(true),
            liveness::Verdict::Wait(left) => {
                self.action = self.action.sooner(Action::After(left));
                Ok(true)
            }
            // It may have registered: its Node is there, and cannot be read.
            liveness::Verdict::TimedOut { .. } if self.has_unreadable_node() => {
                self.action = self.action.sooner(Action::After(LOOK_AGAIN));
                Ok(true)
            }
            liveness::Verdict::TimedOut { timeout, reason } => {
                // It may have joined, and we have not heard of it.
                self.context.heard_lately(&READS)?;
                health::failed(&self.claim, self.context, self.registrations).await?;
                tracing::debug!(claim = self.name(), ?timeout, reason, "terminating due to timeout");
                self.delete(reason).await?;
                Ok(false)
            }
        }
    }

    fn has_unreadable_node(&self) -> bool {
        claim_provider_id(&self.claim).is_some_and(|id| self.context.index.unreadable_node_of(id).is_some())
    }

    /// Gives the claim up; its pods are planned afresh.
    async fn delete(&self, reason: &'static str) -> Result<()> {
        self.context.delete::<NodeClaim>(self.name(), self.uid(), &READS).await?;
        self.context.metrics.life.disrupted(&self.claim, reason, "");
        Ok(())
    }
}

/// `cpu 4, memory 16Gi`.
fn allocatable_text(node: &Node) -> String {
    let all = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    all.into_iter().flatten().map(|(name, amount)| format!("{name} {}", amount.0)).collect::<Vec<_>>().join(", ")
}

fn log_launch(claim: &str, machine: &Machine) {
    let allocatable = crate::amounts::listed(&machine.allocatable);
    tracing::info!(
        claim,
        provider_id = %machine.provider_id,
        instance_type = %machine.instance_type,
        zone = %machine.zone,
        capacity_type = %machine.capacity_type,
        allocatable,
        "launched nodeclaim"
    );
    // In the words that older log shippers match on: their node is the instance.
    let node = machine.provider_id.rsplit('/').next().unwrap_or_default();
    let (instance_type, capacity_type) = (&machine.instance_type, &machine.capacity_type);
    tracing::info!(compat = true, node, %instance_type, %capacity_type, "launched node");
}
