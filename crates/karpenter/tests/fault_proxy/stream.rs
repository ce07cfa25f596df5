//! Bodies that a fault strikes while they are on their way.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{Stream, stream};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Frame;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::matrix::{Asked, Cell, Fault, Target};
use crate::proxy::{Shared, status};
use crate::wire::{Ending, Fate};

const ONE_BYTE: Duration = Duration::from_secs(1);

type Cells = watch::Receiver<Option<Cell>>;

/// One byte a second, and the rest at once when the fault is over.
pub(crate) struct Drip {
    left: Bytes,
    cells: Cells,
}

impl Drip {
    pub(crate) fn new(left: Bytes, cells: Cells) -> Self {
        Self { left, cells }
    }

    pub(crate) fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
        stream::unfold(self, |mut drip| async move {
            if drip.left.is_empty() {
                return None;
            }
            let lasts = drip.cells.borrow_and_update().is_some();
            if lasts {
                tokio::select! {
                    () = sleep(ONE_BYTE) => {}
                    _ = drip.cells.changed() => {}
                }
            }
            let length = if lasts { 1 } else { drip.left.len() };
            let next = drip.left.split_to(length);
            Some((Ok(Frame::data(next)), drip))
        })
    }
}

/// A watch that was accepted. What it has to say is held back while it may not be said.
pub(crate) struct Watched {
    body: UnsyncBoxBody<Bytes, Infallible>,
    asked: Asked,
    shared: Arc<Shared>,
    fate: Fate,
    cells: Cells,
    /// The fault that was there when it was opened.
    opened_in: Option<Cell>,
    left: BytesMut,
    struck: bool,
    over: bool,
}

impl Watched {
    pub(crate) fn new(body: UnsyncBoxBody<Bytes, Infallible>, asked: Asked, shared: Arc<Shared>, fate: Fate) -> Self {
        let cells = shared.cells();
        let opened_in = *cells.borrow();
        Self { body, asked, shared, fate, cells, opened_in, left: BytesMut::new(), struck: false, over: false }
    }

    pub(crate) fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
        stream::unfold(self, |mut watched| async move {
            let next = watched.next().await?;
            Some((Ok(Frame::data(next)), watched))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.over {
                return None;
            }
            let fault = self.fault();
            if fault.is_some() && !std::mem::replace(&mut self.struck, true) {
                self.shared.count();
            }
            match fault {
                None if !self.left.is_empty() => return Some(self.left.split().freeze()),
                None => {}
                // Also when the fault is over: a flow that was forgotten stays so.
                Some(Fault::HalfOpen) => pending::<()>().await,
                Some(Fault::Reset) => end(&self.fate, Ending::Reset).await,
                Some(Fault::TlsCut) => end(&self.fate, Ending::Cut).await,
                Some(Fault::Status(code)) => {
                    self.over = true;
                    return Some(Bytes::from(format!("{}\n", error_event(code))));
                }
                Some(Fault::Drip) if !self.left.is_empty() => {
                    sleep(ONE_BYTE).await;
                    let byte = Bytes::copy_from_slice(&self.left[..1]);
                    self.left.advance(1);
                    return Some(byte);
                }
                Some(Fault::Drip) => {}
            }
            tokio::select! {
                changed = self.cells.changed() => changed.ok()?,
                frame = self.body.frame() => {
                    let Ok(frame) = frame?;
                    self.left.extend(frame.into_data().unwrap_or_default());
                }
            }
        }
    }

    fn fault(&mut self) -> Option<Fault> {
        let Some(cell) = *self.cells.borrow_and_update() else {
            self.opened_in = None;
            self.struck = false;
            return None;
        };
        if cell.strikes(&self.asked) {
            return Some(cell.fault);
        }
        (cell.target == Target::List && self.opened_in != Some(cell)).then_some(Fault::Status(410))
    }
}

async fn end(fate: &Fate, how: Ending) {
    fate.end(how);
    pending().await
}

fn error_event(code: u16) -> serde_json::Value {
    serde_json::json!({"type": "ERROR", "object": status(code)})
}
