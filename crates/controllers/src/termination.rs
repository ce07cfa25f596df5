//! A Node's end: closed, drained, its volumes detached, its machine terminated, and only then let go.
//!
//! ```text
//!   close ─▶ drain ──────▶ volumes ─▶ asked ─▶ machine ─▶ finalizer      again and again until each is finished
//!              └─▶ evictions: one pod at a time, as budgets, protections and the deadline have it
//! ```
//!
//! Nothing is remembered that cannot be read off the objects: after a restart the same look gives the same next step.

mod bound;
pub mod drain;
pub mod eviction;
pub mod evictions;
pub mod node;
pub mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{DRAINED, INSTANCE_TERMINATING, Status, VOLUMES_DETACHED};
use karpenter_api::labels::{DISRUPTED_TAINT, TERMINATION_FINALIZER};
use karpenter_index::{Change, Key, Kind, Pair, TrackedPod, Unreadable};
use karpenter_provider::GetError;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::clock::until;
use crate::context::Context;
use crate::error::{Error, Result, unless_gone};
use crate::lifecycle::initialization::is_ready;
use crate::lifecycle::{ask_again, terminate};
use crate::ownership::{Matches, claim_provider_id, is_managed_node, node_provider_id};
use crate::patch::Lock;
use crate::pods::PodFacts;
use crate::reconciler::{Action, Backoff, Reconciler};
use crate::recorder::{Event, ObjectRef};
use crate::settings::Settings;
use crate::unreadable::LOOK_AGAIN;
use volumes::Volumes;

pub use evictions::{Evictions, SharedEntries};

/// After the deletion of its claim a Node is looked at again when the claim says so, or after this while.
const CLAIM_DELETED: Duration = Duration::from_millis(100);
/// How soon an unfinished drain, or volumes that are still attached, are looked at again.
const UNFINISHED: Duration = Duration::from_secs(1);
/// A drain that has lasted longer waits for a budget or a protection. Pods that change wake it, so what is looked at on
/// the clock is only what time itself brings.
const LONG: Duration = Duration::from_secs(60);
const LONG_UNFINISHED: Duration = Duration::from_secs(10);

/// What an instance's end is decided from.
const READS: [Kind; 6] = [
    Kind::Pod,
    Kind::Node,
    Kind::NodeClaim,
    Kind::VolumeAttachment,
    Kind::PersistentVolume,
    Kind::PersistentVolumeClaim,
];

/// The controller `node.termination`.
#[derive(Debug)]
pub struct Termination {
    entries: SharedEntries,
    concurrency: usize,
}

/// Whether a step lets the next one begin.
enum Progress {
    Finished,
    After(Duration),
}

impl Termination {
    pub fn new(entries: SharedEntries, settings: &Settings) -> Self {
        Self { entries, concurrency: settings.parallelism(100, 5_000) }
    }

    async fn end(&self, node: &Arc<Node>, context: &Context) -> Result<Action> {
        if let Some(claim) = unreadable_claim_of(node, context) {
            if !is_ready(node) && is_machine_gone(node, context).await? {
                return release(node, context).await;
            }
            let message = format!("Cannot drain node, its NodeClaim {} cannot be read", claim.key.name);
            publish(context, node, true, "FailedDraining", message);
            return Ok(Action::After(LOOK_AGAIN));
        }
        // With several claims none is the one to ask; with none there is none.
        let found: Matches<Arc<NodeClaim>> = context.index.claims_of_node(node).into_iter().collect();
        let claim = found.one();
        if let Some(claim) = claim.as_ref().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
            let (name, uid) = (claim.metadata.name.as_deref(), claim.metadata.uid.as_deref());
            let reads = [Kind::NodeClaim, Kind::Node];
            context.delete::<NodeClaim>(name.unwrap_or_default(), uid.unwrap_or_default(), &reads).await?;
            // The deletion wakes the claim's own controller, which may have a deadline to write down before the drain.
            return Ok(Action::After(CLAIM_DELETED));
        }
        if !is_ready(node) && is_machine_gone(node, context).await? {
            return release(node, context).await;
        }
        let deadline = self.deadline(node, claim.as_deref(), context)?;
        close(node, context).await?;
        let mut changed = claim.as_deref().cloned();
        let progress = self.progress(node, changed.as_mut(), deadline, context).await;
        if let (Some(claim), Some(changed)) = (&claim, &changed) {
            // Written also if a step failed: what the steps before it found still holds.
            let stored = unless_gone(context.write_status(&**claim, changed, Lock::Version).await)?;
            let (was, is) = (claim.condition_status(DRAINED), changed.condition_status(DRAINED));
            if stored.is_some() && was != Status::True && is == Status::True {
                context.metrics.life.node_drained(node);
            }
        }
        match progress? {
            Progress::After(delay) => Ok(Action::After(delay)),
            Progress::Finished => release(node, context).await,
        }
    }

    /// When the drain must be over.
    fn deadline(&self, node: &Node, claim: Option<&NodeClaim>, context: &Context) -> Result<Option<Timestamp>> {
        let Some(claim) = claim else {
            return Ok(None);
        };
        if let Some(text) = node::deadline_text(claim) {
            let message = format!("All pods will be deleted by {text}");
            publish(context, node, true, "TerminationGracePeriodExpiring", message);
        }
        node::deadline(claim).map_err(|error| Error::other(error.to_string()))
    }

    /// The steps in their order, up to the first that is not finished.
    async fn progress(
        &self,
        node: &Node,
        mut claim: Option<&mut NodeClaim>,
        deadline: Option<Timestamp>,
        context: &Context,
    ) -> Result<Progress> {
        let pods = pods_on(node, context);
        if let unfinished @ Progress::After(_) = self.drain(node, claim.as_deref_mut(), &pods, deadline, context) {
            return Ok(unfinished);
        }
        if let unfinished @ Progress::After(_) = detach(node, claim.as_deref_mut(), deadline, context) {
            return Ok(unfinished);
        }
        if !claim.as_deref().is_some_and(|claim| claim.condition_status(INSTANCE_TERMINATING) == Status::True)
            && let unfinished @ Progress::After(_) = self.confirm(node, claim.as_deref_mut(), deadline, context).await?
        {
            return Ok(unfinished);
        }
        match claim {
            None => Ok(Progress::Finished),
            Some(claim) => stop(claim, context).await,
        }
    }

    /// The last look before the instance goes, past what watches have told: it cannot be taken back.
    async fn confirm(
        &self,
        node: &Node,
        claim: Option<&mut NodeClaim>,
        deadline: Option<Timestamp>,
        context: &Context,
    ) -> Result<Progress> {
        context.heard_lately(&READS)?;
        let bound = bound::pods_on(node.metadata.name.as_deref().unwrap_or_default(), context).await?;
        let now = context.clock.now();
        if let Some(why) = bound.unreadable.first().filter(|_| deadline.is_none_or(|deadline| now < deadline)) {
            let message = format!("Failed to drain node, {} pods cannot be read: {why}", bound.unreadable.len());
            publish(context, node, true, "FailedDraining", message);
            return Ok(Progress::After(look_again(node, deadline, now)));
        }
        Ok(self.drain(node, claim, &bound.pods, deadline, context))
    }

    fn drain(
        &self,
        node: &Node,
        mut claim: Option<&mut NodeClaim>,
        pods: &[PodFacts],
        deadline: Option<Timestamp>,
        context: &Context,
    ) -> Progress {
        let now = context.clock.now();
        if let Some(claim) = claim.as_deref_mut().filter(|claim| claim.condition(DRAINED).is_none()) {
            claim.conditions_at(now).set_unknown(DRAINED, "Draining", "Draining");
        }
        let plan = drain::plan(pods, deadline, now);
        for (key, forced) in
            plan.forced.into_iter().map(|key| (key, true)).chain(plan.turn.into_iter().map(|key| (key, false)))
        {
            let pod = key.key();
            if self.entries.add(key, deadline, now) || forced {
                context.wake(evictions::NAME, pod);
            }
        }
        if plan.waiting > 0 {
            let message = format!("Failed to drain node, {} pods are waiting to be evicted", plan.waiting);
            publish(context, node, true, "FailedDraining", message);
            // Pods may come to a node that was empty.
            if let Some(claim) = claim.filter(|claim| claim.condition_status(DRAINED) == Status::True) {
                claim.conditions_at(now).set_unknown(DRAINED, "Draining", "Draining");
            }
            return Progress::After(look_again(node, deadline, now));
        }
        let left = drain::time_left(claim.as_deref(), now);
        if !left.is_zero() {
            return Progress::After(left.min(UNFINISHED));
        }
        if let Some(claim) = claim {
            claim.conditions_at(now).set_true(DRAINED);
        }
        Progress::Finished
    }
}

/// What the drain may do is written in the claim.
fn unreadable_claim_of(node: &Node, context: &Context) -> Option<Arc<Unreadable>> {
    node_provider_id(node).and_then(|id| context.index.unreadable_claim_of(id))
}

/// Every second at first, and whenever a deadline forces pods out to the second.
fn look_again(node: &Node, deadline: Option<Timestamp>, now: Timestamp) -> Duration {
    let since = node.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    if deadline.is_none() && until(since, now) > LONG { LONG_UNFINISHED } else { UNFINISHED }
}

/// The nodes that a pod left, for good or because it has ended, or came to. Whatever else happens to pods is no news here.
fn left_or_came(pods: &Pair<TrackedPod>) -> impl Iterator<Item = Key> {
    let place = |pod: &Option<Arc<TrackedPod>>| {
        let pod = &pod.as_ref()?.pod;
        pod.node.clone().filter(|_| !pod.is_terminal())
    };
    let (before, after) = (place(&pods.old), place(&pods.new));
    let moved = before != after;
    before.into_iter().chain(after).filter(move |_| moved).map(|name| Key::cluster(&name))
}

fn is_ending(node: &Key, context: &Context) -> bool {
    context.index.node(&node.name).is_some_and(|node| node::is_ending(&node))
}

fn pods_on(node: &Node, context: &Context) -> Vec<PodFacts> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    context.index.pods_on(name).iter().map(|pod| PodFacts::of(pod)).collect()
}

/// A Node that is not ready and whose machine the provider does not know has nothing left to drain.
async fn is_machine_gone(node: &Node, context: &Context) -> Result<bool> {
    let Some(provider_id) = node_provider_id(node) else {
        return Ok(false);
    };
    match context.provider.get(provider_id).await {
        Ok(_) => Ok(false),
        Err(GetError::NotFound { .. }) => Ok(true),
        Err(error @ GetError::Other(_)) => Err(Error::provider("looking the machine up", error)),
    }
}

async fn close(node: &Node, context: &Context) -> Result<()> {
    let mut closed = node.clone();
    node::close(&mut closed);
    if closed == *node {
        return Ok(());
    }
    if unless_gone(context.write(node, &closed, Lock::Version).await)?.is_some() {
        let node = node.metadata.name.as_deref();
        tracing::info!(
            node,
            taint.Key = DISRUPTED_TAINT,
            taint.Value = "",
            taint.Effect = "NoSchedule",
            "tainted node"
        );
    }
    Ok(())
}

/// Waits for volumes; never detaches one itself.
fn detach(node: &Node, claim: Option<&mut NodeClaim>, deadline: Option<Timestamp>, context: &Context) -> Progress {
    let now = context.clock.now();
    let attachments = context.index.attachments_on(node.metadata.name.as_deref().unwrap_or_default());
    let kept: BTreeSet<Arc<str>> = match attachments.is_empty() {
        true => BTreeSet::new(),
        false => kept_volumes(node, context, now),
    };
    let volumes = volumes::judge(&attachments, &kept, deadline, now);
    if let Volumes::Awaiting { message } = &volumes {
        publish(context, node, false, "AwaitingVolumeDetachment", message.clone());
    }
    if let Some(claim) = claim {
        let mut conditions = claim.conditions_at(now);
        let (awaiting, elapsed) = ("AwaitingVolumeDetachment", "TerminationGracePeriodElapsed");
        match volumes {
            Volumes::Detached => conditions.set_true(VOLUMES_DETACHED),
            Volumes::Awaiting { .. } => conditions.set_unknown(VOLUMES_DETACHED, awaiting, awaiting),
            Volumes::GaveUp => conditions.set_false(VOLUMES_DETACHED, elapsed, elapsed),
        };
    }
    match volumes {
        Volumes::Awaiting { .. } => Progress::After(UNFINISHED),
        Volumes::Detached | Volumes::GaveUp => Progress::Finished,
    }
}

/// The volumes of pods that stay until the end. A claim that is missing holds none.
fn kept_volumes(node: &Node, context: &Context, now: Timestamp) -> BTreeSet<Arc<str>> {
    let mut kept = BTreeSet::new();
    for pod in pods_on(node, context).iter().filter(|pod| !pod.is_drainable(now)) {
        for name in pod.volume_claims.iter() {
            let key = Key { namespace: pod.key.namespace.clone(), name: name.clone() };
            kept.extend(context.index.volume_claim(&key).and_then(|claim| claim.volume.clone()));
        }
    }
    kept
}

/// Stops the machine, and waits until it is gone.
async fn stop(claim: &mut NodeClaim, context: &Context) -> Result<Progress> {
    let provider_id = claim_provider_id(claim).unwrap_or_default().to_owned();
    let gone = terminate(claim, &provider_id, context).await?;
    let now = context.clock.now();
    claim.conditions_at(now).set_true(INSTANCE_TERMINATING);
    Ok(if gone { Progress::Finished } else { Progress::After(ask_again(claim, now)) })
}

/// Lets the Node go. Only our entry is taken out of the list, whatever else is in it by now; the UID makes sure that it
/// is this very Node.
async fn release(node: &Node, context: &Context) -> Result<Action> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let body = json!({"metadata": {
        "uid": node.metadata.uid,
        "$deleteFromPrimitiveList/finalizers": [TERMINATION_FINALIZER],
    }});
    let api = Api::<Node>::all(context.client.clone());
    let answer = api.patch(name, &PatchParams::default(), &Patch::Strategic(body)).await.map_err(Error::from);
    let Some(released) = unless_gone(answer)? else {
        return Ok(Action::Done);
    };
    context.saw(released);
    tracing::info!(node = name, "deleted node");
    let now = context.clock.now();
    let since = |time: Option<&karpenter_api::Time>| until(time.map_or(now, |time| time.0), now);
    let (took, age) =
        (since(node.metadata.deletion_timestamp.as_ref()), since(node.metadata.creation_timestamp.as_ref()));
    context.metrics.life.node_terminated(node, took, age);
    Ok(Action::Done)
}

fn publish(context: &Context, node: &Node, warning: bool, reason: &'static str, message: String) {
    let object = ObjectRef::node(node);
    let name = object.name.clone();
    let event = match warning {
        true => Event::warning(object, reason, message),
        false => Event::normal(object, reason, message),
    };
    context.recorder.publish(event.same([name]));
}

#[async_trait]
impl Reconciler for Termination {
    fn name(&self) -> &'static str {
        "node.termination"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        if let Some(nodes) = change.node() {
            return nodes.new.iter().filter(|node| node::is_ending(node)).map(|_| change.key.clone()).collect();
        }
        if let Some(pods) = change.pod() {
            return left_or_came(pods).filter(|key| is_ending(key, context)).collect();
        }
        // A deadline that was written down, or a claim that is gone.
        let claims = change.node_claim().into_iter().flat_map(|pair| pair.both());
        let ids: BTreeSet<&str> = claims.filter_map(|claim| claim_provider_id(claim)).collect();
        let nodes = ids.into_iter().flat_map(|id| context.index.nodes_of(id));
        nodes.filter(|node| node::is_ending(node)).map(|node| Key::of(&node.metadata)).collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        match context.index.node(&key.name) {
            Some(node) if node::is_ending(&node) && is_managed_node(&node, context.provider.node_class_kinds()) => {
                self.end(&node, context).await
            }
            _ => Ok(Action::Done),
        }
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn backoff(&self) -> Backoff {
        Backoff { first: Duration::from_millis(100), last: Duration::from_secs(10), per_second: 10, burst: 100 }
    }
}
