//! One connection of the controller's, and how it may end.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// How a connection ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// RST.
    Reset,
    /// FIN, in the middle of the TLS session.
    Cut,
}

/// Shared by a connection and the requests on it, any of which may end it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    ending: OnceLock<Ending>,
    sealed: Notify,
}

impl Fate {
    pub(crate) fn end(&self, how: Ending) {
        let _ = self.0.ending.set(how);
        self.0.sealed.notify_one();
    }

    /// Until a request has ended it; there is one who waits.
    pub(crate) async fn sealed(&self) {
        self.0.sealed.notified().await;
    }
}

/// The stream below TLS. Dropped, it is closed the way that its fate has it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    pub(crate) fate: Fate,
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.fate.0.ending.get() == Some(&Ending::Reset) {
            // What is closed without lingering is reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, waiting: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(waiting, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, waiting: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(waiting, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, waiting: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(waiting)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, waiting: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(waiting)
    }
}
