//! Requests to the API server: no faster than agreed, and counted.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Waiting, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use karpenter_controllers::Context;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;
use tower::{Layer, Service};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    code: String,
    method: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Target {
    verb: String,
    group: String,
    version: String,
    kind: String,
    subresource: String,
}

#[derive(Clone, Copy, Debug)]
struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.001, 1.5, 20))
    }
}

/// What all clones of a client share.
#[derive(Debug)]
pub struct Requests {
    each: Duration,
    burst: u32,
    /// When the next request may go without waiting.
    next: Mutex<Option<Instant>>,
    answers: Family<Answer, Counter>,
    durations: Family<Target, Histogram, Buckets>,
}

impl Requests {
    pub fn new(per_second: u32, burst: u32) -> Arc<Self> {
        Arc::new(Self {
            each: Duration::from_secs(1) / per_second.max(1),
            burst: burst.max(1),
            next: Mutex::default(),
            answers: Family::default(),
            durations: Family::new_with_constructor(Buckets),
        })
    }

    pub fn register(&self, context: &Context) {
        let mut registry = context.metrics.plain_registry();
        registry.register("client_go_request", "Requests to the API server, by answer", self.answers.clone());
        let help = "Duration of requests to the API server";
        registry.register("client_go_request_duration_seconds", help, self.durations.clone());
    }

    /// How long the next request has to wait for its turn.
    fn turn(&self, now: Instant) -> Duration {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(self.each * (self.burst - 1)).unwrap_or(now);
        let at = next.map_or(earliest, |at| at.max(earliest));
        *next = Some(at + self.each);
        at.saturating_duration_since(now)
    }
}

/// Puts them between a client and the wire.
#[derive(Clone, Debug)]
pub struct Counted(pub Arc<Requests>);

impl<S> Layer<S> for Counted {
    type Service = CountedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CountedService { inner, requests: self.0.clone() }
    }
}

#[derive(Clone, Debug)]
pub struct CountedService<S> {
    inner: S,
    requests: Arc<Requests>,
}

impl<S, B, R> Service<Request<B>> for CountedService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, waiting: &mut Waiting<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(waiting)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let requests = self.requests.clone();
        let method = request.method().as_str().to_owned();
        let target = target(&method, request.uri().path(), request.uri().query().unwrap_or_default());
        // Nothing goes out before it is polled.
        let answer = self.inner.call(request);
        async move {
            let wait = requests.turn(Instant::now());
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let started = Instant::now();
            let answered = answer.await;
            let code =
                answered.as_ref().map_or_else(|_| "<error>".to_owned(), |answer| answer.status().as_str().to_owned());
            requests.answers.get_or_create(&Answer { code, method }).inc();
            requests.durations.get_or_create(&target).observe(started.elapsed().as_secs_f64());
            answered
        }
        .boxed()
    }
}

/// Whether the answer lasts as long as there is something to say.
pub(crate) fn is_watch(query: &str) -> bool {
    query.split('&').any(|part| part == "watch=true" || part == "watch=1")
}

/// What a request is about. Names are left out: there are too many of them.
fn target(method: &str, path: &str, query: &str) -> Target {
    let watch = is_watch(query);
    let mut parts = path.trim_matches('/').split('/');
    let (group, version) = match parts.next() {
        Some("api") => (String::new(), parts.next().unwrap_or_default().to_owned()),
        Some("apis") => (parts.next().unwrap_or_default().to_owned(), parts.next().unwrap_or_default().to_owned()),
        _ => (String::new(), String::new()),
    };
    let mut rest: Vec<&str> = parts.collect();
    if rest.first() == Some(&"namespaces") && rest.len() > 2 {
        rest.drain(..2);
    }
    let named = rest.len() > 1;
    let verb = match (method, named) {
        ("GET", _) if watch => "WATCH",
        ("GET", false) => "LIST",
        ("POST", _) | ("PUT", false) => "CREATE",
        ("PUT", true) => "UPDATE",
        (method, _) => method,
    };
    Target {
        verb: verb.to_owned(),
        group,
        version,
        kind: rest.first().copied().unwrap_or_default().to_owned(),
        subresource: rest.get(2).copied().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_by_what_they_are_about() {
        for (method, path, query, want) in [
            ("GET", "/api/v1/nodes", "", ["LIST", "", "v1", "nodes", ""]),
            ("GET", "/api/v1/nodes", "watch=true&x=1", ["WATCH", "", "v1", "nodes", ""]),
            ("GET", "/api/v1/nodes/a", "", ["GET", "", "v1", "nodes", ""]),
            ("POST", "/api/v1/namespaces/n/pods/p/eviction", "", ["CREATE", "", "v1", "pods", "eviction"]),
            (
                "PATCH",
                "/apis/karpenter.sh/v1/nodeclaims/c/status",
                "",
                ["PATCH", "karpenter.sh", "v1", "nodeclaims", "status"],
            ),
            ("GET", "/api/v1/namespaces/n", "", ["GET", "", "v1", "namespaces", ""]),
            ("GET", "/version", "", ["LIST", "", "", "", ""]),
        ] {
            let [verb, group, version, kind, subresource] = want.map(str::to_owned);
            assert_eq!(target(method, path, query), Target { verb, group, version, kind, subresource }, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_in_turn() {
        let requests = Requests::new(10, 3);
        let now = Instant::now();
        let waits: Vec<u128> = (0..6).map(|_| requests.turn(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(requests.turn(Instant::now()), Duration::ZERO);
    }
}
