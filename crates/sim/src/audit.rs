//! Whoever looks on: every eviction, every plan, every pod, by rules of its own.
//!
//! Between the controllers and the API server stands an observer that no injected fault strikes. What it finds is
//! computed from the objects themselves, not from what the server or the controllers made of them.

pub(crate) mod budgets;
mod pods;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use karpenter_apiserver::{ApiServer, Body, Service};
use karpenter_core::World;
use karpenter_core::plan::Plan;
use kube::Client;

pub use pods::Pods;

/// Shared by whoever looks and whoever asks.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Every so many plans one is judged: judging is slower than planning by an order of magnitude.
    every: u64,
    events: EventFate,
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
    evictions: u64,
    refused: u64,
    events: u64,
    faulty_plans: Vec<String>,
    /// What else must never be, in order of time.
    violations: Vec<String>,
}

impl Audit {
    /// Judges every so many plans.
    pub fn new(every: u64, events: EventFate) -> Self {
        Self { every: every.max(1), events, books: Arc::default() }
    }

    /// A way to the server that is looked at.
    pub(crate) fn before(&self, server: &ApiServer) -> Audited {
        let observer = Client::new(server.observer(), "default");
        Audited { server: server.service(), observer, audit: self.clone() }
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

    /// Plans made, plans judged, pods evicted, evictions that budgets refused, events told.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let books = self.books();
        [
            ("plans", books.plans),
            ("plans judged", books.judged),
            ("evictions", books.evictions),
            ("evictions refused", books.refused),
            ("events", books.events),
        ]
        .into()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The API server as the controllers see it.
#[derive(Clone)]
pub(crate) struct Audited {
    server: Service,
    observer: Client,
    audit: Audit,
}

impl tower::Service<Request<kube::client::Body>> for Audited {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let mut server = self.server.clone();
        let path = request.uri().path();
        let event = *request.method() == Method::POST && path.ends_with("/events");
        if event && self.audit.events == EventFate::Counted {
            self.audit.books().events += 1;
            return Box::pin(async { Ok(heard()) });
        }
        let end_of_pod = pod_of(path).filter(|(_, _, rest)| match *request.method() {
            Method::POST => *rest == "/eviction",
            Method::DELETE => rest.is_empty(),
            _ => false,
        });
        let Some((namespace, name, rest)) = end_of_pod else {
            return Box::pin(async move { server.call(request).await });
        };
        let (namespace, name, is_eviction) = (namespace.to_owned(), name.to_owned(), !rest.is_empty());
        let (observer, audit) = (self.observer.clone(), self.audit.clone());
        Box::pin(async move {
            let forbidden = budgets::forbidden(&observer, &namespace, &name).await;
            let answer = server.call(request).await;
            let status = answer.as_ref().map_or(StatusCode::OK, Response::status);
            // Whoever answers late may have found other pods than we did: it was wrong only if it still is.
            let wrong = match forbidden.filter(|_| status.is_success()) {
                Some((app, why)) => budgets::short(&observer, &namespace, &app, &name).await.map(|_| why),
                None => None,
            };
            let mut books = audit.books();
            match (status.is_success(), wrong) {
                (true, Some(why)) => books.violations.push(format!("evicted {namespace}/{name} although {why}")),
                (true, None) if !is_eviction => {
                    books.violations.push(format!("{namespace}/{name} was deleted, not evicted"));
                }
                (true, None) => books.evictions += 1,
                (false, _) if status == StatusCode::TOO_MANY_REQUESTS => books.refused += 1,
                (false, _) => {}
            }
            drop(books);
            answer
        })
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
