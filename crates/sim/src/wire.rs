//! The way between the controllers and the API server, and what may become of it: connections that something on the way forgot,
//! requests that nobody answers, objects in a shape of a later Kubernetes that this version cannot read.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use karpenter_apiserver::Body;
use karpenter_aws_sim::chance::draw;
use serde_json::Value;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

use crate::audit::Audited;

/// By so much requests are late.
const LATE: Duration = Duration::from_millis(700);

/// What every process of a world goes through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// How many watches were opened so far.
    opened: u64,
    /// Watches of these collections that were opened up to then say nothing any more.
    forgotten: Vec<(&'static str, u64)>,
    /// All watches of these collections are accepted and say nothing until then.
    mute: Vec<(&'static str, Instant)>,
    /// Requests that are made until then are never answered.
    unanswered: Option<Instant>,
    /// The same for what a process asks about its lease.
    cut: BTreeMap<u64, Instant>,
    /// How many requests were lost so far.
    lost: u64,
    /// Of a thousand requests so many arrive late, as a seed draws them.
    late: Option<(u64, u64)>,
    asked: u64,
    garbled: Vec<Garbled>,
    /// By kind of fault: how often it struck.
    struck: BTreeMap<&'static str, u64>,
}

/// An object that comes in a shape that nobody can read.
#[derive(Clone)]
pub(crate) struct Garbled {
    /// The plural name of its kind.
    pub(crate) resource: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) shape: fn(&mut Value),
}

impl fmt::Debug for Garbled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.resource, self.namespace, self.name)
    }
}

impl Garbled {
    fn is_of(&self, path: &str) -> bool {
        path.split('/').any(|part| part == self.resource)
    }

    fn garble(&self, object: &mut Value) -> bool {
        let metadata = &object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        let same = text("name") == self.name && text("namespace") == self.namespace && object["spec"].is_object();
        if same {
            (self.shape)(object);
        }
        same
    }
}

impl Wire {
    /// The connection of watches of this collection, or of all, is forgotten on the way: they stay open and say nothing. New ones
    /// are well.
    pub(crate) fn forget_watches(&self, collection: &'static str) {
        let mut state = self.state();
        let opened = state.opened;
        state.forgotten.push((collection, opened));
        state.strike("watches_forgotten");
    }

    /// Watches of this collection are accepted and say nothing for so long.
    pub(crate) fn mute_watches(&self, collection: &'static str, length: Duration) {
        let until = Instant::now() + length;
        let mut state = self.state();
        state.mute.retain(|(_, until)| Instant::now() < *until);
        state.mute.push((collection, until));
        state.strike("watches_muted");
    }

    /// What is asked for so long is never answered. Half of it arrives.
    pub(crate) fn lose_requests(&self, length: Duration) {
        self.state().unanswered = Some(Instant::now() + length);
    }

    /// From now on so many of a thousand requests arrive late.
    pub(crate) fn be_late(&self, seed: u64, per_mille: u64) {
        self.state().late = Some((seed, per_mille));
    }

    /// A process cannot renew its lease for so long.
    pub(crate) fn cut_lease(&self, process: u64, length: Duration) {
        self.state().cut.insert(process, Instant::now() + length);
    }

    /// From now on this object cannot be read.
    pub(crate) fn garble(&self, object: Garbled) {
        self.state().garbled.push(object);
    }

    pub(crate) fn is_garbled(&self, resource: &str, namespace: &str, name: &str) -> bool {
        let state = self.state();
        let mut all = state.garbled.iter();
        all.any(|one| one.resource == resource && one.namespace == namespace && one.name == name)
    }

    pub(crate) fn clear(&self, resource: &str, namespace: &str, name: &str) {
        let other = |one: &Garbled| one.resource != resource || one.namespace != namespace || one.name != name;
        self.state().garbled.retain(other);
    }

    /// Everything is well again.
    pub(crate) fn recover(&self) {
        let mut state = self.state();
        (state.unanswered, state.mute, state.cut, state.late) = (None, Vec::new(), BTreeMap::new(), None);
        state.garbled.clear();
    }

    pub(crate) fn struck(&self) -> BTreeMap<&'static str, u64> {
        self.state().struck.clone()
    }

    /// Counts a fault that struck.
    pub(crate) fn count(&self, kind: &'static str) {
        self.state().strike(kind);
    }

    /// Where requests of a process come in.
    pub(crate) fn port(&self, process: u64, server: Audited) -> Port {
        Port { wire: self.clone(), process, server }
    }

    /// Whether a request gets lost, and whether that is before it has arrived.
    fn loss(&self, process: u64, path: &str) -> Option<Loss> {
        let (mut state, now) = (self.state(), Instant::now());
        if path.contains("/leases") && state.cut.get(&process).is_some_and(|until| now < *until) {
            return Some(Loss::OnTheWay);
        }
        state.unanswered.filter(|until| now < *until)?;
        state.strike("requests_unanswered");
        state.lost += 1;
        Some(if state.lost.is_multiple_of(2) { Loss::OnTheWayBack } else { Loss::OnTheWay })
    }

    fn is_late(&self) -> bool {
        let mut state = self.state();
        state.asked += 1;
        let Some((seed, per_mille)) = state.late else { return false };
        let late = draw(seed, &["late", &state.asked.to_string()]) % 1000 < per_mille;
        if late {
            state.strike("requests_late");
        }
        late
    }

    fn garbled_in(&self, path: &str) -> Vec<Garbled> {
        self.state().garbled.iter().filter(|one| one.is_of(path)).cloned().collect()
    }

    fn open(&self) -> u64 {
        let mut state = self.state();
        state.opened += 1;
        state.opened
    }

    fn silence(&self, path: &str, number: u64) -> Option<Silence> {
        let (state, now) = (self.state(), Instant::now());
        if state.forgotten.iter().any(|(collection, opened)| path.ends_with(collection) && number <= *opened) {
            return Some(Silence::ForEver);
        }
        let ends = state.mute.iter().filter(|(collection, until)| path.ends_with(collection) && now < *until);
        ends.map(|(_, until)| *until).max().map(Silence::Until)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn strike(&mut self, kind: &'static str) {
        *self.struck.entry(kind).or_default() += 1;
    }
}

enum Loss {
    OnTheWay,
    /// It was done, and nobody hears of it.
    OnTheWayBack,
}

enum Silence {
    ForEver,
    Until(Instant),
}

/// The server as one process sees it through the wire.
#[derive(Clone)]
pub(crate) struct Port {
    wire: Wire,
    process: u64,
    server: Audited,
}

impl Service<Request<kube::client::Body>> for Port {
    type Response = Response<Arriving>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let Self { wire, process, mut server } = self.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let watch =
                *request.method() == Method::GET && request.uri().query().unwrap_or_default().contains("watch=true");
            match wire.loss(process, &path) {
                Some(Loss::OnTheWay) => return pending().await,
                Some(Loss::OnTheWayBack) => {
                    drop(server.call(request).await);
                    return pending().await;
                }
                None => {}
            }
            // On the way, so that the observer at its end sees a request when the server does.
            if wire.is_late() {
                tokio::time::sleep(LATE).await;
            }
            let answer = server.call(request).await?;
            if watch {
                let number = wire.open();
                return Ok(answer.map(|body| Arriving::Watch { body, wire, path, number, pause: None }));
            }
            let garbled = wire.garbled_in(&path);
            if garbled.is_empty() {
                return Ok(answer.map(Arriving::Whole));
            }
            let (parts, body) = answer.into_parts();
            let bytes = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let bytes = garble(&garbled, &bytes).unwrap_or(bytes);
            Ok(Response::from_parts(parts, Arriving::Whole(Body::full(bytes))))
        })
    }
}

/// The object, or the objects of a list, or that of a line of a watch, as they arrive; nothing if they are as they were sent.
fn garble(garbled: &[Garbled], bytes: &[u8]) -> Option<Bytes> {
    let text = std::str::from_utf8(bytes).ok()?;
    if !garbled.iter().any(|one| text.contains(&one.name)) {
        return None;
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    let (list, line) = (value["items"].is_array(), value["type"].is_string());
    let mut objects: Vec<&mut Value> = match (list, line) {
        (true, _) => value["items"].as_array_mut().into_iter().flatten().collect(),
        (false, true) => vec![&mut value["object"]],
        (false, false) => vec![&mut value],
    };
    let mut changed = false;
    for one in garbled {
        // Each of them, not just the first.
        for object in objects.iter_mut() {
            changed |= one.garble(object);
        }
    }
    changed.then(|| Bytes::from(value.to_string()))
}

/// What comes through.
pub(crate) enum Arriving {
    Whole(Body),
    Watch { body: Body, wire: Wire, path: String, number: u64, pause: Option<Pin<Box<Sleep>>> },
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        waiting: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(waiting),
            Self::Watch { body, wire, path, number, pause } => {
                while let Some(silence) = wire.silence(path, *number) {
                    match silence {
                        // Nobody is woken: whoever listens gives up some time.
                        Silence::ForEver => return Poll::Pending,
                        Silence::Until(end) => {
                            let sleep = pause.get_or_insert_with(|| Box::pin(sleep_until(end)));
                            ready!(sleep.as_mut().poll(waiting));
                            *pause = None;
                        }
                    }
                }
                let frame = match ready!(Pin::new(body).poll_frame(waiting)) {
                    None => return Poll::Ready(None),
                    Some(Err(never)) => match never {},
                    Some(Ok(frame)) => frame,
                };
                let garbled = wire.garbled_in(path);
                let Some(bytes) = frame.data_ref().filter(|_| !garbled.is_empty()) else {
                    return Poll::Ready(Some(Ok(frame)));
                };
                // The server sends whole lines.
                let lines =
                    bytes.split_inclusive(|byte| *byte == b'\n').flat_map(|line| match garble(&garbled, line) {
                        Some(other) => [other, Bytes::from_static(b"\n")],
                        None => [Bytes::copy_from_slice(line), Bytes::new()],
                    });
                let lines: Vec<u8> = lines.flatten().collect();
                Poll::Ready(Some(Ok(Frame::data(Bytes::from(lines)))))
            }
        }
    }
}

#[cfg(test)]
mod tests;
