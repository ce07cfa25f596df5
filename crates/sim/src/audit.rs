//! An observer of everything the controllers do: every plan, every command, every eviction, every node set apart, every instance
//! terminated, by rules of its own.
//!
//! Between the controllers and the API server stands an observer that no injected fault strikes. What it finds is
//! computed from the objects themselves, not from what the server or the controllers made of them.

pub(crate) mod budgets;
mod nodes;
mod pods;
pub(crate) mod terminations;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use karpenter_apiserver::{ApiServer, Body, Service};
use karpenter_controllers::Clock;
use karpenter_core::World;
use karpenter_core::plan::Plan;
use karpenter_disruption::{Command, Policy, Snapshot};
use karpenter_verify::Fault;
use kube::Client;
use serde_json::Value;
use tower::Service as _;

use crate::process::{Current, LEASE, LEASE_NAMESPACE, identity};
use crate::world::send;
use budgets::Scales;

pub use pods::Pods;

/// So many faults of one decision are told; one mistake often shows in every pod.
const MOST_FAULTS: usize = 4;

/// Shared by the observers and those who ask them.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Every so many plans one is judged: judging is slower than planning by an order of magnitude.
    every: u64,
    events: EventFate,
    clock: Clock,
    books: Arc<Mutex<Books>>,
}

/// What becomes of the events that the controllers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFate {
    Kept,
    /// Four of five writes would be these, and nobody reads them in a season.
    Counted,
}

#[derive(Debug, Default)]
struct Books {
    plans: u64,
    judged: u64,
    decisions: u64,
    evictions: u64,
    refused: u64,
    forced: u64,
    events: u64,
    tainted: u64,
    terminations: u64,
    /// Commands that were started, by method.
    commands: BTreeMap<&'static str, u64>,
    scales: Scales,
    faulty_plans: Vec<String>,
    /// What else must never be, in order of time.
    violations: Vec<String>,
}

impl Audit {
    /// Judges every so many plans.
    pub fn new(every: u64, events: EventFate, clock: Clock) -> Self {
        Self { every: every.max(1), events, clock, books: Arc::default() }
    }

    /// A way to the server for one process that is looked at.
    pub(crate) fn before(&self, server: &ApiServer, process: u64, current: &Current) -> Audited {
        let observer = Client::new(server.observer(), "default");
        Audited { server: server.service(), observer, audit: self.clone(), process, current: current.clone() }
    }

    pub(crate) fn judge(&self, world: &World, plan: &Plan) {
        let number = {
            let mut books = self.books();
            books.plans += 1;
            books.plans
        };
        if (number - 1).is_multiple_of(self.every) {
            let faults = karpenter_verify::verify(world, plan);
            let mut books = self.books();
            books.judged += 1;
            let told = faults.iter().map(|fault| format!("plan {number}: {fault:?}"));
            books.faulty_plans.extend(told);
        }
    }

    /// All commands of a pass, as it decided them.
    pub(crate) fn judge_decision(&self, snapshot: &Snapshot<'_>, policy: &Policy, commands: &[Command]) {
        self.books().decisions += 1;
        self.blame("decided", karpenter_verify::verify_decision(snapshot, policy, commands), commands);
    }

    /// Commands that start together, in the cluster as it was last looked at.
    pub(crate) fn judge_start(&self, snapshot: &Snapshot<'_>, policy: &Policy, commands: &[Command]) {
        for command in commands {
            *self.books().commands.entry(counted_as(command)).or_default() += 1;
        }
        self.blame("started", karpenter_verify::verify_start(snapshot, policy, commands), commands);
    }

    fn blame(&self, what: &str, faults: Vec<Fault>, commands: &[Command]) {
        for fault in faults.into_iter().take(MOST_FAULTS) {
            let blamed = fault.command.map_or(commands, |number| &commands[number..=number]);
            let of = |command: &Command| {
                let names: Vec<&str> = command.all_candidates().map(|candidate| &*candidate.name).collect();
                format!("{} of {}", counted_as(command), names.join(" "))
            };
            let blamed: Vec<String> = blamed.iter().map(of).collect();
            self.violated(format!("{} {what} {}: {}", self.clock.now(), blamed.join(", "), fault.what));
        }
    }

    pub fn violated(&self, what: String) {
        self.books().violations.push(what);
    }

    pub fn violations(&self) -> Vec<String> {
        self.books().violations.clone()
    }

    /// What `verify` has to say against plans.
    pub fn faulty_plans(&self) -> Vec<String> {
        self.books().faulty_plans.clone()
    }

    /// A user asks for so many replicas of a workload.
    pub(crate) fn scaled(&self, app: &str, replicas: u64) {
        self.books().scales.set(app, replicas);
    }

    pub(crate) fn terminated(&self) {
        self.books().terminations += 1;
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How many commands were started, by method.
    pub(crate) fn commands(&self) -> BTreeMap<&'static str, u64> {
        self.books().commands.clone()
    }

    /// Plans made, plans judged, passes that decided something, nodes set apart, pods evicted, evictions that budgets
    /// refused, pods deleted at a deadline, instances terminated, events told.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let books = self.books();
        [
            ("plans", books.plans),
            ("plans judged", books.judged),
            ("decisions", books.decisions),
            ("nodes tainted", books.tainted),
            ("evictions", books.evictions),
            ("evictions refused", books.refused),
            ("pods forced out", books.forced),
            ("terminations", books.terminations),
            ("events", books.events),
        ]
        .into()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn counted_as(command: &Command) -> &'static str {
    use karpenter_disruption::Method;
    match command.method {
        Method::Empty => "command_empty",
        Method::StaticDrift => "command_static_drift",
        Method::Drift => "command_drift",
        Method::Multi => "command_multi",
        Method::Single => "command_single",
    }
}

/// The API server as the controllers of one process see it.
#[derive(Clone)]
pub(crate) struct Audited {
    server: Service,
    observer: Client,
    audit: Audit,
    process: u64,
    current: Current,
}

/// What is looked at.
enum Act {
    EventCreated,
    /// A pod is evicted or deleted: namespace, name.
    PodEnds {
        namespace: String,
        name: String,
        is_eviction: bool,
    },
    NodeChanges {
        name: String,
    },
    Other,
}

impl Act {
    fn of(method: &Method, path: &str) -> Self {
        if *method == Method::POST && path.ends_with("/events") {
            return Self::EventCreated;
        }
        if let Some((namespace, name, rest)) = pod_of(path) {
            let is_eviction = *method == Method::POST && rest == "/eviction";
            if is_eviction || *method == Method::DELETE && rest.is_empty() {
                return Self::PodEnds { namespace: namespace.to_owned(), name: name.to_owned(), is_eviction };
            }
        }
        let node = path.strip_prefix("/api/v1/nodes/").filter(|name| !name.contains('/'));
        match node.filter(|_| *method == Method::PATCH || *method == Method::PUT) {
            Some(name) => Self::NodeChanges { name: name.to_owned() },
            None => Self::Other,
        }
    }
}

impl tower::Service<Request<kube::client::Body>> for Audited {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let mut seen = self.clone();
        let act = Act::of(request.method(), request.uri().path());
        if matches!(act, Act::EventCreated) && self.audit.events == EventFate::Counted {
            self.audit.books().events += 1;
            return Box::pin(async { Ok(heard()) });
        }
        let path = request.uri().path();
        let writes = *request.method() != Method::GET && !path.contains("/leases");
        // Only whoever was followed by another can write without leading.
        let suspicious = writes && self.process < self.current.number();
        Box::pin(async move {
            if suspicious {
                seen.must_lead(request.method().as_str(), request.uri().path()).await;
            }
            match act {
                Act::PodEnds { namespace, name, is_eviction } => {
                    seen.end_of_pod(request, &namespace, &name, is_eviction).await
                }
                Act::NodeChanges { name } => seen.change_of_node(request, &name).await,
                Act::EventCreated | Act::Other => seen.server.call(request).await,
            }
        })
    }
}

impl Audited {
    async fn end_of_pod(
        &mut self,
        request: Request<kube::client::Body>,
        namespace: &str,
        name: &str,
        is_eviction: bool,
    ) -> Result<Response<Body>, Infallible> {
        let (observer, audit) = (&self.observer, &self.audit);
        let scales = || audit.books().scales.clone();
        let forbidden = match is_eviction {
            true => budgets::forbidden(observer, &scales(), namespace, name).await,
            false => None,
        };
        let in_time = is_eviction || !budgets::is_due(observer, namespace, name, audit.clock.now()).await;
        let answer = self.server.call(request).await;
        let status = answer.as_ref().map_or(StatusCode::OK, Response::status);
        // Whoever answers late may have found other pods than we did: it was wrong only if it still is.
        let wrong = match forbidden.filter(|_| status.is_success()) {
            Some((labels, why)) => budgets::short(observer, &scales(), namespace, &labels, name).await.map(|_| why),
            None => None,
        };
        let now = audit.clock.now();
        let mut books = audit.books();
        match (status.is_success(), wrong) {
            (true, Some(why)) => books.violations.push(format!("{now} evicted {namespace}/{name} although {why}")),
            (true, None) if !is_eviction && in_time => {
                books.violations.push(format!("{now} {namespace}/{name} was deleted, not evicted"));
            }
            (true, None) if !is_eviction => books.forced += 1,
            (true, None) => books.evictions += 1,
            (false, _) if status == StatusCode::TOO_MANY_REQUESTS => books.refused += 1,
            (false, _) => {}
        }
        drop(books);
        answer
    }

    /// A node that is set apart is one less for its pool.
    async fn change_of_node(
        &mut self,
        request: Request<kube::client::Body>,
        name: &str,
    ) -> Result<Response<Body>, Infallible> {
        let before = self.node(name).await;
        let answer = self.server.call(request).await;
        let Some(before) = before.filter(|node| !nodes::is_tainted(node)) else { return answer };
        let after = self.node(name).await;
        if let Some(node) = after.filter(|node| nodes::is_tainted(node) && !nodes::is_deleting(&before)) {
            self.audit.books().tainted += 1;
            let now = self.audit.clock.now();
            if let Some(why) = nodes::over_budget(&self.observer, &node, now).await {
                self.audit.violated(format!("{now} node {name} was tainted although {why}"));
            }
        }
        answer
    }

    async fn node(&self, name: &str) -> Option<Value> {
        let path = format!("/api/v1/nodes/{name}");
        send(&self.observer, "GET", &path, "application/json", &Value::Null).await.ok()
    }

    /// Nobody writes who does not hold the lease.
    async fn must_lead(&self, method: &str, path: &str) {
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases/{LEASE}");
        let lease = send(&self.observer, "GET", &lease, "application/json", &Value::Null).await;
        let holder = lease.ok().and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(str::to_owned));
        let us = identity(self.process);
        if let Some(holder) = holder.filter(|holder| *holder != us) {
            let now = self.audit.clock.now();
            self.audit.violated(format!("{now} {method} {path} came from {us} though {holder} leads"));
        }
    }
}

/// As if an event had been created.
fn heard() -> Response<Body> {
    let mut answer = Response::new(Body::full(HEARD.as_bytes()));
    *answer.status_mut() = StatusCode::CREATED;
    answer
}

const HEARD: &str = r#"{"apiVersion":"v1","kind":"Event","metadata":{},"involvedObject":{}}"#;

/// Namespace, name, and what follows.
fn pod_of(path: &str) -> Option<(&str, &str, &str)> {
    let (namespace, rest) = path.strip_prefix("/api/v1/namespaces/")?.split_once("/pods/")?;
    let end = rest.find('/').unwrap_or(rest.len());
    Some((namespace, &rest[..end], &rest[end..]))
}

/// The share of sorted durations that is not longer.
pub(crate) fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_known_by_its_path() {
        for (path, want) in [
            ("/api/v1/namespaces/a/pods/p", Some(("a", "p", ""))),
            ("/api/v1/namespaces/a/pods/p/eviction", Some(("a", "p", "/eviction"))),
            ("/api/v1/namespaces/a/pods/p/status", Some(("a", "p", "/status"))),
            ("/api/v1/namespaces/a/pods", None),
            ("/api/v1/nodes/p", None),
        ] {
            assert_eq!(pod_of(path), want, "{path}");
        }
    }

    #[test]
    fn percentiles_are_of_what_is_there() {
        let seconds: Vec<Duration> = (1..=101).map(Duration::from_secs).collect();
        assert_eq!(percentile(&seconds, 0.5), Duration::from_secs(51));
        assert_eq!(percentile(&seconds, 1.0), Duration::from_secs(101));
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }
}
