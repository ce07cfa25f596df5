//! The server: options in, a service out.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::body::Body;
use crate::clock::{Clock, SystemClock};
use crate::error::ApiError;
use crate::faults::{Fault, Faults};
use crate::history::{Digest, Write, WriteLog};
use crate::ids::Ids;
use crate::planted::Planted;
use crate::registry::Registry;
use crate::request::{Query, Request, User};
use crate::state::State;
use crate::store::Store;
use crate::{auth, bootstrap, conversion, dispatch, faults};

/// How a server is made. No `Default` hides a choice: [`Options::new`] names the usual ones.
#[derive(Clone)]
pub struct Options {
    pub clock: Arc<dyn Clock>,
    /// Uids and name suffixes follow from it.
    pub seed: u64,
    /// Whether roles decide; otherwise whoever is known may do everything.
    pub rbac: bool,
    /// Whether every write is kept for [`ApiServer::history`]; the digest is always there.
    pub keep_history: bool,
}

impl Options {
    /// The machine's clock, seed zero, no RBAC, no history.
    pub fn new() -> Self {
        Self { clock: Arc::new(SystemClock), seed: 0, rbac: false, keep_history: false }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("seed", &self.seed).field("rbac", &self.rbac).finish_non_exhaustive()
    }
}

/// What all watches are told at once. The number makes each order new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchOrder {
    Go,
    Drop(u64),
    Expire(u64),
}

pub(crate) struct Inner {
    state: Mutex<State>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rbac: bool,
    pub(crate) tokens: auth::Tokens,
    pub(crate) faults: Mutex<Faults>,
    pub(crate) handlers: conversion::Handlers,
    pub(crate) watch_orders: tokio::sync::watch::Sender<WatchOrder>,
}

impl Inner {
    /// The state, at the present time. A panic elsewhere is no reason to stop serving: every write is whole or not there.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = self.clock.now();
        state
    }
}

/// An in-memory Kubernetes API server. Clones share one state.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

impl ApiServer {
    /// A server with what every cluster starts with: its namespaces, priority classes, roles and the `kubernetes` service.
    pub fn new(options: Options) -> Self {
        let mut store = Store::new(WriteLog::new(options.keep_history));
        let registry = Registry::with_builtin(&mut store);
        let mut ids = Ids::new(options.seed);
        let tokens = auth::Tokens::new(&mut ids);
        let now = options.clock.now();
        let mut state = State { store, registry, ids, now, rbac: options.rbac, planted: None };
        bootstrap::fill(&mut state);
        let inner = Inner {
            state: Mutex::new(state),
            clock: options.clock,
            rbac: options.rbac,
            tokens,
            faults: Mutex::new(Faults::new(options.seed)),
            handlers: conversion::Handlers::default(),
            watch_orders: tokio::sync::watch::Sender::new(WatchOrder::Go),
        };
        Self { inner: Arc::new(inner) }
    }

    /// A service for clients in this process, acting as an administrator. For `kube::Client::new`.
    pub fn service(&self) -> Service {
        self.service_as(User::admin())
    }

    /// A service acting as `user` unless a request brings a bearer token.
    pub fn service_as(&self, user: User) -> Service {
        Service { server: self.clone(), user: Some(user) }
    }

    /// A service for whoever measures: no injected fault strikes it.
    pub fn observer(&self) -> Service {
        self.service_as(User::new(faults::OBSERVER, &["system:masters"]))
    }

    /// How often each kind of injected fault struck.
    pub fn faults_fired(&self) -> std::collections::BTreeMap<&'static str, u64> {
        self.inner.faults.lock().unwrap_or_else(PoisonError::into_inner).fired.clone()
    }

    /// A service where only bearer tokens count, for clients on the network.
    pub fn service_by_token(&self) -> Service {
        Service { server: self.clone(), user: None }
    }

    /// Makes `token` speak for `user`.
    pub fn add_token(&self, token: &str, user: User) {
        self.inner.tokens.add(token, user);
    }

    /// Every write so far, if the server keeps them.
    pub fn history(&self) -> Vec<Write> {
        self.inner.state().store.log.writes().to_vec()
    }

    /// The count and hash of all writes so far: equal digests, equal histories.
    pub fn digest(&self) -> Digest {
        self.inner.state().store.log.digest()
    }

    /// How many writes there were of each kind of object.
    pub fn writes_by_kind(&self) -> std::collections::BTreeMap<String, u64> {
        self.inner.state().store.log.counts().clone()
    }

    /// The version of the last write.
    pub fn version(&self) -> u64 {
        self.inner.state().store.version()
    }

    /// Forgets the past: watches and lists at older versions get 410 Gone.
    pub fn compact(&self) {
        self.inner.state().store.compact();
    }

    /// Makes the server wrong in one way, for tests of what compares it.
    #[doc(hidden)]
    pub fn plant(&self, fault: Planted) {
        self.inner.state().planted = Some(fault);
    }

    /// What is broken in the store, which is nothing, whatever was asked of the server.
    #[doc(hidden)]
    pub fn violations(&self) -> Vec<String> {
        crate::invariants::violations(&self.inner.state())
    }

    /// From now on, requests that `fault` matches fail as it says.
    pub fn inject(&self, fault: Fault) {
        self.inner.faults.lock().unwrap_or_else(PoisonError::into_inner).add(fault);
    }

    /// Answers calls to the conversion webhook at `url` here: it gets a `ConversionReview` and answers one. A webhook named
    /// by its service has the URL `https://NAME.NAMESPACE.svc:PORT/PATH`; those nobody answers here are called over HTTPS.
    pub fn serve_webhook(&self, url: &str, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) {
        let mut handlers = self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.insert(url.to_owned(), Arc::new(answer));
    }

    /// No more faults.
    pub fn clear_faults(&self) {
        self.inner.faults.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Ends every watch without a word, as a restart of the server does.
    pub fn drop_watches(&self) {
        self.inner.watch_orders.send_modify(|order| *order = WatchOrder::Drop(next(*order)));
    }

    /// Ends every watch with 410 Gone.
    pub fn expire_watches(&self) {
        self.inner.watch_orders.send_modify(|order| *order = WatchOrder::Expire(next(*order)));
    }

    /// Answers one request.
    pub(crate) async fn answer(&self, parts: http::request::Parts, body: Bytes, user: Option<User>) -> Response<Body> {
        let header = |name: header::HeaderName| text_of(&parts.headers, &name);
        // Without a token only what says whether and what we are is answered.
        let user = user.or_else(|| dispatch::is_open(parts.uri.path()).then(User::anonymous));
        let user = match self.inner.tokens.authenticate(&self.inner, &header(header::AUTHORIZATION), user) {
            Ok(user) => user,
            Err(error) => return failure(&error),
        };
        let request = Request {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            content_type: header(header::CONTENT_TYPE),
            accept: header(header::ACCEPT),
            user_agent: header(header::USER_AGENT),
            user,
            body,
        };
        let user = match auth::impersonate(&self.inner, &request.user, &parts.headers) {
            Ok(user) => user,
            Err(error) => return failure(&error),
        };
        let request = Request { user, ..request };
        let verdict = self.inner.faults.lock().unwrap_or_else(PoisonError::into_inner).draw(&request);
        if let Some(latency) = verdict.latency {
            tokio::time::sleep(latency).await;
        }
        if let Some(error) = verdict.error {
            return failure(&error);
        }
        for _ in 0..conversion::ROUNDS {
            // Whatever a body that is still being read noted down here is not ours.
            drop(conversion::Wanted::take());
            let answer = dispatch::dispatch(&self.inner, &request).await;
            let Some(wanted) = conversion::Wanted::take() else {
                return answer.unwrap_or_else(|error| failure(&error));
            };
            if let Err(error) = wanted.find(&self.inner).await {
                return failure(&error);
            }
        }
        failure(&conversion::waits())
    }
}

fn next(order: WatchOrder) -> u64 {
    match order {
        WatchOrder::Go => 1,
        WatchOrder::Drop(n) | WatchOrder::Expire(n) => n + 1,
    }
}

fn text_of(headers: &HeaderMap, name: &header::HeaderName) -> String {
    // Several Accept headers are one list.
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// A JSON answer.
pub(crate) fn json_response(code: u16, value: &Value) -> Response<Body> {
    bytes_response(code, "application/json", crate::render::bytes(value))
}

pub(crate) fn bytes_response(code: u16, content_type: &str, bytes: impl Into<Bytes>) -> Response<Body> {
    response(code, content_type, Body::full(bytes))
}

pub(crate) fn response(code: u16, content_type: &str, body: Body) -> Response<Body> {
    Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::CACHE_CONTROL, "no-cache, private")
        .body(body)
        .expect("the parts are well-formed")
}

pub(crate) fn failure(error: &ApiError) -> Response<Body> {
    let mut response = json_response(error.code, &error.status());
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, http::HeaderValue::from(seconds));
    }
    response
}

/// The server as a tower service.
#[derive(Clone, Debug)]
pub struct Service {
    server: ApiServer,
    user: Option<User>,
}

impl<B> tower::Service<http::Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (server, user) = (self.server.clone(), self.user.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) => {
                    return Ok(failure(&ApiError::bad_request(format!("the body could not be read: {error}"))));
                }
            };
            if body.len() > MAX_BODY {
                let message = format!("Request entity too large: limit is {MAX_BODY}");
                return Ok(failure(&ApiError::new(413, "RequestEntityTooLarge", message)));
            }
            Ok(server.answer(parts, body, user).await)
        })
    }
}

/// What the reference server takes at most.
const MAX_BODY: usize = 3 << 20;
