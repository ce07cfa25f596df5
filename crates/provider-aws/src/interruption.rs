//! The interruption queue: EC2 says that an instance will go, and its claim is deleted while there is time.
//!
//! A message is deleted only after what it asks for is stored; until then the queue delivers it again. One that cannot be
//! read is said and deleted, and one that cannot be handled is left alone: neither holds up the others. Nor does one that
//! brings out a bug of ours: it is received together with the same others again and again.

pub(crate) mod handling;

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use karpenter_ec2::interruption::{Message, parse};
use karpenter_provider::{BoxError, ProviderError};

use crate::calls::{QueueMessage, ReceiveMessages};
use crate::provider::Parts;
use handling::Round;

/// As many messages as one answer of the queue may have, and all of them are handled at once.
const AT_ONCE: u32 = 10;
/// How long what was received is hidden: long enough to store a deletion, short enough to try again before the two
/// minutes of a spot warning are over.
const HIDDEN: Duration = Duration::from_secs(20);
/// The longest wait that SQS allows; the next one follows at once.
const WAIT: Duration = Duration::from_secs(20);

pub struct Interruption {
    queue: String,
    url: Mutex<Option<String>>,
}

impl Interruption {
    pub fn new(queue: &str) -> Self {
        Self { queue: queue.to_owned(), url: Mutex::new(None) }
    }

    /// One long poll, and what came of it. The next follows at once. Fails only if the queue cannot be read: whatever
    /// went wrong with a message, it comes again by itself, and waiting would only delay those that follow.
    pub async fn round(&self, parts: &Parts) -> Result<Duration, ProviderError> {
        let failed = |what: &'static str| move |error| ProviderError::new(what, error);
        let url = self.url(parts).await.map_err(failed("finding the interruption queue"))?;
        let poll = ReceiveMessages { url: url.clone(), at_most: AT_ONCE, visibility: HIDDEN, wait: WAIT };
        let received = match parts.aws.sqs.receive_messages(&poll).await {
            Ok(received) => received,
            Err(error) => {
                // The queue may have been made anew under another address.
                *self.url.lock().unwrap_or_else(PoisonError::into_inner) = None;
                return Err(ProviderError::new("receiving interruption messages", error));
            }
        };
        if received.is_empty() {
            return Ok(Duration::ZERO);
        }
        let mut panics = Vec::new();
        let read: Vec<(QueueMessage, Option<Message>)> =
            received.into_iter().map(|one| read_or_pass_over(parts, one, &mut panics)).collect();
        let named = read.iter().filter_map(|(_, message)| message.as_ref());
        let instances: BTreeSet<&str> = named.flat_map(|message| &message.instances).map(String::as_str).collect();
        let round = match Round::over(parts, &instances).await {
            Ok(round) => round,
            Err(error) => {
                tracing::error!(queue = %self.queue, %error, "interruption messages cannot be matched with claims");
                return Ok(Duration::ZERO);
            }
        };
        let mut under_way: Vec<BoxFuture<'_, Result<(), Panic>>> = Vec::with_capacity(read.len());
        for (received, message) in read {
            let handled = AssertUnwindSafe(self.handle(&round, &url, received, message));
            under_way.push(handled.catch_unwind().boxed());
        }
        panics.extend(futures_util::future::join_all(under_way).await.into_iter().filter_map(Result::err));
        // All others are done with. Who runs the rounds counts this and says what it was.
        match panics.into_iter().next() {
            Some(panic) => resume_unwind(panic),
            None => Ok(Duration::ZERO),
        }
    }

    async fn url(&self, parts: &Parts) -> crate::calls::Result<String> {
        let known = self.url.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(url) = known {
            return Ok(url);
        }
        let url = parts.aws.sqs.get_queue_url(&self.queue).await.inspect_err(|error| {
            tracing::error!(queue = %self.queue, %error, "failed to create valid sqs provider");
        })?;
        tracing::debug!(queue = %self.queue, "watching interruption queue");
        *self.url.lock().unwrap_or_else(PoisonError::into_inner) = Some(url.clone());
        Ok(url)
    }

    async fn handle(&self, round: &Round<'_>, url: &str, received: QueueMessage, message: Option<Message>) {
        let carried_out = async {
            if let Some(message) = &message {
                for instance in &message.instances {
                    round.act(message.kind, instance, Some(&self.queue)).await?;
                }
                if let Some(happened) = message.time {
                    let late = (round.parts.now)().duration_since(happened);
                    round.parts.observer.message_handled(Duration::try_from(late).unwrap_or_default());
                }
            }
            round.parts.aws.sqs.delete_message(url, &received.receipt_handle).await?;
            Ok::<(), BoxError>(())
        };
        match carried_out.await {
            Ok(()) => round.parts.observer.message_deleted(),
            Err(error) => {
                tracing::error!(queue = %self.queue, message_id = %received.id, %error, "an interruption message comes again");
            }
        }
    }
}

/// What a panic was about.
type Panic = Box<dyn Any + Send>;

/// As [`read`]; one that makes our own code panic is one that nobody can read.
fn read_or_pass_over(
    parts: &Parts,
    received: QueueMessage,
    panics: &mut Vec<Panic>,
) -> (QueueMessage, Option<Message>) {
    let copy = received.clone();
    catch_unwind(AssertUnwindSafe(|| read(parts, copy))).unwrap_or_else(|panic| {
        tracing::error!(message_id = %received.id, "reading an interruption message panicked, it is deleted");
        panics.push(panic);
        (received, None)
    })
}

/// `None` is a message that nobody can read: it is deleted like one that asks for nothing.
fn read(parts: &Parts, received: QueueMessage) -> (QueueMessage, Option<Message>) {
    #[cfg(test)]
    assert!(!received.body.contains("a-bug-of-ours"), "planted");
    match parse(&received.body) {
        Ok(message) => {
            parts.observer.message_received(message.kind.as_str());
            (received, Some(message))
        }
        Err(error) => {
            tracing::error!(message_id = %received.id, %error, "failed parsing interruption message");
            (received, None)
        }
    }
}

#[cfg(test)]
mod tests;
