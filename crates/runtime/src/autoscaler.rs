//! Everything together.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use futures_util::future::{BoxFuture, join_all};
use karpenter_controllers::metrics::Ended;
use karpenter_controllers::overlays::NodeOverlays;
use karpenter_controllers::pulse::ROUND;
use karpenter_controllers::{Clock, Context, Engine, Reconciler, Settings, Shift, as_controller, panic_text};
use karpenter_provider::overlay::Overlaid;
use karpenter_provider::{CloudProvider, chain};
use karpenter_provider_aws::Task;
use kube::Client;

use crate::amazon::Amazon;
use crate::metered::Metered;
use crate::metrics;
use crate::roster::roster;

/// A task that fails is tried again after this, then after twice this, and so on.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// An autoscaler that is ready to run.
pub struct Autoscaler {
    pub context: Arc<Context>,
    reconcilers: Vec<Arc<dyn Reconciler>>,
    tasks: Vec<Task>,
}

impl Autoscaler {
    pub fn new(client: Client, clock: Clock, amazon: &Amazon, settings: Settings) -> Self {
        let mut reconcilers = roster(&settings, amazon.reconcilers());
        let metered = Metered::new(amazon.provider());
        let overlays = amazon.overlays();
        let settings = Settings { node_overlays: overlays.is_some(), ..settings };
        let provider: Arc<dyn CloudProvider> = match overlays {
            Some(store) => {
                reconcilers.push(Arc::new(NodeOverlays::new(metered.clone(), store.clone())));
                Arc::new(Overlaid::new(metered.clone(), store))
            }
            None => metered.clone(),
        };
        let context = Context::new(client, clock, provider, amazon.vocabulary(), settings);
        let context = Arc::new(context);
        metered.join(&context);
        amazon.join(&context);
        metrics::register(&context);
        Self { reconcilers, tasks: amazon.tasks(), context }
    }

    /// The names of everything that runs, as logs and metrics call it.
    pub fn names(&self) -> Vec<&'static str> {
        let reconcilers = self.reconcilers.iter().map(|reconciler| reconciler.name());
        reconcilers.chain(self.tasks.iter().map(|task| task.name)).collect()
    }

    /// Runs until it is dropped. What is under way then stops where it is, as in a crash.
    pub async fn run(self) {
        self.work(Shift::forever()).await;
    }

    /// Watches at once, works from the start of the shift to its end, and then finishes what is under way.
    pub async fn work(self, shift: Shift) {
        let (start, end) = (shift.start.shared(), shift.end.shared());
        let context = self.context.clone();
        let shift = Shift { start: start.clone().boxed(), end: end.clone().boxed() };
        let engine = Engine::new(self.context, self.reconcilers).work(shift);
        let tasks = self.tasks.into_iter().map(|task| repeat(task, context.clone(), start.clone(), end.clone()));
        tokio::join!(engine, join_all(tasks));
    }
}

type Moment = Shared<BoxFuture<'static, ()>>;

/// A round that has begun is finished, also after the end. A cause of failure is said once, however often it is met, and
/// once more when it is over.
async fn repeat(task: Task, context: Arc<Context>, start: Moment, end: Moment) {
    let work = &context.metrics.work;
    work.controller(task.name, 1);
    let mut retry = FIRST_RETRY;
    let mut pause = task.delay;
    let mut said = String::new();
    tokio::select! {
        () = start => {}
        () = end.clone() => return,
    }
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = end.clone() => return,
        }
        let piece = work.started(task.name, Duration::ZERO);
        let under_way = context.pulse.begin(task.name, None, ROUND);
        // A bug of ours in one round ends this round, and the others go on.
        let round = AssertUnwindSafe(as_controller(task.name, async { (task.round)().await }));
        let outcome = match round.catch_unwind().await {
            Ok(Ok(pause)) => Ok(pause),
            Ok(Err(error)) => Err((Ended::Failed, chain(&error))),
            Err(panic) => Err((Ended::Panicked, format!("panicked: {}", panic_text(&*panic)))),
        };
        pause = match outcome {
            Ok(pause) => {
                work.ended(&piece, Ended::Later);
                if !said.is_empty() {
                    tracing::info!(controller = task.name, "it works again");
                }
                (retry, said) = (FIRST_RETRY, String::new());
                pause
            }
            Err((ended, cause)) => {
                work.ended(&piece, ended);
                if cause == said {
                    tracing::debug!(controller = task.name, error = cause, "Reconciler error");
                } else {
                    tracing::error!(controller = task.name, error = cause, "Reconciler error");
                }
                said = cause;
                let pause = retry;
                retry = (retry * 2).min(task.longest_retry);
                pause
            }
        };
        drop(under_way);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use karpenter_apiserver::{ApiServer, Options};
    use karpenter_aws_sim::{Options as SimOptions, Region};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_round_that_panics_is_counted_and_tried_again() {
        let clock = Clock::starting_at("2026-01-02T00:00:00Z".parse().unwrap());
        let client = Client::new(ApiServer::new(Options::new()).service(), "default");
        let of_region = clock.clone();
        let region = Region::new(SimOptions::new("us-east-1", 1, "shop"), Arc::new(move || of_region.now()));
        let facts = karpenter_provider_aws::Settings::new("shop", "https://shop.example", "");
        let amazon = Amazon::start(client.clone(), &clock, region.aws(), facts).await.unwrap();
        let context = Autoscaler::new(client, clock, &amazon, Settings::default()).context;
        let rounds = Arc::new(AtomicU32::new(0));
        let round = {
            let rounds = rounds.clone();
            move || {
                let number = rounds.fetch_add(1, Ordering::Relaxed);
                async move {
                    assert!(number >= 2, "a bug of ours");
                    Ok(Duration::from_secs(3600))
                }
                .boxed()
            }
        };
        let delay = Duration::ZERO;
        let task = Task { name: "x", delay, round: Arc::new(round), longest_retry: Duration::from_secs(300) };
        let never = || std::future::pending::<()>().boxed().shared();
        let begun = std::future::ready(()).boxed().shared();
        let ended = tokio::time::timeout(Duration::from_secs(60), repeat(task, context.clone(), begun, never())).await;
        assert!(ended.is_err(), "it goes on");
        assert_eq!(rounds.load(Ordering::Relaxed), 3, "until it worked");
        let page = metrics::page(&context, metrics::Show { legacy: false });
        assert!(page.contains("controller_runtime_reconcile_panics_total{controller=\"x\"} 2\n"), "{page}");
    }
}
