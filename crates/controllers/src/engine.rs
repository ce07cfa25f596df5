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

mod lines;
mod queue;
mod retry;
mod watch;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Waiting, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, FuturesUnordered, StreamExt};
use karpenter_index::{Change, Key, Kind, Object};
use tokio::time::{Instant, Sleep};

use crate::context::{Context, Message};
use crate::error::{Error, Result};
use crate::metrics::{Ended, Piece, Work};
use crate::pulse::BEAT;
use crate::reconciler::{Action, Reconciler};
use crate::recorder::{self, Event};
use crate::unreadable;
use queue::Queue;
use watch::News;

/// Whose work is being done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doing {
    pub controller: &'static str,
    /// The object it is done on; none for work that is about no single one.
    pub key: Option<Key>,
    /// Tells one round of work from all others of this process.
    pub round: u64,
}

tokio::task_local! {
    static DOING: Doing;
}

/// Nothing is decided by it: it only ever ends up in the log.
static ROUNDS: AtomicU64 = AtomicU64::new(1);

/// The work this is called from, if it is a controller's.
pub fn doing() -> Option<Doing> {
    DOING.try_with(Doing::clone).ok()
}

/// The name of the controller this is called by; empty outside of any.
pub fn controller_name() -> &'static str {
    DOING.try_with(|doing| doing.controller).unwrap_or_default()
}

/// Does work in a controller's name.
pub async fn as_controller<F: Future>(name: &'static str, work: F) -> F::Output {
    as_controller_on(name, None, work).await
}

async fn as_controller_on<F: Future>(controller: &'static str, key: Option<Key>, work: F) -> F::Output {
    let round = ROUNDS.fetch_add(1, Ordering::Relaxed);
    DOING.scope(Doing { controller, key, round }, work).await
}

/// When to look again at what waits for a watch that has been silent.
const STALE_LOOK: Duration = Duration::from_secs(5);

/// So many events may be on their way at once. Few: when the server is slow, it has better things to do.
const POSTING: usize = 3;

/// What panics of the index are counted under, which is no controller.
const TAKING_IN: &str = "index";

/// When the engine works. Until the start it watches and decides nothing; after the end it finishes what is under way.
pub struct Shift {
    pub start: BoxFuture<'static, ()>,
    pub end: BoxFuture<'static, ()>,
}

impl Shift {
    /// At once and for ever.
    pub fn forever() -> Self {
        Self { start: std::future::ready(()).boxed(), end: std::future::pending().boxed() }
    }
}

impl std::fmt::Debug for Shift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shift")
    }
}

/// Everything that runs, over one context.
pub struct Engine {
    context: Arc<Context>,
    controllers: Vec<Controller>,
    watches: Vec<(Kind, BoxStream<'static, News>)>,
    /// Kinds whose first list is still to come; nothing is decided before the cluster is known.
    unseen: usize,
    under_way: FuturesUnordered<BoxFuture<'static, Outcome>>,
    posting: FuturesUnordered<BoxFuture<'static, ()>>,
    phase: Phase,
}

/// Where in its shift the engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Watching,
    Working,
    Ending,
}

struct Controller {
    reconciler: Arc<dyn Reconciler>,
    queue: Queue<Key>,
    concurrency: usize,
    busy: usize,
    /// How many waited when it was last told.
    told: usize,
}

struct Outcome {
    controller: usize,
    key: Key,
    result: Result<Action>,
    piece: Piece,
}

enum Woken {
    Message(Message),
    Done(Outcome),
    News(usize, News),
    Event(Box<(Event, jiff::Timestamp, i128)>),
    Posted,
    Timer,
    Start,
    End,
    /// Nothing is left to finish.
    Over,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("under_way", &self.under_way.len()).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(context: Arc<Context>, reconcilers: Vec<Arc<dyn Reconciler>>) -> Self {
        let class = context.index.node_class_kind();
        // Of the time, since nothing else differs between two replicas.
        let seed = context.clock.now().subsec_nanosecond().unsigned_abs().into();
        let watch = |kind: Kind| {
            let (client, freshness) = (context.client.clone(), context.freshness.clone());
            (kind, watch::news(client, kind, kind.path(&class), freshness, seed))
        };
        let watches: Vec<_> = context.index.kinds().into_iter().map(watch).collect();
        let controllers: Vec<Controller> = reconcilers.into_iter().map(Controller::new).collect();
        for controller in &controllers {
            context.metrics.work.controller(controller.reconciler.name(), controller.concurrency);
        }
        Self {
            unseen: watches.len(),
            watches,
            controllers,
            context,
            under_way: FuturesUnordered::new(),
            posting: FuturesUnordered::new(),
            phase: Phase::Watching,
        }
    }

    /// Runs until it is dropped. What is under way then stops where it is, as in a crash.
    pub async fn run(self) {
        self.work(Shift::forever()).await;
    }

    /// Runs until the shift has ended and everything under way is finished.
    pub async fn work(mut self, mut shift: Shift) {
        loop {
            self.context.pulse.beat();
            if self.is_working() {
                self.start_work();
            }
            match self.wait(&mut shift).await {
                Woken::Start => self.phase = Phase::Working,
                Woken::End => self.phase = Phase::Ending,
                Woken::Over => return self.context.pulse.rest(),
                Woken::Message(Message::Changed(change)) => self.changed(&change),
                Woken::Message(Message::Wake { controller, key }) => self.wake(controller, key),
                Woken::Done(outcome) => self.done(outcome),
                Woken::News(watch, news) => self.take_in_or_go_without(watch, news),
                Woken::Event(event) => {
                    let (event, now, unique) = *event;
                    self.posting.push(recorder::post(self.context.client.clone(), event, now, unique).boxed());
                }
                Woken::Posted | Woken::Timer => {}
            }
        }
    }

    /// Nothing is decided before the cluster is known.
    fn is_working(&self) -> bool {
        self.unseen == 0 && self.phase == Phase::Working
    }

    /// Starts what is ready, controller by controller.
    fn start_work(&mut self) {
        let now = Instant::now();
        for (position, controller) in self.controllers.iter_mut().enumerate() {
            while controller.busy < controller.concurrency {
                let Some((key, waited)) = controller.queue.pop_waited(now) else { break };
                controller.busy += 1;
                let (reconciler, context) = (controller.reconciler.clone(), self.context.clone());
                let piece = context.metrics.work.started(reconciler.name(), waited);
                let object = Some(key.clone()).filter(|key| !key.name.is_empty());
                let under_way = context.pulse.begin(reconciler.name(), object.clone(), reconciler.longest());
                self.under_way.push(Box::pin(as_controller_on(reconciler.name(), object, async move {
                    let _under_way = under_way;
                    let work = AssertUnwindSafe(reconciler.reconcile(&key, &context)).catch_unwind();
                    let result = work.await.unwrap_or_else(|panic| Err(Error::Panicked(panic_text(&*panic))));
                    Outcome { controller: position, key, result, piece }
                })));
            }
            controller.tell(&self.context.metrics.work);
        }
    }

    fn done(&mut self, Outcome { controller, key, result, piece }: Outcome) {
        self.context.metrics.work.ended(&piece, ended(&result));
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
            Err(error) if error.is_conflict() => {
                let (failures, name) = (controller.queue.give_way(&key, now), controller.reconciler.name());
                tracing::debug!(controller = name, %key, failures, "somebody else wrote first, looking again");
            }
            Err(error) if error.is_stale() => {
                controller.queue.finish(&key);
                tracing::debug!(controller = controller.reconciler.name(), %key, %error, "waiting to be up to date");
                controller.queue.push_at(key, now + STALE_LOOK);
            }
            Err(error) => {
                let failures = match error.is_unavailable() {
                    true => controller.queue.retry_soon(&key, now),
                    false => controller.queue.retry(&key, now),
                };
                let name = controller.reconciler.name();
                tracing::error!(controller = name, %key, failures, error = error.to_string(), "Reconciler error");
            }
        }
    }

    /// A bug of ours that one object brings out must not end the process, which would meet the same object again.
    fn take_in_or_go_without(&mut self, position: usize, news: News) {
        let kind = self.watches[position].0.name();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_in(position, news))) {
            tracing::error!(kind, panic = panic_text(&*panic), "news of a kind are not taken in");
            self.context.metrics.work.panicked(TAKING_IN);
        }
        for _ in 0..self.context.index.take_panics() {
            self.context.metrics.work.panicked(TAKING_IN);
        }
    }

    fn take_in(&mut self, position: usize, news: News) {
        let kind = self.watches[position].0;
        let index = self.context.index.clone();
        match news {
            News::Page(objects) => self.take_in_page(kind, objects),
            News::Listed { last, present, unreadable, version } => {
                self.take_in_page(kind, last);
                let gone = index.list_end(kind, &present, unreadable, version);
                gone.iter().for_each(|change| self.changed(change));
                self.seen_list(kind);
            }
            News::Without => {
                index.go_without(kind).iter().for_each(|change| self.changed(change));
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
                let change = match line.decode(kind) {
                    Ok(object) => index.apply(object),
                    Err(one) => index.apply_unreadable(*one),
                };
                change.iter().for_each(|change| self.changed(change));
                index.advance(kind, line.version);
            }
            News::Bookmark(version) => index.advance(kind, version),
        }
        unreadable::publish(&self.context);
    }

    fn take_in_page(&mut self, kind: Kind, objects: Vec<Object>) {
        let changes = self.context.index.list_page(kind, objects);
        changes.iter().for_each(|change| self.changed(change));
    }

    /// When the last first list is in, the loops start.
    fn seen_list(&mut self, kind: Kind) {
        if self.unseen == 0 || !self.context.index.has_listed(kind) {
            return;
        }
        self.unseen = self.watches.iter().filter(|(kind, _)| !self.context.index.has_listed(*kind)).count();
        if self.unseen == 0 {
            for controller in &mut self.controllers {
                let start = catch_unwind(AssertUnwindSafe(|| controller.reconciler.start()));
                let keys = start.unwrap_or_else(|panic| {
                    let (name, panic) = (controller.reconciler.name(), panic_text(&*panic));
                    tracing::error!(controller = name, panic, "what a controller starts with is not known");
                    self.context.metrics.work.panicked(name);
                    Vec::new()
                });
                keys.into_iter().for_each(|key| controller.queue.push(key));
            }
        }
    }

    fn changed(&mut self, change: &Change) {
        let context = &self.context;
        for controller in &mut self.controllers {
            let wake = AssertUnwindSafe(|| controller.reconciler.wake(change, context));
            let keys = catch_unwind(wake).unwrap_or_else(|panic| {
                let (name, panic) = (controller.reconciler.name(), panic_text(&*panic));
                tracing::error!(controller = name, kind = change.kind.name(), key = %change.key, panic, "a change is not taken up");
                context.metrics.work.panicked(name);
                Vec::new()
            });
            keys.into_iter().for_each(|key| controller.queue.push(key));
        }
    }

    fn wake(&mut self, name: &str, key: Key) {
        for controller in self.controllers.iter_mut().filter(|controller| controller.reconciler.name() == name) {
            controller.queue.push(key.clone());
        }
    }

    /// Waits for whatever comes first.
    async fn wait(&mut self, shift: &mut Shift) -> Woken {
        let ready = self.is_working();
        let idle = self.controllers.iter().filter(|controller| controller.busy < controller.concurrency);
        let next = idle.filter_map(|controller| controller.queue.next_timer()).min().filter(|_| ready);
        let beat = Instant::now() + BEAT;
        let mut timer = Box::pin(tokio::time::sleep_until(next.map_or(beat, |at| at.min(beat))));
        poll_fn(|waiting| self.poll(waiting, shift, &mut timer)).await
    }

    /// Sources are asked in a fixed order: the shift, what we wrote, what is done, what changed, what time it is.
    fn poll(&mut self, waiting: &mut Waiting<'_>, shift: &mut Shift, timer: &mut Pin<Box<Sleep>>) -> Poll<Woken> {
        if self.phase != Phase::Ending && shift.end.poll_unpin(waiting).is_ready() {
            return Poll::Ready(Woken::End);
        }
        if self.phase == Phase::Watching && shift.start.poll_unpin(waiting).is_ready() {
            return Poll::Ready(Woken::Start);
        }
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
        // Whoever does not lead may not write, and an event that is refused is lost.
        if self.phase != Phase::Watching
            && self.posting.len() < POSTING
            && let Poll::Ready(event) = self.context.recorder.poll_unsent(waiting)
        {
            return Poll::Ready(Woken::Event(Box::new(event)));
        }
        if let Poll::Ready(Some(())) = self.posting.poll_next_unpin(waiting) {
            return Poll::Ready(Woken::Posted);
        }
        if self.phase == Phase::Ending && self.under_way.is_empty() && self.posting.is_empty() {
            return Poll::Ready(Woken::Over);
        }
        timer.as_mut().poll(waiting).map(|()| Woken::Timer)
    }
}

impl Controller {
    fn new(reconciler: Arc<dyn Reconciler>) -> Self {
        Self {
            queue: Queue::new(reconciler.backoff()),
            concurrency: reconciler.concurrency(),
            busy: 0,
            told: 0,
            reconciler,
        }
    }

    /// What has changed of its queue, which for most is nothing.
    fn tell(&mut self, work: &Work) {
        let (added, depth) = (self.queue.take_added(), self.queue.depth());
        work.added(self.reconciler.name(), added);
        if depth != self.told {
            work.waiting(self.reconciler.name(), depth);
            self.told = depth;
        }
    }
}

fn ended(result: &Result<Action>) -> Ended {
    match result {
        Ok(Action::Done) => Ended::Success,
        Ok(Action::After(_)) => Ended::Later,
        Ok(Action::Again) => Ended::Again,
        Err(Error::Panicked(_)) => Ended::Panicked,
        // Somebody else wrote first: not a failure, but it has to be done again.
        Err(error) if error.is_conflict() || error.is_stale() => Ended::Again,
        Err(_) => Ended::Failed,
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
