//! The region: its state, the calls into it, and what happens by itself as time passes.

mod agenda;
mod calls;
mod fleet;
mod records;
mod services;
mod staging;
mod templates;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::MicroUsd;
use karpenter_ec2::catalogue::CapacityClass;
use karpenter_provider_aws::calls::{Aws, AwsError, InstanceProfile, InstanceState};
use karpenter_provider_aws::ttl::{Now, later};
use tokio::sync::{Notify, mpsc, watch};

use crate::chance::share;
use crate::faults::{Faults, Script, Target};
use crate::machine::{MachineEvent, Shape};
use crate::market::Market;
use crate::names::Names;
use crate::options::{Bucket, Options};
use crate::queue::{Queue, Warning};

pub use records::SimInstance;
pub(crate) use records::{Record, matches_tags};
pub use staging::Forbidden;

use agenda::Agenda;
use fleet::Remembered;
use staging::Staged;
use templates::HeldTemplate;

/// Cheap to clone; all clones are the same region.
#[derive(Clone)]
pub struct Region {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    now: Now,
    state: Mutex<State>,
    /// Something is due sooner than it was.
    changed: Notify,
    /// There is a message.
    arrived: Notify,
    /// No call is answered before the state is there.
    ready: watch::Sender<bool>,
    terminations: OnceLock<TerminationObserver>,
}

/// Sees instances that run at the moment somebody asks to terminate them.
type TerminationObserver = Box<dyn Fn(&[SimInstance]) + Send + Sync>;

pub(crate) struct State {
    pub(crate) market: Market,
    pub(crate) names: Names,
    pub(crate) records: BTreeMap<String, Record>,
    pub(crate) shapes: BTreeMap<String, Shape>,
    templates: BTreeMap<String, HeldTemplate>,
    fleets: BTreeMap<String, Remembered>,
    /// Instances that draw from a pool.
    used: BTreeMap<(CapacityClass, String, String), u32>,
    /// Places taken of a reservation.
    reserved: BTreeMap<String, u32>,
    addresses: BTreeMap<String, i64>,
    agenda: Agenda,
    pub(crate) faults: Faults,
    profiles: BTreeMap<String, InstanceProfile>,
    queue: Queue,
    staged: Staged,
    calls: BTreeMap<&'static str, u64>,
    requests: Vec<(&'static str, String)>,
    pub(crate) prices: bool,
    buckets: BTreeMap<&'static str, (f64, Timestamp)>,
    events: Vec<MachineEvent>,
    listener: Option<mpsc::UnboundedSender<MachineEvent>>,
    /// Nodes whose machine is gone, until the cloud controller has seen to them: name and provider id.
    pub(crate) orphaned_nodes: BTreeMap<String, String>,
    spent: MicroUsd,
    launched: u64,
    pub(crate) dirty: bool,
}

impl Region {
    /// `now` must follow tokio's clock, which all delays are waited by.
    pub fn new(options: Options, now: Now) -> Self {
        let market = Market::new(&options);
        let names = Names::new(&options, &market);
        let state = State {
            market,
            names,
            records: BTreeMap::new(),
            shapes: BTreeMap::new(),
            templates: BTreeMap::new(),
            fleets: BTreeMap::new(),
            used: BTreeMap::new(),
            reserved: BTreeMap::new(),
            addresses: BTreeMap::new(),
            agenda: Agenda::default(),
            faults: Faults::default(),
            profiles: BTreeMap::new(),
            queue: Queue::default(),
            staged: Staged { placement_groups: options.placement_groups.clone(), ..Staged::default() },
            calls: BTreeMap::new(),
            requests: Vec::new(),
            prices: options.prices,
            buckets: BTreeMap::new(),
            events: Vec::new(),
            listener: None,
            orphaned_nodes: BTreeMap::new(),
            spent: MicroUsd(0),
            launched: 0,
            dirty: false,
        };
        let shared = Shared {
            options,
            now,
            state: Mutex::new(state),
            changed: Notify::new(),
            arrived: Notify::new(),
            ready: watch::Sender::new(true),
            terminations: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The services of the region, for a provider.
    pub fn aws(&self) -> Aws {
        let shared = Arc::new(self.clone());
        Aws {
            region: self.shared.options.region.clone(),
            ec2: shared.clone(),
            ssm: shared.clone(),
            iam: shared.clone(),
            eks: shared.clone(),
            pricing: shared.clone(),
            sqs: shared.clone(),
            zonal_shift: shared,
        }
    }

    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    pub fn now(&self) -> Timestamp {
        (self.shared.now)()
    }

    /// What happens to machines from now on, beginning with what nobody has heard yet. The last caller listens.
    pub fn machines(&self) -> mpsc::UnboundedReceiver<MachineEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.lock();
        for event in state.events.drain(..) {
            let _ = sender.send(event);
        }
        state.listener = Some(sender);
        receiver
    }

    /// From now on every call that terminates instances which run is seen, before it is carried out. The first observer stays.
    pub fn observe_terminations(&self, observe: impl Fn(&[SimInstance]) + Send + Sync + 'static) {
        let _ = self.shared.terminations.set(Box::new(observe));
    }

    /// From now on something goes wrong.
    pub fn script(&self, script: Script) {
        self.lock().faults.script(script);
    }

    /// Nothing that was scripted happens any more.
    pub fn clear_scripts(&self) {
        self.lock().faults.clear();
    }

    /// Somebody deletes every launch template.
    pub fn lose_templates(&self) {
        self.lock().templates.clear();
    }

    /// The image that a parameter holds is withdrawn: deprecated from now on.
    pub fn withdraw_image(&self, parameter: &str) {
        let now = self.now();
        self.lock().names.withdraw(parameter, now);
    }

    /// An instance's reservation ends; the instance goes on as on-demand.
    pub fn end_reservation(&self, instance: &str) {
        let mut state = self.lock();
        let Some(record) = state.records.get_mut(instance) else { return };
        record.instance.reservation_preference = None;
        let (pool, id, _) = record.draws_from();
        record.instance.capacity_reservation_id = None;
        if let Some(taken) = id.and_then(|id| state.reserved.get_mut(&id)) {
            *taken = taken.saturating_sub(1);
            *state.used.entry(pool).or_default() += 1;
        }
        state.dirty = true;
    }

    /// Puts a message about an instance into the queue.
    pub fn warn(&self, instance: &str, warning: Warning) {
        let now = self.now();
        self.lock().warn(&self.shared.options.region, instance, warning, now);
        self.shared.arrived.notify_waiters();
    }

    /// Any text at all, as foreign messages are.
    pub fn send_message(&self, body: &str) {
        let now = self.now();
        self.lock().queue.send(body.to_owned(), now);
        self.shared.arrived.notify_waiters();
    }

    /// An instance stops or disappears by a hand that is not ours.
    pub fn kill(&self, instance: &str, state: InstanceState) {
        self.end(instance, state, (state == InstanceState::Stopped).then_some("stopped"));
    }

    /// EC2 says that it takes an instance back, and two minutes later it does.
    pub fn recall(&self, instance: &str) {
        let now = self.now();
        self.lock().agenda.add(now, agenda::Due::Reclaim(instance.to_owned()));
        self.shared.changed.notify_waiters();
    }

    /// EC2 takes a spot instance back, and whatever warning there was got lost.
    pub fn reclaim(&self, instance: &str) {
        self.end(instance, InstanceState::ShuttingDown, Some("spot_reclaimed"));
    }

    /// Counted only where there was something to end.
    fn end(&self, instance: &str, into: InstanceState, counted: Option<&str>) {
        let now = self.now();
        let mut state = self.lock();
        if state.records.get(instance).is_some_and(|record| record.ended_at.is_none()) {
            counted.iter().for_each(|kind| state.faults.count(kind));
            state.end(&self.shared.options, instance, into, now);
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// How often each call was made.
    pub fn calls(&self) -> BTreeMap<&'static str, u64> {
        self.lock().calls.clone()
    }

    /// How often each kind of fault happened.
    /// Every request so far and what it asked for, in order, if they are recorded.
    pub fn requests(&self) -> Vec<(&'static str, String)> {
        self.lock().requests.clone()
    }

    /// From now on calls for prices are answered.
    pub fn tell_prices(&self) {
        self.lock().prices = true;
    }

    pub fn faults_fired(&self) -> BTreeMap<String, u64> {
        self.lock().faults.fired.clone()
    }

    /// Every instance there is, terminated ones included as long as they are remembered.
    pub fn instances(&self) -> Vec<SimInstance> {
        self.lock().records.values().map(Record::view).collect()
    }

    /// What running instances cost in an hour.
    pub fn price_per_hour(&self) -> MicroUsd {
        let state = self.lock();
        let running = state.records.values().filter(|record| record.ended_at.is_none());
        running.map(|record| record.price).fold(MicroUsd(0), |sum, price| sum + price)
    }

    /// What all instances have cost so far, by the second.
    pub fn spent(&self) -> MicroUsd {
        let (now, state) = (self.now(), self.lock());
        let running = state.records.values().filter(|record| record.ended_at.is_none());
        running.map(|record| record.cost(now)).fold(state.spent, |sum, cost| sum + cost)
    }

    /// How many instances this process has launched.
    pub fn launched(&self) -> u64 {
        self.lock().launched
    }

    pub fn template_count(&self) -> usize {
        self.lock().templates.len()
    }

    pub fn queue_length(&self) -> usize {
        self.lock().queue.len()
    }

    /// Lets what is due happen, for as long as it is polled.
    pub async fn run(&self) {
        loop {
            let changed = self.shared.changed.notified();
            let next = self.settle();
            match next {
                Some(wait) => {
                    let _ = tokio::time::timeout(wait, changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// Everything that is due by now; how long until the next.
    fn settle(&self) -> Option<Duration> {
        let now = self.now();
        let mut state = self.lock();
        while let Some(due) = state.agenda.pop(now) {
            state.happen(&self.shared.options, due, now);
            self.shared.arrived.notify_waiters();
        }
        let next = state.agenda.next()?;
        Some(Duration::try_from(next.duration_since(now)).unwrap_or(Duration::ZERO).max(Duration::from_millis(1)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now until [`Self::open`] no call is answered.
    pub fn close(&self) {
        self.shared.ready.send_replace(false);
    }

    pub fn open(&self) {
        self.shared.ready.send_replace(true);
    }

    /// What every call goes through: the wait for readiness, the way there, limits and faults.
    async fn arrive(&self, operation: &'static str, request: &(dyn Debug + Sync)) -> Result<(), AwsError> {
        let mut ready = self.shared.ready.subscribe();
        let _ = ready.wait_for(|ready| *ready).await;
        let options = &self.shared.options;
        let number = {
            let mut state = self.lock();
            let count = state.calls.entry(operation).or_default();
            *count += 1;
            let number = count.to_string();
            if options.recorded {
                state.requests.push((operation, format!("{request:?}")));
            }
            number
        };
        let latency = options.latency.draw(options.seed, &["latency", operation, &number]);
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        self.settle();
        let now = self.now();
        let mut state = self.lock();
        if let Some(script) = state.faults.on_call(operation) {
            let server_fault = matches!(script.target, Target::Call { server_fault: true, .. });
            return Err(AwsError { server_fault, ..AwsError::new(operation, &script.code, script.message) });
        }
        if !state.within_limits(options, operation, now) {
            state.faults.count("limited");
            return Err(AwsError::new(operation, "RequestLimitExceeded", "Request limit exceeded."));
        }
        let luck = |kind: &str| share(options.seed, &[kind, operation, &number]);
        if luck("throttle") < options.rates.throttled {
            state.faults.count("throttled");
            return Err(AwsError::new(operation, "RequestLimitExceeded", "Request limit exceeded."));
        }
        if luck("server fault") < options.rates.server_faults {
            state.faults.count("server_fault");
            let error = AwsError::new(operation, "InternalError", "An internal error has occurred");
            return Err(AwsError { server_fault: true, ..error });
        }
        Ok(())
    }

    fn must_tell_prices(&self, operation: &'static str) -> Result<(), AwsError> {
        match self.lock().prices {
            true => Ok(()),
            false => Err(AwsError::new(operation, "InternalError", "nobody has said what things cost")),
        }
    }

    /// The way back, on which an answer may be lost.
    fn answer<T>(&self, operation: &'static str, answer: Result<T, AwsError>) -> Result<T, AwsError> {
        self.shared.changed.notify_waiters();
        match self.lock().faults.on_answer(operation) {
            Some(script) => {
                Err(AwsError { server_fault: true, ..AwsError::new(operation, &script.code, script.message) })
            }
            None => answer,
        }
    }
}

impl State {
    fn within_limits(&mut self, options: &Options, operation: &'static str, now: Timestamp) -> bool {
        let Some(limits) = options.limits else { return true };
        let (name, bucket): (&'static str, Bucket) = match operation {
            "RunInstances" => ("run", limits.run_instances),
            "TerminateInstances" => ("terminate", limits.terminate_instances),
            "CreateTags" => ("tags", limits.create_tags),
            "CreateFleet" | "CreateLaunchTemplate" | "DeleteLaunchTemplate" => ("writes", limits.writes),
            _ if operation.starts_with("Describe") => ("reads", limits.reads),
            _ => return true,
        };
        let (tokens, at) = self.buckets.get(name).copied().unwrap_or((f64::from(bucket.burst), now));
        let passed = now.duration_since(at).as_secs_f64();
        let tokens = (tokens + passed * f64::from(bucket.per_second)).min(f64::from(bucket.burst));
        let allowed = tokens >= 1.0;
        self.buckets.insert(name, (if allowed { tokens - 1.0 } else { tokens }, now));
        allowed
    }

    fn emit(&mut self, event: MachineEvent) {
        match &self.listener {
            Some(listener) if listener.send(event.clone()).is_ok() => {}
            _ => self.events.push(event),
        }
    }

    fn warn(&mut self, region: &str, instance: &str, warning: Warning, now: Timestamp) {
        self.faults.count(&format!("message_{}", warning.as_str()));
        let number = self.faults.fired.values().sum();
        self.queue.send(warning.body(instance, region, number, now), now);
    }

    /// The machine is off; EC2 takes its time to say so.
    pub(crate) fn end(&mut self, options: &Options, id: &str, state: InstanceState, now: Timestamp) {
        let Some(record) = self.records.get_mut(id).filter(|record| record.ended_at.is_none()) else { return };
        record.ended_at = Some(now);
        record.state = state;
        let lag = options.staleness.draw(options.seed, &["stale end", id]);
        record.seen_states.push((later(now, lag), state));
        let cost = record.cost(now);
        self.spent += cost;
        self.dirty = true;
        let (pool, reservation, subnet) = record.draws_from();
        if let Some(id) = reservation {
            let taken = self.reserved.entry(id).or_default();
            *taken = taken.saturating_sub(1);
        } else if let Some(used) = self.used.get_mut(&pool) {
            *used = used.saturating_sub(1);
        }
        if let Some(taken) = subnet.and_then(|subnet| self.addresses.get_mut(&subnet)) {
            *taken -= 1;
        }
        if let Some((name, provider_id)) = self.records.get(id).and_then(|record| record.node.clone()) {
            self.orphaned_nodes.insert(name.clone(), provider_id.clone());
            self.emit(MachineEvent::Stopped { name, provider_id });
        }
        let shutdown = options.shutdown.draw(options.seed, &["shutdown", id]);
        if state == InstanceState::ShuttingDown {
            self.agenda.add(later(now, shutdown), agenda::Due::Terminated(id.to_owned()));
        }
    }

    /// A stopped instance is terminated: its machine is off already.
    fn discard(&mut self, options: &Options, id: &str, now: Timestamp) {
        let Some(record) = self.records.get_mut(id) else { return };
        record.state = InstanceState::ShuttingDown;
        let lag = options.staleness.draw(options.seed, &["stale discard", id]);
        record.seen_states.push((later(now, lag), InstanceState::ShuttingDown));
        let shutdown = options.shutdown.draw(options.seed, &["shutdown", id]);
        self.agenda.add(later(now, shutdown), agenda::Due::Terminated(id.to_owned()));
        self.dirty = true;
    }

    /// Puts an instance back that was saved; its machine is on again at once.
    pub(crate) fn restore(&mut self, options: &Options, mut record: Record) {
        let id = record.instance.id.clone();
        if record.ended_at.is_none() {
            let (pool, reservation, subnet) = record.draws_from();
            match reservation {
                Some(reservation) => *self.reserved.entry(reservation).or_default() += 1,
                None => *self.used.entry(pool).or_default() += 1,
            }
            if let Some(subnet) = subnet {
                *self.addresses.entry(subnet).or_default() += 1;
            }
            if let Some(shape) = record.shape.as_ref().and_then(|key| self.shapes.get(key)).cloned() {
                let machine = shape.machine(options.seed, &record.instance, Duration::ZERO);
                record.node = Some((machine.name.clone(), machine.provider_id.clone()));
                self.emit(MachineEvent::Started(Box::new(machine)));
            }
        }
        self.records.insert(id, record);
    }
}
