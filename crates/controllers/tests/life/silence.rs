//! What may become of the controllers' reads of one kind: a connection that was forgotten on the way, a server that does
//! not answer, one that refuses, one that ends watches at once.

#![expect(dead_code, reason = "each of the two test programs has its own half of it")]

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio::time::{Sleep, sleep};

use crate::scythe::Watched;

type Body = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Watches that are open say nothing any more, and stay open. New ones are well.
    Forgotten,
    /// The same, and nothing that is asked is answered.
    Unanswered,
    /// This code, 403 say, also to what is open.
    Refused(u16),
    /// New watches end at once, without a word.
    EndsAtOnce,
    /// New watches end with an error of this code inside.
    FailsInside(u16),
    /// As forgotten, and objects that are asked for by a field come in a shape that nobody can read.
    Garbled,
    /// What is answered comes at one byte a second.
    Trickles,
    /// Watches are accepted and say nothing, those that are open and new ones. Lists are well.
    Mute,
    /// Lists leave objects out, as no server does.
    Incomplete,
    /// The server's storage was set back: it does not know the versions that were known, and lists have earlier ones.
    Restored,
}

#[derive(Default)]
struct State {
    /// Of paths that end like this.
    troubles: Vec<(String, Trouble)>,
    /// Moves with every change, for watches that were open before.
    age: u64,
    asked: Vec<String>,
}

/// The troubles there are now.
#[derive(Clone, Default)]
pub(crate) struct Reads(Arc<Mutex<State>>);

impl Reads {
    /// From now on, for collections whose path ends like this.
    pub(crate) fn suffer(&self, path: &str, trouble: Trouble) {
        let mut state = self.0.lock().unwrap();
        state.age += 1;
        state.troubles.push((path.to_owned(), trouble));
    }

    pub(crate) fn recover(&self) {
        self.0.lock().unwrap().troubles.clear();
    }

    /// How often it was asked so far, `LIST` or `WATCH`.
    pub(crate) fn asked(&self, what: &str, path: &str) -> usize {
        let state = self.0.lock().unwrap();
        state.asked.iter().filter(|asked| asked.starts_with(what) && asked.ends_with(path)).count()
    }

    fn trouble(&self, path: &str) -> Option<Trouble> {
        let state = self.0.lock().unwrap();
        state.troubles.iter().rev().find(|(of, _)| path.ends_with(of)).map(|(_, trouble)| *trouble)
    }
}

/// The API server as controllers with such reads see it.
#[derive(Clone)]
pub(crate) struct Troubled {
    pub(crate) inner: Watched,
    pub(crate) reads: Reads,
}

impl tower::Service<Request<kube::client::Body>> for Troubled {
    type Response = Response<Heard>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (mut inner, reads) = (self.inner.clone(), self.reads.clone());
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let watch = request.uri().query().unwrap_or_default().contains("watch=true");
            if *request.method() != http::Method::GET {
                return Ok(inner.call(request).await?.map(Heard::All));
            }
            reads.0.lock().unwrap().asked.push(format!("{} {path}", if watch { "WATCH" } else { "LIST" }));
            match reads.trouble(&path) {
                Some(Trouble::Unanswered) => pending().await,
                Some(Trouble::Refused(code)) => return Ok(answer(code, &status(code).to_string())),
                Some(Trouble::EndsAtOnce) if watch => return Ok(answer(200, "")),
                Some(Trouble::Restored) if watch => {
                    let mut status = status(504);
                    status["details"] = serde_json::json!({"causes": [{"reason": "ResourceVersionTooLarge",
                        "message": "Too large resource version"}], "retryAfterSeconds": 1});
                    return Ok(answer(504, &status.to_string()));
                }
                Some(Trouble::FailsInside(code)) if watch => {
                    let line = serde_json::json!({"type": "ERROR", "object": status(code)});
                    return Ok(answer(200, &format!("{line}\n")));
                }
                Some(_) | None => {}
            }
            let selects = request.uri().query().unwrap_or_default().contains("fieldSelector=");
            let answered = inner.call(request).await?;
            if let Some(Trouble::Garbled) = reads.trouble(&path).filter(|_| selects) {
                let text = text(answered).await;
                return Ok(answer(200, &text.replace("\"nodeName\":\"", "\"nodeName\":7,\"was\":\"")));
            }
            if let Some(Trouble::Incomplete) = reads.trouble(&path).filter(|_| !watch) {
                let mut list: serde_json::Value = serde_json::from_str(&text(answered).await).unwrap();
                list["items"] = serde_json::json!([]);
                return Ok(answer(200, &list.to_string()));
            }
            if let Some(Trouble::Restored) = reads.trouble(&path).filter(|_| !watch) {
                let mut list: serde_json::Value = serde_json::from_str(&text(answered).await).unwrap();
                list["metadata"]["resourceVersion"] = serde_json::json!("1");
                return Ok(answer(200, &list.to_string()));
            }
            let since = reads.0.lock().unwrap().age;
            let trickles = !watch && reads.trouble(&path) == Some(Trouble::Trickles);
            Ok(answered.map(|body| match (watch, trickles) {
                (true, _) => Heard::Watch { body, path, reads, since, drops: Drops::default() },
                (false, true) => Heard::Drops { body, drops: Drops::default() },
                (false, false) => Heard::All(body),
            }))
        })
    }
}

async fn text(answered: Response<Body>) -> String {
    String::from_utf8(answered.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn status(code: u16) -> serde_json::Value {
    serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "message": "trouble", "reason": if code == 410 { "Expired" } else { "Trouble" }})
}

fn answer(code: u16, text: &str) -> Response<Heard> {
    Response::builder().status(code).body(Heard::All(Full::new(Bytes::from(text.to_owned())).boxed_unsync())).unwrap()
}

/// What comes through.
pub(crate) enum Heard {
    All(Body),
    Drops { body: Body, drops: Drops },
    Watch { body: Body, path: String, reads: Reads, since: u64, drops: Drops },
}

/// One byte a second.
#[derive(Default)]
pub(crate) struct Drops {
    left: Bytes,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Drops {
    fn poll(&mut self, body: &mut Body, waiting: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(waiting));
                self.pause = None;
            }
            if !self.left.is_empty() {
                self.pause = Some(Box::pin(sleep(Duration::from_secs(1))));
                return Poll::Ready(Some(Ok(Frame::data(self.left.split_to(1)))));
            }
            match ready!(Pin::new(&mut *body).poll_frame(waiting)) {
                Some(Ok(frame)) => self.left = frame.into_data().unwrap_or_default(),
                None => return Poll::Ready(None),
                Some(Err(never)) => match never {},
            }
        }
    }
}

impl http_body::Body for Heard {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        waiting: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::All(body) => Pin::new(body).poll_frame(waiting),
            Self::Drops { body, drops } => drops.poll(body, waiting),
            Self::Watch { body, path, reads, since, drops } => {
                match reads.trouble(path) {
                    Some(Trouble::Trickles) => return drops.poll(body, waiting),
                    Some(Trouble::Mute) => return Poll::Pending,
                    _ => {}
                }
                let before = *since < reads.0.lock().unwrap().age;
                match reads.trouble(path).filter(|_| before) {
                    Some(Trouble::Forgotten | Trouble::Unanswered | Trouble::Garbled) => Poll::Pending,
                    Some(_) => Poll::Ready(None),
                    None => Pin::new(body).poll_frame(waiting),
                }
            }
        }
    }
}
