//! The lines of a watch, and how much of the next one is there.

use std::pin::Pin;
use std::time::Duration;

use futures_util::io::{AsyncBufRead, AsyncBufReadExt};
use tokio::time::Instant;

/// A line comes in one piece or a few. One that takes longer came through a connection that holds back what the server
/// says, so nobody knows how much more it holds back.
const WHOLE_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Lines {
    reader: Pin<Box<dyn AsyncBufRead + Send>>,
    half: Vec<u8>,
    /// When the first byte of the half line came.
    begun: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextLine {
    pub(super) text: String,
    /// It took so long that what it says may be old.
    pub(super) slow: bool,
}

impl Lines {
    pub(super) fn new(reader: impl AsyncBufRead + Send + 'static) -> Self {
        Self { reader: Box::pin(reader), half: Vec::new(), begun: None }
    }

    /// The server has begun to say something.
    pub(super) fn is_half_read(&self) -> bool {
        !self.half.is_empty()
    }

    /// The next whole line; none if there is no other. Dropping the future loses nothing of what was read.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<TextLine>> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(chunk.len(), |end| end + 1);
            self.half.extend_from_slice(&chunk[..used]);
            self.reader.as_mut().consume(used);
            let begun = *self.begun.get_or_insert_with(Instant::now);
            if end.is_some() {
                self.begun = None;
                let mut line = std::mem::take(&mut self.half);
                line.pop();
                let text = String::from_utf8(line).map_err(std::io::Error::other)?;
                return Ok(Some(TextLine { text, slow: begun.elapsed() > WHOLE_WITHIN }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::io::BufReader;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_come_whole_however_they_are_cut() {
        for size in [1, 2, 3, 100] {
            let mut lines = Lines::new(BufReader::with_capacity(size, &b"one\n\ntwo\nhalf"[..]));
            for text in ["one", "", "two"] {
                let want = TextLine { text: text.to_owned(), slow: false };
                assert_eq!(lines.next().await.unwrap(), Some(want), "in pieces of {size}");
                assert!(!lines.is_half_read());
            }
            assert_eq!(lines.next().await.unwrap(), None);
            assert!(lines.is_half_read(), "it ended in the middle");
        }
    }
}
