//! Requests that come together go together: one call for all that are alike.
//!
//! The first request of a kind opens a window, which closes after a moment without another, after a while in any case,
//! or when it is full. Dropping the batcher drops what it has under way, as a process that dies would.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub idle: Duration,
    pub longest: Duration,
    pub most: usize,
}

/// Calls of one batcher at once.
const PARALLEL: usize = 100;

/// Makes one call for all items, and gives each its answer, in their order.
pub type Execute<K, I, O> = Arc<dyn Fn(K, Vec<I>) -> BoxFuture<'static, Vec<O>> + Send + Sync>;

/// Told of every call: how many requests it served, and how long they waited to be joined.
pub type Measure = Arc<dyn Fn(usize, Duration) + Send + Sync>;

pub struct Batcher<K, I, O> {
    shared: Arc<Shared<K, I, O>>,
    running: Mutex<JoinSet<()>>,
}

struct Shared<K, I, O> {
    window: Window,
    execute: Execute<K, I, O>,
    measure: Measure,
    batches: Mutex<Batches<K, I, O>>,
    calls: Semaphore,
}

struct Batches<K, I, O> {
    /// The one that others of the key may still join.
    open: BTreeMap<K, Batch<I, O>>,
    /// Full ones, which their task has not picked up yet.
    full: BTreeMap<u64, Batch<I, O>>,
    opened: u64,
}

struct Batch<I, O> {
    id: u64,
    items: Vec<(I, oneshot::Sender<O>)>,
    /// Told of every further item.
    more: Arc<Notify>,
}

/// The process ends; nobody is left to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the batch was dropped")]
pub struct Dropped;

impl<K, I, O> Batcher<K, I, O>
where
    K: Ord + Clone + Send + 'static,
    I: Send + 'static,
    O: Send + 'static,
{
    pub fn new(window: Window, execute: Execute<K, I, O>, measure: Measure) -> Self {
        let batches = Mutex::new(Batches { open: BTreeMap::new(), full: BTreeMap::new(), opened: 0 });
        let shared = Shared { window, execute, measure, batches, calls: Semaphore::new(PARALLEL) };
        Self { shared: Arc::new(shared), running: Mutex::new(JoinSet::new()) }
    }

    /// Joins the open batch of this key, or opens one.
    pub async fn add(&self, key: K, item: I) -> Result<O, Dropped> {
        let (answer, answered) = oneshot::channel();
        if let Some((id, more)) = self.shared.join(&key, item, answer) {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            while running.try_join_next().is_some() {}
            running.spawn(self.shared.clone().run(key, id, more));
        }
        answered.await.map_err(|_| Dropped)
    }
}

impl<K: Ord + Clone, I, O> Shared<K, I, O> {
    fn batches(&self) -> MutexGuard<'_, Batches<K, I, O>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `Some` if a batch was opened: its number, and what tells of further items.
    fn join(&self, key: &K, item: I, answer: oneshot::Sender<O>) -> Option<(u64, Arc<Notify>)> {
        let mut batches = self.batches();
        let opened = match batches.open.get_mut(key) {
            Some(batch) => {
                batch.items.push((item, answer));
                batch.more.notify_one();
                None
            }
            None => {
                batches.opened += 1;
                let (id, more) = (batches.opened, Arc::new(Notify::new()));
                batches.open.insert(key.clone(), Batch { id, items: vec![(item, answer)], more: more.clone() });
                Some((id, more))
            }
        };
        let is_full = batches.open.get(key).is_some_and(|batch| batch.items.len() >= self.window.most);
        if let Some(batch) = is_full.then(|| batches.open.remove(key)).flatten() {
            batches.full.insert(batch.id, batch);
        }
        opened
    }

    async fn run(self: Arc<Self>, key: K, id: u64, more: Arc<Notify>) {
        let began = Instant::now();
        let end = began + self.window.longest;
        let batch = loop {
            if let Some(batch) = self.batches().full.remove(&id) {
                break batch;
            }
            let idle = Instant::now() + self.window.idle;
            let another = tokio::select! {
                biased;
                () = more.notified() => true,
                () = sleep_until(idle.min(end)) => false,
            };
            if !another {
                let mut batches = self.batches();
                let mine = batches.open.get(&key).is_some_and(|batch| batch.id == id);
                let taken = if mine { batches.open.remove(&key) } else { batches.full.remove(&id) };
                break taken.expect("a batch is open or full until its own task takes it");
            }
        };
        (self.measure)(batch.items.len(), began.elapsed());
        let Ok(_permit) = self.calls.acquire().await else { return };
        let (items, answers): (Vec<I>, Vec<_>) = batch.items.into_iter().unzip();
        for (answer, result) in answers.into_iter().zip((self.execute)(key, items).await) {
            let _ = answer.send(result);
        }
    }
}

#[cfg(test)]
mod tests;
