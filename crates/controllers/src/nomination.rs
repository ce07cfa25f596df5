//! Plans come true: planned pods are nominated to their node as it appears.
//!
//! kube-scheduler places pods by its own scoring and would break the packing that nodes were bought for. From 1.35 on
//! it tries `status.nominatedNodeName` first and keeps that pod's room free from others of its priority or less. It
//! clears the field at every failed attempt, so it is set again while the pod waits and the node is coming. A
//! nomination is a hint: the node that can take the pod first may have it.
//!
//! Each nomination that the scheduler clears makes it try every other pod again, so setting it again at once would keep
//! the two of us busy until the node is there. It matters at the moment when the node can take pods: so it is set again
//! whenever the node goes a step further, and otherwise only now and then.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use karpenter_api::conditions;
use karpenter_index::{Change, Key, Machine, TrackedPod};
use serde_json::json;
use tokio::time::Instant;

use crate::clock::later;
use crate::context::Context;
use crate::error::{Error, Result, unless_gone};
use crate::reconciler::{Action, Backoff, Reconciler};

/// So many pods of one node may be patched at once.
const PATCHES: usize = 50;

/// Lost nominations are set again after this while nothing happens to their node, then after twice as long, and so on:
/// soon enough to be there when the node is, a moment after another one was.
const FIRST_RENEWAL: Duration = Duration::from_millis(100);
const LAST_RENEWAL: Duration = Duration::from_secs(5);

/// Keyed by NodeClaim.
#[derive(Debug, Default)]
pub struct Nomination {
    renewed: Mutex<BTreeMap<Key, Renewed>>,
    /// The server does not let us: everything else works without.
    forbidden: AtomicBool,
}

#[async_trait]
impl Reconciler for Nomination {
    fn name(&self) -> &'static str {
        "pod.nomination"
    }

    /// A Node of ours appeared or went on a stage, or a planned pod lost its nomination.
    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        if !context.settings.nominate_pods || self.forbidden.load(Ordering::Relaxed) {
            return Vec::new();
        }
        if let Some(node) = change.node().and_then(|pair| pair.new.as_ref()) {
            let claims = context.index.claims_of_node(node).into_iter();
            return claims.map(|claim| Key::of(&claim.metadata)).collect();
        }
        let pod = change.pod().and_then(|pair| pair.new.as_ref());
        let waiting = pod.filter(|pod| pod.pod.node.is_none() && pod.pod.nominated_node.is_none());
        let claim = waiting.and_then(|_| context.index.planned_claim(&change.key));
        claim.map(|name| Key::cluster(&name)).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let machine = context.index.machine_of_claim(&key.name).filter(|_| !self.forbidden.load(Ordering::Relaxed));
        let Some(machine) = machine else {
            self.renewed().remove(key);
            return Ok(Action::Done);
        };
        let now = context.clock.now();
        context.index.end_plans(now);
        let pods = context.index.planned_for(&key.name);
        let step = next_step(&machine, now, context.settings.nomination_window());
        let Step::Nominate { node, until } = step.unless(pods.is_empty()) else {
            self.renewed().remove(key);
            return Ok(Action::Done);
        };
        let face = Face::of(&machine);
        let last = self.renewed().get(key).cloned();
        if let Some(wait) = last.as_ref().and_then(|last| last.wait(&face, Instant::now())) {
            return Ok(Action::After(wait));
        }
        let times = last.filter(|last| last.face == face).map_or(0, |last| last.times + 1);
        let renewed = Renewed { at: Instant::now(), face, times };
        let pause = renewed.pause();
        self.renewed().insert(key.clone(), renewed);
        if let Some(until) = until {
            // Until its pods are bound the node looks empty: whoever removes empty nodes must wait for them.
            context.index.nominate(&machine.id, until);
        }
        self.nominate(context, &node, &pods).await?;
        // A scheduler that clears a nomination at once does so before anybody has seen it set.
        Ok(Action::After(pause))
    }

    fn concurrency(&self) -> usize {
        20
    }

    fn backoff(&self) -> Backoff {
        Backoff { first: Duration::from_millis(100), last: Duration::from_secs(10), ..Backoff::default() }
    }
}

/// When nominations to a node were last set, and how the node looked then.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Renewed {
    at: Instant,
    face: Face,
    /// How often since the node last went a step further.
    times: u32,
}

impl Renewed {
    fn pause(&self) -> Duration {
        FIRST_RENEWAL.saturating_mul(1 << self.times.min(10)).min(LAST_RENEWAL)
    }

    /// How long to wait before they are set again; not at all once the node has gone a step further.
    fn wait(&self, face: &Face, now: Instant) -> Option<Duration> {
        let left = (self.at + self.pause()).saturating_duration_since(now);
        (self.face == *face && !left.is_zero()).then_some(left)
    }
}

/// What of a node decides whether it can take pods.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Face {
    initialized: bool,
    ready: bool,
    taints: Vec<String>,
}

impl Face {
    fn of(machine: &Machine) -> Self {
        let node = machine.node.as_deref();
        let conditions = node.and_then(|node| node.status.as_ref()).and_then(|status| status.conditions.as_ref());
        let is_ready = |all: &Vec<NodeCondition>| all.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        let taints = node.and_then(|node| node.spec.as_ref()).and_then(|spec| spec.taints.as_ref());
        Self {
            initialized: machine.reduced.as_ref().is_some_and(|reduced| reduced.is_initialized()),
            ready: conditions.is_some_and(is_ready),
            taints: taints.into_iter().flatten().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Wait,
    /// Until then, if the end is known: before it is complete a node may take its time.
    Nominate {
        node: String,
        until: Option<Timestamp>,
    },
}

impl Step {
    fn unless(self, nobody: bool) -> Self {
        if nobody { Self::Wait } else { self }
    }
}

/// A node is worth nominating to from when its Node exists, for as long as pods are planned for it. Once it is complete
/// it is shielded a while longer each time.
fn next_step(machine: &Machine, now: Timestamp, window: Duration) -> Step {
    let (Some(node), Some(reduced)) = (&machine.node, &machine.reduced) else { return Step::Wait };
    let Some(node) = node.metadata.name.clone().filter(|_| !reduced.deleting && reduced.is_managed()) else {
        return Step::Wait;
    };
    let initialized = machine.claim.as_ref().and_then(|claim| claim.condition(conditions::INITIALIZED));
    let complete = initialized.filter(|condition| condition.status == "True");
    Step::Nominate { node, until: complete.map(|_| later(now, window)) }
}

/// A pod that preempts others has its own nomination, which is left alone.
fn is_free(pod: &TrackedPod) -> bool {
    pod.pod.node.is_none() && pod.pod.nominated_node.is_none() && !pod.pod.terminating && !pod.pod.is_terminal()
}

impl Nomination {
    fn renewed(&self) -> MutexGuard<'_, BTreeMap<Key, Renewed>> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn nominate(&self, context: &Context, node: &str, pods: &[std::sync::Arc<TrackedPod>]) -> Result<()> {
        let mut patches: Vec<BoxFuture<'_, Result<()>>> = Vec::new();
        for pod in pods.iter().filter(|pod| is_free(pod)) {
            patches.push(Box::pin(async move {
                let pod = &pod.pod;
                // The uid makes sure that it is this pod and not its successor of the same name.
                let body = json!({"metadata": {"uid": &*pod.uid}, "status": {"nominatedNodeName": node}});
                let answer = context.merge_pod_status(&pod.namespace, &pod.name, &body).await;
                unless_gone(answer).map(|_| ())
            }));
        }
        let results: Vec<Result<()>> = stream::iter(patches).buffered(PATCHES).collect().await;
        let mut errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
        if errors.iter().any(Error::is_forbidden) {
            // Whoever else was under way meets the same refusal.
            if !self.forbidden.swap(true, Ordering::Relaxed) {
                tracing::info!("no permission to patch pods/status: planned pods are not nominated to their nodes");
            }
            errors.retain(|error| !error.is_forbidden());
        }
        // A pod that was bound meanwhile has what it waited for.
        errors.retain(|error| !error.is_conflict() && !error.is_invalid());
        Error::all(errors)
    }
}

#[cfg(test)]
mod tests;
