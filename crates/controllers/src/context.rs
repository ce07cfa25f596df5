//! What reconcilers share, and nothing they decide.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context as Waiting, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use karpenter_core::World;
use karpenter_core::plan::Plan;
use karpenter_disruption::{Command, Policy, Snapshot};
use karpenter_index::{Change, Index, Key, Kind, NodeClass, Object, Unreadable};
use karpenter_provider::CloudProvider;
use kube::Client;
use tokio::time::Instant;

use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::compute::ComputeTime;
use crate::disruption::regret::Regret;
use crate::error::{Error, Result};
use crate::freshness::{self, Freshness};
use crate::lifecycle::{Gone, Questions};
use crate::metrics::Metrics;
use crate::provisioning::Remarked;
use crate::provisioning::batcher::Batcher;
use crate::pulse::Pulse;
use crate::recorder::Recorder;
use crate::settings::Settings;
use crate::static_pools::Ledger;
use crate::unreadable::{self, Untold};

/// Before this nobody needs to be told that claims are still being launched.
const UNSYNCED_WARNING: Duration = Duration::from_secs(30);
const UNSYNCED_LOG: Duration = Duration::from_secs(10);

pub struct Context {
    pub client: Client,
    pub clock: Clock,
    pub index: Arc<Index>,
    /// Whether what the index holds is recent.
    pub freshness: Arc<Freshness>,
    /// Whether everything that runs still moves.
    pub pulse: Arc<Pulse>,
    pub provider: Arc<dyn CloudProvider>,
    pub settings: Settings,
    pub recorder: Recorder,
    pub metrics: Metrics,
    /// Pods that wait to be planned together.
    pub batcher: Batcher,
    /// Room that is kept for pods that do not exist yet.
    pub buffers: Buffers,
    /// What moving pods to save money has cost.
    pub regret: Regret,
    /// Nodes of static pools that are about to come, or to be replaced.
    pub static_nodes: Ledger,
    /// Sees every plan before it is carried out: for whoever wants to judge them.
    pub plan_observer: OnceLock<PlanObserver>,
    /// Sees the commands of every pass of disruption as they were decided, including those that budgets hold back for now.
    pub decision_observer: OnceLock<CommandObserver>,
    /// Sees the commands that are about to be carried out together, and the cluster as it was last looked at before that.
    pub start_observer: OnceLock<CommandObserver>,
    /// How long computations take where time is virtual.
    pub compute_time: OnceLock<ComputeTime>,
    pub(crate) remarked: Remarked,
    pub(crate) gone: Gone,
    pub(crate) questions: Questions,
    pub(crate) untold: Untold,
    inbox: Inbox,
    unsynced_log: Every,
}

pub type PlanObserver = Box<dyn Fn(&World, &Plan) + Send + Sync>;
pub type CommandObserver = Box<dyn Fn(&Snapshot<'_>, &Policy, &[Command]) + Send + Sync>;

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("provider", &self.provider.name()).finish_non_exhaustive()
    }
}

impl Context {
    /// An index for the provider's node classes comes with it.
    pub fn new(
        client: Client,
        clock: Clock,
        provider: Arc<dyn CloudProvider>,
        vocabulary: Arc<karpenter_core::labels::Vocabulary>,
        settings: Settings,
    ) -> Self {
        let kind = provider.node_class_kinds().first().expect("a provider has a kind of node class");
        let node_class = karpenter_index::NodeClassKind {
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            plural: kind.plural,
        };
        let options = karpenter_index::Options {
            settings: settings.scheduling.clone(),
            vocabulary,
            node_class,
            features: karpenter_index::Features {
                node_overlays: settings.node_overlays,
                capacity_buffers: settings.capacity_buffers,
            },
            plan_window: settings.nomination_window(),
        };
        Self {
            index: Arc::new(Index::new(options)),
            freshness: Arc::default(),
            pulse: Arc::default(),
            recorder: Recorder::new(clock.clone()),
            metrics: Metrics::default(),
            batcher: Batcher::new(settings.batch_idle, settings.batch_max),
            buffers: Buffers::default(),
            regret: Regret::default(),
            static_nodes: Ledger::default(),
            plan_observer: OnceLock::new(),
            decision_observer: OnceLock::new(),
            start_observer: OnceLock::new(),
            compute_time: OnceLock::new(),
            remarked: Remarked::default(),
            gone: Gone::default(),
            questions: Questions::default(),
            untold: Untold::default(),
            inbox: Inbox::default(),
            unsynced_log: Every::default(),
            client,
            clock,
            provider,
            settings,
        }
    }

    /// An object as the server answered a write of ours: the index has it at once, and whom it concerns is woken.
    pub fn saw(&self, object: impl Into<Object>) {
        if let Some(change) = self.index.apply(object.into()) {
            self.inbox.push(Message::Changed(Box::new(change)));
        }
        unreadable::publish(self);
    }

    /// As [`Context::saw`], of what could not be decoded.
    pub(crate) fn saw_unreadable(&self, one: Unreadable) {
        if let Some(change) = self.index.apply_unreadable(one) {
            self.inbox.push(Message::Changed(Box::new(change)));
        }
        unreadable::publish(self);
    }

    /// A node class of which the provider cannot read what it launches from, though the index knows that it is there.
    pub fn unreadable_class(&self, class: &NodeClass, why: &str) {
        self.index.note_unreadable_class(class, why);
        unreadable::publish(self);
    }

    /// Whether decisions may be made now, which is also what the metrics say of it: the cluster is known whole, every
    /// claim has its machine, and every watch was heard from lately.
    pub fn is_synced(&self) -> bool {
        let synced = self.index.is_synced() && self.is_fresh();
        let waited = self.metrics.choices.state(synced, self.index.machine_count(), self.clock.now());
        if waited >= UNSYNCED_WARNING && self.unsynced_log.is_due(Instant::now()) {
            let unlaunched = self.index.unlaunched();
            let unlaunched: Vec<&str> = unlaunched.iter().map(|name| &**name).take(5).collect();
            let seconds = waited.as_secs();
            tracing::info!(
                seconds,
                unlaunched = unlaunched.join(", "),
                silent = freshness::named(&self.freshness.stale(&Kind::ALL)),
                "cluster state is not synced, nothing is decided"
            );
        }
        synced
    }

    /// Whether all that is known of the cluster was heard lately.
    pub fn is_fresh(&self) -> bool {
        self.freshness.is_fresh(&Kind::ALL)
    }

    /// Refuses to go on from what was not heard lately. Whoever is about to destroy something asks it for every kind the
    /// decision was made from.
    pub fn heard_lately(&self, kinds: &[Kind]) -> Result<()> {
        match self.freshness.stale(kinds) {
            stale if stale.is_empty() => Ok(()),
            stale => Err(Error::Stale(freshness::named(&stale))),
        }
    }

    /// What of ours does not move any more, for whoever could restart us.
    pub fn hung(&self) -> Vec<String> {
        let watches = self.freshness.stuck().into_iter().map(|kind| format!("the watch of {} is stuck", kind.name()));
        let back = self.freshness.gone_back().into_iter();
        let back = back.map(|kind| format!("the API server's history of {} has gone back", kind.name()));
        self.pulse.hung().into_iter().chain(watches).chain(back).collect()
    }

    /// Wakes a key of another controller, by that controller's name.
    pub fn wake(&self, controller: &'static str, key: Key) {
        self.inbox.push(Message::Wake { controller, key });
    }

    pub(crate) fn poll_inbox(&self, waiting: &mut Waiting<'_>) -> Poll<Message> {
        self.inbox.poll(waiting)
    }
}

/// Lets something happen once in a while.
#[derive(Debug, Default)]
struct Every {
    last: Mutex<Option<Instant>>,
}

impl Every {
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last) >= UNSYNCED_LOG);
        if due {
            *last = Some(now);
        }
        due
    }
}

/// What reconcilers tell the engine.
#[derive(Debug)]
pub(crate) enum Message {
    Changed(Box<Change>),
    Wake { controller: &'static str, key: Key },
}

#[derive(Debug, Default)]
struct Inbox {
    messages: Mutex<VecDeque<Message>>,
    engine: AtomicWaker,
}

impl Inbox {
    fn push(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        self.engine.wake();
    }

    fn poll(&self, waiting: &mut Waiting<'_>) -> Poll<Message> {
        self.engine.register(waiting.waker());
        match self.messages.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
            Some(message) => Poll::Ready(message),
            None => Poll::Pending,
        }
    }
}
