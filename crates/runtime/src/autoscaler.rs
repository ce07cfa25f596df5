//! Everything together.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use karpenter_controllers::{Clock, Context, Engine, Reconciler, Settings};
use karpenter_provider::chain;
use karpenter_provider_aws::Task;
use kube::Client;

use crate::amazon::Amazon;
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
        let reconcilers = roster(&settings, amazon.reconcilers());
        let context = Context::new(client, clock, amazon.provider(), amazon.vocabulary(), settings);
        let context = Arc::new(context);
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
        let engine = Engine::new(self.context, self.reconcilers).run();
        let tasks = join_all(self.tasks.into_iter().map(repeat));
        tokio::join!(engine, tasks);
    }
}

/// A cause is said once, however often it is met, and once more when it is over.
async fn repeat(task: Task) {
    tokio::time::sleep(task.delay).await;
    let mut retry = FIRST_RETRY;
    let mut said = String::new();
    loop {
        let pause = match (task.round)().await {
            Ok(pause) => {
                if !said.is_empty() {
                    tracing::info!(controller = task.name, "it works again");
                }
                (retry, said) = (FIRST_RETRY, String::new());
                pause
            }
            Err(error) => {
                let cause = chain(&error);
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
        tokio::time::sleep(pause).await;
    }
}
