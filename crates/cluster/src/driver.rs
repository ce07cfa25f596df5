//! One task drives everything: it takes in news, decides, and has the writes carried out.
//!
//! ```text
//! watches ─┐                         ┌─> writes in flight ─┐
//! handle ──┼─> World, Scheduler, ──> │   (answers come back as news)
//! timers ──┘   Fleet, Queue          └─────────────────────┘
//! ```
//!
//! News are taken in kind by kind in a fixed order and work is done first come, first served, so that on a
//! single-threaded runtime with paused time the same seed gives the same writes in the same order.

pub mod purge;
pub mod queue;
pub mod reflect;
pub mod route;
pub mod task;
pub mod write;

use crate::clock::Clock;
use crate::cluster::Settings;
use crate::handle::Command;
use crate::key::Key;
use crate::kubelet::Fleet;
use crate::op::{Op, Step};
use crate::scheduler::Scheduler;
use crate::world::{Change, Kind, World};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, FuturesUnordered, StreamExt};
use kube::Client;
use queue::Queue;
use reflect::News;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use task::Task;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Sleep};
use write::{EventNames, Failure, Seen};

/// So many pieces of work may have writes under way at once. More only means more open requests.
const IN_FLIGHT: usize = 64;

type Outcome = (Task, Vec<Seen>, Result<(), Failure>);

pub struct Driver {
    client: Client,
    clock: Clock,
    settings: Settings,
    world: World,
    scheduler: Scheduler,
    fleet: Fleet,
    queue: Queue<Task>,
    watches: Vec<(Kind, BoxStream<'static, News>)>,
    /// Kinds whose first list is still to come; nothing is decided before the world is known.
    unseen: usize,
    in_flight: FuturesUnordered<BoxFuture<'static, Outcome>>,
    commands: Receiver<Command>,
    last_event: i128,
}

enum Woken {
    News(usize, News),
    Written(Outcome),
    Command(Command),
    Timer,
    Closed,
}

impl Driver {
    pub fn new(client: Client, clock: Clock, settings: Settings, commands: Receiver<Command>) -> Self {
        let kinds = route::kinds(&settings.parts);
        let watches: Vec<_> = kinds.into_iter().map(|kind| (kind, reflect::news(client.clone(), kind))).collect();
        Self {
            scheduler: Scheduler::new(settings.seed),
            fleet: Fleet::new(crate::kubelet::Settings { seed: settings.seed, ..settings.kubelets.clone() }),
            world: World::default(),
            queue: Queue::default(),
            unseen: watches.len(),
            watches,
            in_flight: FuturesUnordered::new(),
            commands,
            last_event: 0,
            client,
            clock,
            settings,
        }
    }

    /// Runs until the last handle is dropped.
    pub async fn run(mut self) {
        loop {
            while self.unseen == 0 && self.in_flight.len() < IN_FLIGHT && self.work() {}
            match self.wait().await {
                Woken::News(i, news) => self.take_in(i, news),
                Woken::Written(outcome) => self.written(outcome),
                Woken::Command(command) => self.obey(command),
                Woken::Timer => {}
                Woken::Closed => return,
            }
        }
    }

    /// Does one piece of work; answers whether there was any.
    fn work(&mut self) -> bool {
        let instant = Instant::now();
        if let Some(task) = self.queue.pop(instant) {
            self.perform(task);
            return true;
        }
        if self.settings.parts.scheduler
            && self.scheduler.has_work(instant)
            && let Some((pod, ops)) = self.scheduler.next(&self.world, self.clock.now(), instant)
        {
            self.start(Task::Placed(pod), ops);
            return true;
        }
        false
    }

    fn perform(&mut self, task: Task) {
        let now = self.clock.now();
        let step = task::decide(&task, &self.world, &self.scheduler, &mut self.fleet, &self.settings, now);
        self.carry_out(task, step);
    }

    fn carry_out(&mut self, task: Task, step: Step) {
        if let Some(after) = step.after {
            self.queue.push_at(task.clone(), Instant::now() + after);
        }
        if step.ops.is_empty() {
            self.queue.finish(&task);
        } else {
            self.start(task, step.ops);
        }
    }

    fn start(&mut self, task: Task, ops: Vec<Op>) {
        if ops.is_empty() {
            return;
        }
        let now = self.clock.now();
        let first = now.as_nanosecond().max(self.last_event + 1);
        self.last_event = first + ops.len() as i128;
        let writing = write::run(self.client.clone(), ops, EventNames { now, first });
        self.in_flight.push(Box::pin(async move {
            let (seen, result) = writing.await;
            (task, seen, result)
        }));
    }

    fn written(&mut self, (task, seen, result): Outcome) {
        for what in seen {
            let change = match what {
                Seen::Object(object) => self.world.answered(object),
                Seen::Gone { kind, key, uid } => self.world.bury(kind, &key, &uid),
            };
            if let Some(change) = change {
                self.changed(&change);
            }
        }
        let now = Instant::now();
        match (&task, result) {
            (Task::Placed(pod), Err(failure)) => {
                tracing::debug!(pod = %pod, %failure, "placing a pod failed");
                self.scheduler.failed(pod, now);
            }
            (Task::Placed(_), Ok(())) => {}
            (Task::LastWords(name), _) => {
                let name = name.clone();
                self.watch_over(&name);
            }
            (_, Ok(())) => self.queue.finish(&task),
            (_, Err(failure)) => {
                let failures = self.queue.retry(&task, now);
                tracing::debug!(?task, failures, %failure, "trying again");
            }
        }
    }

    fn take_in(&mut self, i: usize, news: News) {
        let kind = self.watches[i].0;
        let listed = matches!(news, News::Listed { .. });
        let changes = reflect::take_in(&mut self.world, kind, news);
        changes.iter().for_each(|change| self.changed(change));
        if listed && self.unseen > 0 {
            self.unseen -= 1;
        }
    }

    fn changed(&mut self, change: &Change) {
        if self.settings.parts.scheduler || self.settings.parts.storage {
            self.scheduler.observe(change);
        }
        route::affected(&self.world, &self.fleet, &self.settings.parts, change, &mut self.queue);
    }

    fn obey(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Add(machine) => {
                let name = machine.name.clone();
                self.fleet.add(*machine, now);
                self.queue.push(Task::Machine(name.as_str().into()));
            }
            Command::Remove(name) => {
                let last = self.fleet.remove(&name, &self.world, now);
                self.last_words(&name, last);
                if self.settings.parts.cloud {
                    self.queue.push(Task::Vanished(name.as_str().into()));
                }
            }
            Command::Silence { name, silent } => {
                let last = self.fleet.silence(&name, silent, &self.world, now);
                self.last_words(&name, last);
                self.queue.push(Task::Machine(name.as_str().into()));
                for pod in self.world.pods_on(&name) {
                    self.queue.push(Task::Run(Key::of(&pod.metadata)));
                }
            }
            Command::Press { name, pressure, on } => {
                self.fleet.press(&name, pressure, on);
                self.queue.push(Task::Machine(name.as_str().into()));
            }
            Command::Machines(answer) => {
                let _ = answer.send(self.fleet.names().cloned().collect());
            }
        }
    }

    fn last_words(&mut self, name: &str, step: Step) {
        if step.ops.is_empty() {
            self.watch_over(name);
        } else {
            self.start(Task::LastWords(name.into()), step.ops);
        }
    }

    /// From here on a node's silence counts.
    fn watch_over(&mut self, name: &str) {
        if self.settings.parts.nodes {
            self.queue.push(Task::Node(Key::cluster(name)));
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let scheduler = if self.settings.parts.scheduler { self.scheduler.next_timer() } else { None };
        self.queue.next_timer().into_iter().chain(scheduler).min()
    }

    /// Waits for whatever comes first. Sources are asked in a fixed order: what we wrote, what changed, what we are told,
    /// what time it is.
    async fn wait(&mut self) -> Woken {
        let ready = self.unseen == 0 && self.in_flight.len() < IN_FLIGHT;
        let mut timer: Option<Pin<Box<Sleep>>> =
            self.next_timer().filter(|_| ready).map(|at| Box::pin(tokio::time::sleep_until(at)));
        poll_fn(|cx| self.poll(cx, timer.as_mut())).await
    }

    fn poll(&mut self, cx: &mut Context<'_>, timer: Option<&mut Pin<Box<Sleep>>>) -> Poll<Woken> {
        if let Poll::Ready(Some(outcome)) = self.in_flight.poll_next_unpin(cx) {
            return Poll::Ready(Woken::Written(outcome));
        }
        for (i, (_, watch)) in self.watches.iter_mut().enumerate() {
            if let Poll::Ready(Some(news)) = watch.poll_next_unpin(cx) {
                return Poll::Ready(Woken::News(i, news));
            }
        }
        match self.commands.poll_recv(cx) {
            Poll::Ready(Some(command)) => return Poll::Ready(Woken::Command(command)),
            Poll::Ready(None) => return Poll::Ready(Woken::Closed),
            Poll::Pending => {}
        }
        match timer.map(|t| t.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(Woken::Timer),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }
}
