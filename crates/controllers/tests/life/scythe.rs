//! Death at a chosen moment, and a record of everything the controllers did before.
//!
//! Every effect (a write to the API server, a call of the cloud) passes here. At the chosen one the process dies: from
//! then on nothing it asks is answered. Dying before an effect it never happens; dying after it, nobody learns.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Before,
    After,
}

/// `PATCH /api/v1/nodes/a`, `cloud create c`, with what was sent and, where it matters, what came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) name: String,
    pub(crate) sent: String,
    pub(crate) answer: String,
}

impl Effect {
    /// Whether the name or what was sent contains all of these.
    pub(crate) fn has(&self, parts: &[&str]) -> bool {
        parts.iter().all(|part| self.name.contains(part) || self.sent.contains(part))
    }
}

type Choice = Box<dyn Fn(&Effect) -> bool + Send>;

#[derive(Default)]
struct State {
    dead: bool,
    choice: Option<(When, Choice)>,
    done: Vec<Effect>,
    /// What answers have in place of what.
    garbled: Vec<(String, String)>,
}

#[derive(Clone, Default)]
pub(crate) struct Scythe(Arc<Mutex<State>>);

impl Scythe {
    /// Dies around the first effect chosen.
    pub(crate) fn arm(&self, when: When, choice: impl Fn(&Effect) -> bool + Send + 'static) {
        self.0.lock().unwrap().choice = Some((when, Box::new(choice)));
    }

    /// From now on the server's answers to the controllers have one text in place of another, so that what has it cannot
    /// be read any more.
    pub(crate) fn garble(&self, text: &str, instead: &str) {
        self.0.lock().unwrap().garbled.push((text.to_owned(), instead.to_owned()));
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().garbled.clear();
    }

    fn garbled(&self, bytes: Bytes) -> Bytes {
        let state = self.0.lock().unwrap();
        if state.garbled.is_empty() {
            return bytes;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        state.garbled.iter().fold(text, |text, (from, to)| text.replace(from, to)).into()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.lock().unwrap().dead
    }

    /// A new process.
    pub(crate) fn revive(&self) {
        let mut state = self.0.lock().unwrap();
        state.dead = false;
        state.choice = None;
    }

    pub(crate) fn done(&self) -> Vec<Effect> {
        self.0.lock().unwrap().done.clone()
    }

    /// Has an effect happen, unless death comes first; never returns to a dead process.
    pub(crate) async fn pass<T>(
        &self,
        name: String,
        sent: String,
        effect: impl Future<Output = T>,
        answer: impl FnOnce(&T) -> String,
    ) -> T {
        let mut record = Effect { name, sent, answer: String::new() };
        if self.falls(When::Before, &record) {
            pending::<()>().await;
        }
        let result = effect.await;
        record.answer = answer(&result);
        let falls = self.falls(When::After, &record);
        self.0.lock().unwrap().done.push(record);
        if falls {
            pending::<()>().await;
        }
        result
    }

    fn falls(&self, now: When, effect: &Effect) -> bool {
        let mut state = self.0.lock().unwrap();
        if !state.dead && state.choice.as_ref().is_some_and(|(when, choice)| *when == now && choice(effect)) {
            state.dead = true;
        }
        state.dead
    }
}

/// The API server as the controllers see it.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) server: karpenter_apiserver::Service,
    pub(crate) scythe: Scythe,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

impl tower::Service<Request<kube::client::Body>> for Watched {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (mut server, scythe) = (self.server.clone(), self.scythe.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let bytes: Bytes = body.collect().await.unwrap().to_bytes();
            let name = format!("{} {}", parts.method, parts.uri.path());
            let is_effect = parts.method != http::Method::GET && !name.ends_with("/events");
            let sent = String::from_utf8_lossy(&bytes).into_owned();
            let request = Request::from_parts(parts, http_body_util::Full::new(bytes));
            let garbler = scythe.clone();
            let garble = move |response: Response<karpenter_apiserver::Body>| -> Answer {
                response.map(|body| {
                    body.map_frame(move |frame| frame.map_data(|bytes| garbler.garbled(bytes))).boxed_unsync()
                })
            };
            if !is_effect {
                return match scythe.is_dead() {
                    true => pending().await,
                    false => server.call(request).await.map(garble),
                };
            }
            let answer = |answer: &Result<Response<karpenter_apiserver::Body>, Infallible>| match answer {
                Ok(response) => response.status().as_u16().to_string(),
                Err(never) => match *never {},
            };
            scythe.pass(name, sent, server.call(request), answer).await.map(garble)
        })
    }
}
