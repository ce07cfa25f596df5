//! One task drives everything: it takes in news, wakes whom they concern, and has work done.
//!
//! ```text
//! watches ──┐                          ┌─▶ reconciliations under way ─┐
//! answers ──┼─▶ Index ──▶ queues ──▶   │                              │
//! timers ───┘                ▲         └──────────────────────────────┘
//!                            └──────── again, later, or after a failure
//! ```
//!
//! News are taken in kind by kind in a fixed order and work is done first come, first served, so that on a
//! single-threaded runtime with paused time the same seed gives the same writes in the same order.

mod queue;
mod watch;

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waiting, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, FuturesUnordered, StreamExt};
use karpenter_index::{Change, Key, Kind};
use tokio::time::{Instant, Sleep};

use crate::context::{Context, Message};
use crate::error::{Error, Result};
use crate::reconciler::{Action, Reconciler};
use crate::recorder::{self, Event};
use queue::Queue;
use watch::News;

/// So many events may be on their way at once.
const POSTING: usize = 8;

/// Everything that runs, over one context.
pub struct Engine {
    context: Arc<Context>,
    controllers: Vec<Controller>,
    watches: Vec<(Kind, BoxStream<'static, News>)>,
    /// Kinds whose first list is still to come; nothing is decided before the cluster is known.
    unseen: usize,
    under_way: FuturesUnordered<BoxFuture<'static, Outcome>>,
    posting: FuturesUnordered<BoxFuture<'static, ()>>,
}

struct Controller {
    reconciler: Arc<dyn Reconciler>,
    queue: Queue<Key>,
    concurrency: usize,
    busy: usize,
}

struct Outcome {
    controller: usize,
    key: Key,
    result: Result<Action>,
}

enum Woken {
    Message(Message),
    Done(Outcome),
    News(usize, News),
    Event(Box<(Event, jiff::Timestamp, i128)>),
    Posted,
    Timer,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("under_way", &self.under_way.len()).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(context: Arc<Context>, reconcilers: Vec<Arc<dyn Reconciler>>) -> Self {
        let class = context.index.node_class_kind();
        let watch = |kind: Kind| (kind, watch::news(context.client.clone(), kind, kind.path(&class)));
        let watches: Vec<_> = context.index.kinds().into_iter().map(watch).collect();
        let controllers = reconcilers.into_iter().map(Controller::new).collect();
        Self {
            unseen: watches.len(),
            watches,
            controllers,
            context,
            under_way: FuturesUnordered::new(),
            posting: FuturesUnordered::new(),
        }
    }

    /// Runs until it is dropped. What is under way then stops where it is, as in a crash.
    pub async fn run(mut self) {
        loop {
            if self.unseen == 0 {
                self.start_work();
            }
            match self.wait().await {
                Woken::Message(Message::Changed(change)) => self.changed(&change),
                Woken::Message(Message::Wake { controller, key }) => self.wake(controller, key),
                Woken::Done(outcome) => self.done(outcome),
                Woken::News(watch, news) => self.take_in(watch, news),
                Woken::Event(event) => {
                    let (event, now, unique) = *event;
                    self.posting.push(recorder::post(self.context.client.clone(), event, now, unique).boxed());
                }
                Woken::Posted | Woken::Timer => {}
            }
        }
    }

    /// Starts what is ready, controller by controller.
    fn start_work(&mut self) {
        let now = Instant::now();
        for (position, controller) in self.controllers.iter_mut().enumerate() {
            while controller.busy < controller.concurrency {
                let Some(key) = controller.queue.pop(now) else { break };
                controller.busy += 1;
                let (reconciler, context) = (controller.reconciler.clone(), self.context.clone());
                self.under_way.push(Box::pin(async move {
                    let work = AssertUnwindSafe(reconciler.reconcile(&key, &context)).catch_unwind();
                    let result = work.await.unwrap_or_else(|panic| Err(Error::Panicked(text_of(&*panic))));
                    Outcome { controller: position, key, result }
                }));
            }
        }
    }

    fn done(&mut self, Outcome { controller, key, result }: Outcome) {
        let controller = &mut self.controllers[controller];
        controller.busy -= 1;
        let now = Instant::now();
        match result {
            Ok(Action::Done) => controller.queue.finish(&key),
            Ok(Action::After(delay)) => {
                controller.queue.finish(&key);
                controller.queue.push_at(key, now + delay);
            }
            Ok(Action::Again) => {
                controller.queue.retry(&key, now);
            }
            Err(error) => {
                let failures = controller.queue.retry(&key, now);
                let name = controller.reconciler.name();
                if error.is_conflict() {
                    tracing::debug!(controller = name, %key, failures, "somebody else wrote first, looking again");
                } else {
                    tracing::error!(controller = name, %key, failures, %error, "reconciling failed, trying again");
                }
            }
        }
    }

    fn take_in(&mut self, position: usize, news: News) {
        let kind = self.watches[position].0;
        let index = self.context.index.clone();
        match news {
            News::Listed { objects, unreadable, version } => {
                let (changes, refused) = index.list(kind, objects, &unreadable, version);
                refused.iter().for_each(|refused| tracing::warn!(%refused, "an object cannot be used"));
                changes.iter().for_each(|change| self.changed(change));
                self.seen_list(kind);
            }
            News::Changed(line) if line.deleted => {
                if let Some(change) = index.remove(kind, &line.key, line.version) {
                    self.changed(&change);
                }
            }
            News::Changed(line) => {
                if !index.wants(kind, &line.key, line.version) {
                    index.advance(kind, line.version);
                    return;
                }
                let version = line.version;
                match line.decode(kind).map(|object| index.apply(object)) {
                    Ok(Ok(change)) => change.iter().for_each(|change| self.changed(change)),
                    Ok(Err(refused)) => tracing::warn!(%refused, "an object cannot be used"),
                    Err(error) => {
                        tracing::warn!(kind = kind.name(), key = %line.key, %error, "an object cannot be read");
                        index.unreadable(kind, &line.key);
                    }
                }
                index.advance(kind, version);
            }
            News::Bookmark(version) => index.advance(kind, version),
        }
        index.take_refused().iter().for_each(|refused| tracing::warn!(%refused, "an object cannot be used"));
    }

    /// When the last first list is in, the loops start.
    fn seen_list(&mut self, kind: Kind) {
        if self.unseen == 0 || !self.context.index.has_listed(kind) {
            return;
        }
        self.unseen = self.watches.iter().filter(|(kind, _)| !self.context.index.has_listed(*kind)).count();
        if self.unseen == 0 {
            for controller in &mut self.controllers {
                for key in controller.reconciler.start() {
                    controller.queue.push(key);
                }
            }
        }
    }

    fn changed(&mut self, change: &Change) {
        for controller in &mut self.controllers {
            for key in controller.reconciler.wake(change, &self.context) {
                controller.queue.push(key);
            }
        }
    }

    fn wake(&mut self, name: &str, key: Key) {
        for controller in self.controllers.iter_mut().filter(|controller| controller.reconciler.name() == name) {
            controller.queue.push(key.clone());
        }
    }

    /// Waits for whatever comes first.
    async fn wait(&mut self) -> Woken {
        let ready = self.unseen == 0;
        let idle = self.controllers.iter().filter(|controller| controller.busy < controller.concurrency);
        let next = idle.filter_map(|controller| controller.queue.next_timer()).min().filter(|_| ready);
        let mut timer: Option<Pin<Box<Sleep>>> = next.map(|at| Box::pin(tokio::time::sleep_until(at)));
        poll_fn(|waiting| self.poll(waiting, timer.as_mut())).await
    }

    /// Sources are asked in a fixed order: what we wrote, what is done, what changed, what time it is.
    fn poll(&mut self, waiting: &mut Waiting<'_>, timer: Option<&mut Pin<Box<Sleep>>>) -> Poll<Woken> {
        if let Poll::Ready(message) = self.context.poll_inbox(waiting) {
            return Poll::Ready(Woken::Message(message));
        }
        if let Poll::Ready(Some(outcome)) = self.under_way.poll_next_unpin(waiting) {
            return Poll::Ready(Woken::Done(outcome));
        }
        for (position, (_, watch)) in self.watches.iter_mut().enumerate() {
            if let Poll::Ready(Some(news)) = watch.poll_next_unpin(waiting) {
                return Poll::Ready(Woken::News(position, news));
            }
        }
        if self.posting.len() < POSTING
            && let Poll::Ready(event) = self.context.recorder.poll_unsent(waiting)
        {
            return Poll::Ready(Woken::Event(Box::new(event)));
        }
        if let Poll::Ready(Some(())) = self.posting.poll_next_unpin(waiting) {
            return Poll::Ready(Woken::Posted);
        }
        match timer.map(|timer| timer.as_mut().poll(waiting)) {
            Some(Poll::Ready(())) => Poll::Ready(Woken::Timer),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }
}

impl Controller {
    fn new(reconciler: Arc<dyn Reconciler>) -> Self {
        Self { queue: Queue::new(reconciler.backoff()), concurrency: reconciler.concurrency(), busy: 0, reconciler }
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
