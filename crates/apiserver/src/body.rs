//! Response bodies: bytes at once, pieces of a list, or a watch that goes on.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;

/// The next piece and the source of those after it.
pub(crate) type Next = Pin<Box<dyn Future<Output = Option<(Bytes, Box<dyn Source>)>> + Send>>;

/// A stream of pieces, one future at a time: nothing runs unless somebody reads.
pub(crate) trait Source: Send {
    fn next(self: Box<Self>) -> Next;
}

pub struct Body(Kind);

enum Kind {
    Pieces(VecDeque<Bytes>),
    Stream(Option<Next>),
}

impl Body {
    pub fn full(bytes: impl Into<Bytes>) -> Body {
        Body(Kind::Pieces(VecDeque::from([bytes.into()])))
    }

    pub(crate) fn stream(source: Box<dyn Source>) -> Body {
        Body(Kind::Stream(Some(source.next())))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Pieces(pieces) => write!(f, "Body({} pieces)", pieces.len()),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece)))),
            Kind::Stream(slot) => {
                let Some(next) = slot else { return Poll::Ready(None) };
                match next.as_mut().poll(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(None) => {
                        *slot = None;
                        Poll::Ready(None)
                    }
                    Poll::Ready(Some((piece, source))) => {
                        *slot = Some(source.next());
                        Poll::Ready(Some(Ok(Frame::data(piece))))
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Pieces(pieces) => pieces.is_empty(),
            Kind::Stream(slot) => slot.is_none(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.0 {
            Kind::Pieces(pieces) => {
                http_body::SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            Kind::Stream(_) => http_body::SizeHint::default(),
        }
    }
}
