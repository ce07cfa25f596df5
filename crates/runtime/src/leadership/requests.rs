//! The fence between a client and the API server.

use std::task::{Context as Waiting, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use karpenter_provider::BoxError;
use tower::{Layer, Service};

use super::Leadership;

/// Lets reads through, and writes while we lead. It belongs right at the wire, inside whatever makes requests wait for
/// their turn.
#[derive(Clone, Debug)]
pub struct Fenced(pub Leadership);

impl<S> Layer<S> for Fenced {
    type Service = FencedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FencedService { inner, leadership: self.0.clone() }
    }
}

#[derive(Clone, Debug)]
pub struct FencedService<S> {
    inner: S,
    leadership: Leadership,
}

impl<S, B, A> Service<Request<B>> for FencedService<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    A: 'static,
{
    type Response = Response<A>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<A>, BoxError>>;

    fn poll_ready(&mut self, waiting: &mut Waiting<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(waiting).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let writes = *request.method() != Method::GET;
        // Nothing goes out before it is polled.
        let answer = self.inner.call(request);
        let leadership = self.leadership.clone();
        async move {
            if writes { leadership.guard(answer).await?.map_err(Into::into) } else { answer.await.map_err(Into::into) }
        }
        .boxed()
    }
}
