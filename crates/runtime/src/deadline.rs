//! A deadline for every request to the API server, its answer's last byte included.
//!
//! A connection that a gateway on the way forgot takes requests and never answers them. kube waits for ever, and so would
//! the controller that asked. The body of a watch is excepted: who watches knows how often there is news.

use std::pin::Pin;
use std::task::{Context as Waiting, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Layer, Service};

use crate::requests::is_watch;

/// A server that is busy lets requests wait for some seconds; one that is well answers in milliseconds.
const WRITE: Duration = Duration::from_secs(30);
/// Lists of thousands of objects take their time, and the server gives itself a minute.
const READ: Duration = Duration::from_secs(60);

/// No answer, or not the whole of it.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs())]
pub struct Late(pub Duration);

/// Puts deadlines between a client and the wire.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Of lists and of single objects: the path alone does not tell them apart.
    pub read: Duration,
    /// Of everything else, and until a watch is accepted.
    pub write: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { read: READ, write: WRITE }
    }
}

impl<S> Layer<S> for Deadlines {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService { inner, deadlines: *self }
    }
}

#[derive(Clone, Debug)]
pub struct DeadlineService<S> {
    inner: S,
    deadlines: Deadlines,
}

impl<S, B, R> Service<Request<B>> for DeadlineService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    R: Body + Send + 'static,
{
    type Response = Response<TimedBody<R>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, waiting: &mut Waiting<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(waiting).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let watch = is_watch(request.uri().query().unwrap_or_default());
        let Deadlines { read, write } = self.deadlines;
        let patience = if request.method() == http::Method::GET && !watch { read } else { write };
        let answer = self.inner.call(request);
        async move {
            // From here on: what waits for its turn has not been asked yet.
            let due = Instant::now() + patience;
            let answer = tokio::time::timeout_at(due, answer).await;
            let answer = answer.map_err(|_| BoxError::from(Late(patience)))?.map_err(Into::into)?;
            let timer = (!watch).then(|| Box::pin(tokio::time::sleep_until(due)));
            Ok(answer.map(|body| TimedBody { body: Box::pin(body), timer, patience }))
        }
        .boxed()
    }
}

/// A body that fails when its time is over, however many bytes still trickle.
#[derive(Debug)]
pub struct TimedBody<B> {
    body: Pin<Box<B>>,
    timer: Option<Pin<Box<Sleep>>>,
    patience: Duration,
}

impl<B> Body for TimedBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        waiting: &mut Waiting<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        if let Poll::Ready(frame) = self.body.as_mut().poll_frame(waiting) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.timer.as_mut().map(|timer| timer.as_mut().poll(waiting)) {
            Some(Poll::Ready(())) => Poll::Ready(Some(Err(Late(self.patience).into()))),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use tower::ServiceExt as _;

    use super::*;

    /// A server that thinks for a while, then sends one byte a second.
    async fn answer(thinks: Duration, bytes: u32, uri: &str) -> Result<(usize, Duration), BoxError> {
        let slow = tower::service_fn(move |_: Request<Full<Bytes>>| async move {
            tokio::time::sleep(thinks).await;
            let drip = futures_util::stream::unfold(0, move |sent| async move {
                if sent == bytes {
                    return None;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"x"))), sent + 1))
            });
            Ok::<_, BoxError>(Response::new(StreamBody::new(drip)))
        });
        let began = Instant::now();
        let request = Request::get(uri).body(Full::default()).unwrap();
        let answer = Deadlines::default().layer(slow).oneshot(request).await?;
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((body.len(), began.elapsed()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_comes_ends_the_request() {
        let began = Instant::now();
        let late = answer(Duration::MAX, 0, "/api/v1/pods").await.unwrap_err();
        assert_eq!(late.to_string(), "no answer within 60 s");
        assert_eq!(began.elapsed(), READ);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_trickles_ends_the_request_too() {
        let began = Instant::now();
        assert!(answer(Duration::ZERO, 10_000, "/api/v1/pods").await.is_err());
        assert_eq!(began.elapsed(), READ);
        let (bytes, _) = answer(Duration::from_secs(3), 20, "/api/v1/pods").await.unwrap();
        assert_eq!(bytes, 20, "slow is not too slow");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_has_to_begin_in_time_and_may_last() {
        let (bytes, took) = answer(Duration::from_secs(3), 290, "/api/v1/pods?watch=true").await.unwrap();
        assert_eq!((bytes, took), (290, Duration::from_secs(293)));
        let began = Instant::now();
        assert!(answer(Duration::MAX, 0, "/api/v1/pods?watch=true").await.is_err());
        assert_eq!(began.elapsed(), WRITE);
    }
}
