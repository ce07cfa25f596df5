//! A process of the controllers: it waits for the lease, works while it leads, and is started again when it does not lead any more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use karpenter_apiserver::ApiServer;
use karpenter_aws_sim::Region;
use karpenter_controllers::{Clock, CommandObserver, Context, PlanObserver, Shift};
use karpenter_runtime::Autoscaler;
use karpenter_runtime::deadline::Deadlines;
use karpenter_runtime::leadership::{Fenced, Leadership, fence_aws};
use karpenter_runtime::lease::Election;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceBuilder;

use crate::audit::Audit;
use crate::wire::Wire;
use crate::world::{Setup, StartError, over_aws};

pub(crate) const LEASE_NAMESPACE: &str = "kube-system";
pub(crate) const LEASE: &str = "karpenter-leader-election";
/// A kubelet starts a process that cannot start again after a while.
const START_AGAIN: Duration = Duration::from_secs(10);
/// A process that has lost its lease goes on for so long, as one does that was stopped in the middle of its work and does not
/// know. Nothing that it still tries may reach the server.
const UNAWARE: Duration = Duration::from_secs(60);

/// What every process of a world is started from.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) server: ApiServer,
    pub(crate) audit: Audit,
    pub(crate) region: Region,
    pub(crate) clock: Clock,
    pub(crate) setup: Arc<Setup>,
    pub(crate) wire: Wire,
    /// How long the next computations take.
    pub(crate) stalls: Stalls,
    /// Of the process that was started last.
    pub(crate) current: Current,
}

/// Computations that take long, one after another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls(Arc<Mutex<VecDeque<Duration>>>);

impl Stalls {
    pub(crate) fn add(&self, length: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(length);
    }

    fn take(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The number of the process that was started last, and its context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current(Arc<Mutex<(u64, Option<Arc<Context>>)>>);

impl Current {
    pub(crate) fn number(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn context(&self) -> Option<Arc<Context>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    fn next_number(&self) -> u64 {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.0 += 1;
        current.0
    }

    fn is(&self, context: &Arc<Context>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(context.clone());
    }
}

/// Ready to run.
pub(crate) struct Process {
    pub(crate) autoscaler: Autoscaler,
    election: Option<Election>,
}

pub(crate) fn identity(number: u64) -> String {
    format!("karpenter-{number}")
}

impl Origin {
    /// With nothing in memory.
    pub(crate) async fn start(&self) -> Result<Process, StartError> {
        let number = self.current.next_number();
        let leadership = match self.setup.election {
            true => Leadership::elected(),
            false => Leadership::without_election(),
        };
        let port = self.wire.port(number, self.audit.before(&self.server, number, &self.current));
        let wire = ServiceBuilder::new().layer(Deadlines::default()).service(port);
        let fenced = ServiceBuilder::new().layer(Fenced(leadership.clone())).service(wire.clone());
        let client = Client::new(fenced, "default");
        let aws = fence_aws(self.region.aws(), &leadership);
        let (setup, clock) = (&self.setup, &self.clock);
        let options = self.region.options();
        let autoscaler = over_aws(client, aws, options, clock, setup.interruptions, setup.settings.clone()).await?;
        self.observe(&autoscaler.context);
        self.current.is(&autoscaler.context);
        let election = self.setup.election.then(|| {
            let client = Client::new(wire, LEASE_NAMESPACE);
            Election::new(client, clock.clone(), LEASE_NAMESPACE, LEASE, &identity(number), leadership)
        });
        Ok(Process { autoscaler, election })
    }

    fn observe(&self, context: &Context) {
        let audit = self.audit.clone();
        let plans: PlanObserver = Box::new(move |world, plan| audit.judge(world, plan));
        let _ = context.plan_observer.set(plans);
        let audit = self.audit.clone();
        let decided: CommandObserver =
            Box::new(move |snapshot, policy, commands| audit.judge_decision(snapshot, policy, commands));
        let _ = context.decision_observer.set(decided);
        let audit = self.audit.clone();
        let started: CommandObserver =
            Box::new(move |snapshot, policy, commands| audit.judge_start(snapshot, policy, commands));
        let _ = context.start_observer.set(started);
        let (stalls, wire) = (self.stalls.clone(), self.wire.clone());
        let takes = move || match stalls.take() {
            Some(length) => {
                wire.count("solve_stalled");
                length
            }
            None => Duration::ZERO,
        };
        let _ = context.compute_time.set(Box::new(takes));
    }

    /// Runs it, and after it the next one whenever one has lost its lease.
    pub(crate) async fn keep(self, first: Process) {
        let (mut process, mut unaware) = (first, JoinSet::new());
        loop {
            let rest = process.run().await;
            self.wire.count("leadership_lost");
            unaware.spawn(async move { drop(tokio::time::timeout(UNAWARE, rest).await) });
            process = loop {
                match self.start().await {
                    Ok(process) => break process,
                    Err(_) => tokio::time::sleep(START_AGAIN).await,
                }
            };
        }
    }
}

impl Process {
    /// Works until its lease is lost. What is left of it then would go on.
    async fn run(self) -> BoxFuture<'static, ()> {
        let (lead, mut leads) = watch::channel(false);
        let start = async move {
            if leads.wait_for(|yes| *yes).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let end = std::future::pending().boxed();
        let mut working = self.autoscaler.work(Shift { start: start.boxed(), end }).boxed();
        let election = self.election;
        let leading = async {
            let Some(mut election) = election else {
                lead.send_replace(true);
                return std::future::pending().await;
            };
            election.acquire().await;
            lead.send_replace(true);
            election.hold().await;
        };
        tokio::select! {
            // In this order every time; otherwise chance decides.
            biased;
            () = leading => {}
            () = &mut working => {}
        }
        working
    }
}
