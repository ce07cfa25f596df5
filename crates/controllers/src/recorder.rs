//! What was decided and what people should know: one value each, rendered as Events, log lines and views.

mod post;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Waiting, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::decision::{Decision, Decisions, NodeRecord, Record};

pub(crate) use post::post;

/// The same reason about the same object is told once in this time, unless an event says otherwise.
const DEDUPLICATION: Duration = Duration::from_secs(120);
/// Beyond this many unsent events the oldest are dropped: a server that cannot keep up needs fewer of them.
const UNSENT: usize = 1000;
/// Remembered keys are swept when there are this many, or twice what the last sweep left.
const SWEEP: usize = 1024;

/// The object an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl ObjectRef {
    pub fn new(api_version: &'static str, kind: &'static str, metadata: &ObjectMeta) -> Self {
        Self {
            api_version,
            kind,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }

    pub fn node_claim(claim: &karpenter_api::NodeClaim) -> Self {
        Self::new("karpenter.sh/v1", "NodeClaim", &claim.metadata)
    }

    pub fn node_pool(pool: &karpenter_api::NodePool) -> Self {
        Self::new("karpenter.sh/v1", "NodePool", &pool.metadata)
    }

    pub fn node(node: &k8s_openapi::api::core::v1::Node) -> Self {
        Self::new("v1", "Node", &node.metadata)
    }

    pub fn pod(pod: &karpenter_core::Pod) -> Self {
        Self {
            api_version: "v1",
            kind: "Pod",
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
        }
    }
}

/// Something worth telling about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub object: ObjectRef,
    pub warning: bool,
    /// Upper camel case.
    pub reason: &'static str,
    pub message: String,
    /// What besides the reason makes it the same event; empty means the object's uid.
    pub same: Vec<String>,
    pub window: Duration,
    pub limit: Option<Limit>,
}

/// A bound that events of one reason share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub per_second: u32,
    pub burst: u32,
}

impl Event {
    pub fn normal(object: ObjectRef, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            object,
            warning: false,
            reason,
            message: message.into(),
            same: Vec::new(),
            window: DEDUPLICATION,
            limit: None,
        }
    }

    pub fn warning(object: ObjectRef, reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: true, ..Self::normal(object, reason, message) }
    }

    #[must_use]
    pub fn within(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    #[must_use]
    pub fn same(self, same: impl IntoIterator<Item = String>) -> Self {
        Self { same: same.into_iter().collect(), ..self }
    }

    #[must_use]
    pub fn limited(self, limit: Limit) -> Self {
        Self { limit: Some(limit), ..self }
    }
}

/// Takes events; never blocks. Duplicates are dropped here, the rest is sent by the engine.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    state: Mutex<State>,
    engine: AtomicWaker,
}

#[derive(Debug, Default)]
struct State {
    told: FxHashMap<(&'static str, Vec<String>), Instant>,
    sweep_at: usize,
    buckets: FxHashMap<&'static str, Bucket>,
    unsent: VecDeque<(Event, Timestamp, i128)>,
    last_name: i128,
    decisions: Decisions,
    judged: Option<(Timestamp, Arc<[NodeRecord]>)>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Recorder {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { shared: Arc::new(Shared { clock, state: Mutex::default(), engine: AtomicWaker::new() }) }
    }

    /// Sends an event, unless the same one was sent lately or its limit is reached; answers whether it is sent.
    pub fn publish(&self, event: Event) -> bool {
        let (instant, now) = (Instant::now(), self.shared.clock.now());
        {
            let mut state = self.state();
            if !state.admits(&event, instant) {
                return false;
            }
            tracing::debug!(kind = event.object.kind, name = %event.object.name, reason = event.reason, "{}", event.message);
            // Names carry a time that is unique in the process, as upstream's do.
            state.last_name = now.as_nanosecond().max(state.last_name + 1);
            let name = state.last_name;
            if state.unsent.len() == UNSENT {
                state.unsent.pop_front();
            }
            state.unsent.push_back((event, now, name));
        }
        self.shared.engine.wake();
        true
    }

    /// Keeps a decision for views and reports.
    pub fn decided(&self, decision: Decision) {
        let now = self.shared.clock.now();
        self.state().decisions.add(now, decision);
    }

    /// The decisions from this number on, as far as they are kept.
    pub fn decisions_since(&self, number: u64) -> Vec<Arc<Record>> {
        self.state().decisions.since(number)
    }

    /// What a pass of disruption found out about every node, in place of what the last one did.
    pub(crate) fn judged(&self, nodes: Vec<NodeRecord>) {
        let now = self.shared.clock.now();
        self.state().judged = Some((now, nodes.into()));
    }

    /// Why each node stays or goes, by name, and when that was found out.
    pub fn judgements(&self) -> Option<(Timestamp, Arc<[NodeRecord]>)> {
        self.state().judged.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn poll_unsent(&self, waiting: &mut Waiting<'_>) -> Poll<(Event, Timestamp, i128)> {
        self.shared.engine.register(waiting.waker());
        match self.state().unsent.pop_front() {
            Some(event) => Poll::Ready(event),
            None => Poll::Pending,
        }
    }
}

impl State {
    fn admits(&mut self, event: &Event, now: Instant) -> bool {
        let same = if event.same.is_empty() { vec![event.object.uid.clone()] } else { event.same.clone() };
        let key = (event.reason, same);
        if self.told.get(&key).is_some_and(|until| now < *until) {
            return false;
        }
        if let Some(limit) = event.limit {
            let bucket = self.buckets.entry(event.reason).or_insert(Bucket { tokens: f64::from(limit.burst), at: now });
            let gained = now.duration_since(bucket.at).as_secs_f64() * f64::from(limit.per_second);
            bucket.tokens = (bucket.tokens + gained).min(f64::from(limit.burst));
            bucket.at = now;
            if bucket.tokens < 1.0 {
                return false;
            }
            bucket.tokens -= 1.0;
        }
        if self.told.len() >= self.sweep_at.max(SWEEP) {
            self.told.retain(|_, until| now < *until);
            // The cost of a sweep is spread over as many events as it left.
            self.sweep_at = self.told.len() * 2;
        }
        self.told.insert(key, now + event.window);
        true
    }
}

#[cfg(test)]
mod tests;
