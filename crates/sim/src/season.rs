//! A season in the life of a cluster: tenants that scale all day, trouble all the time, and in the end nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_apiserver::{ApiServer, Options, TokioClock};
use karpenter_aws_sim::Capacity;
use karpenter_aws_sim::chance::between;
use karpenter_provider_aws::calls::CapacityReservation;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::audit::{EventFate, Pods};
use crate::pools::{self, CLASSES_PATH, Change, MOST_REPLICAS, OVERLAYS_PATH, POOLS_PATH, REPLICAS, STATIC};
use crate::report::{Report, Waits};
use crate::trouble::{self, RATES, Strike, Trouble};
use crate::workload::{NAMESPACE, Tenant};
use crate::world::{Setup, StartError, World, send};

/// A week that is made from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Season {
    pub seed: u64,
    pub days: u32,
    pub deployments: usize,
    /// Whether anything goes wrong.
    pub faults: bool,
}

impl Season {
    /// What time it is at the start of every season.
    pub fn start() -> Timestamp {
        START.parse().expect("a time")
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);
const SCALINGS_PER_DAY: u32 = 4;
/// Every so often everything is looked at.
const LOOK: Duration = Duration::from_secs(600);
/// A machine may be bought, never join, be given up after 15 minutes and be bought again, three times over.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// A claim that is not launched within five minutes is given up; between that and its end come a few retries.
const LAUNCH_DEADLINE: Duration = Duration::from_secs(600);
/// What is lost is found by sweeps that run every few minutes.
const CLEANING: Duration = Duration::from_secs(1200);
/// A node of the static pool that is lost is made up for at once, which may fail some times.
const REPLACING: Duration = Duration::from_secs(3600);
/// Nodes of the static pool are replaced before they go, and those that cannot go keep their replacements waiting.
const DRIFTING: Duration = Duration::from_secs(6 * 3600);
/// Nothing hangs but for a moment.
const HUNG: Duration = Duration::ZERO;
/// When nothing changes any more, everything is in place within this.
const SETTLING: Duration = Duration::from_secs(4 * 3600);
/// A fault that struck less often has not been tried.
const TRIED: u64 = 20;
const START: &str = "2026-01-05T00:00:00Z";

enum Event {
    Scale {
        tenant: usize,
        replicas: u64,
    },
    Trouble(Trouble),
    Follows(Strike),
    /// A user changes something, for the so-many-th time.
    Change(Change, u32),
    Look,
}

/// Lives through it, and tells.
pub async fn run(season: Season) -> Result<Report, StartError> {
    let length = DAY * season.days;
    let start = Season::start();
    let clock = Arc::new(TokioClock::starting_at(start));
    let server = ApiServer::new(Options { clock, seed: season.seed, rbac: false, keep_history: false });
    let world = World::start(server, setup(season, start)).await?;
    let mut story = Story::new(world, season);
    story.settle_in().await;
    if season.faults {
        trouble::faults().into_iter().for_each(|fault| story.world.server.inject(fault));
        story.world.wire.be_late(season.seed, trouble::LATE_REQUESTS);
    }
    let origin = Instant::now();
    let mut agenda = agenda(season, length);
    let mut number = agenda.len() as u64;
    while let Some(((at, _), event)) = agenda.pop_first() {
        tokio::time::sleep_until(origin + at).await;
        number += 1;
        match event {
            Event::Scale { tenant, replicas } => story.scale(tenant, replicas).await,
            Event::Trouble(trouble) => {
                story.count(trouble);
                if let Some((after, strike)) = trouble::strike(&mut story.world, season.seed, number, trouble).await {
                    agenda.insert((at + after, number), Event::Follows(strike));
                }
            }
            Event::Follows(strike) => strike.strike(&story.world).await,
            Event::Change(change, nth) => story.change(change, nth).await,
            Event::Look => story.look().await,
        }
    }
    Ok(story.end().await)
}

fn setup(season: Season, start: Timestamp) -> Setup {
    let mut region = karpenter_aws_sim::Options::new("us-east-1", season.seed, "simulated");
    region.capacity = if season.faults { Capacity::Drawn } else { Capacity::Unlimited };
    if season.faults {
        region.rates = RATES;
    }
    region.reservations = [("us-east-1a", "m5.xlarge"), ("us-east-1b", "c5.2xlarge"), ("us-east-1c", "r5.xlarge")]
        .into_iter()
        .enumerate()
        .map(|(nth, (zone, kind))| reservation(nth, zone, kind))
        .collect();
    Setup {
        seed: season.seed,
        start,
        region,
        settings: settings(season.seed),
        interruptions: true,
        election: true,
        root_ca: None,
        judged: 25,
        events: EventFate::Counted,
    }
}

/// The gates that weeks are about, and of every second seed the one for spot.
fn settings(seed: u64) -> karpenter_controllers::Settings {
    let plain = karpenter_controllers::Settings::default();
    let disruption = karpenter_disruption::Policy { spot_to_spot: seed.is_multiple_of(2), ..plain.disruption };
    karpenter_controllers::Settings { node_overlays: true, static_capacity: true, disruption, ..plain }
}

fn reservation(nth: usize, zone: &str, instance_type: &str) -> CapacityReservation {
    CapacityReservation {
        id: format!("cr-0{nth:016x}"),
        zone: zone.to_owned(),
        instance_type: instance_type.to_owned(),
        instance_match_criteria: "targeted".to_owned(),
        owner_id: "000000000000".to_owned(),
        reservation_type: "default".to_owned(),
        interruptible: false,
        available: 6,
        end: None,
        tags: [("karpenter.sh/discovery".to_owned(), "simulated".to_owned())].into(),
    }
}

/// Everything that will happen, by time and number.
fn agenda(season: Season, length: Duration) -> BTreeMap<(Duration, u64), Event> {
    let mut all: Vec<(Duration, Event)> = Vec::new();
    let quarter = DAY / SCALINGS_PER_DAY;
    for tenant in 0..season.deployments {
        let who = Tenant::new(season.seed, tenant);
        for nth in 0..(season.days * SCALINGS_PER_DAY) {
            let words = ["scaling", &who.name, &nth.to_string()];
            let within = between(season.seed, &words, 0, quarter.as_millis() as u64 - 1);
            let at = quarter * nth + Duration::from_millis(within);
            let replicas = who.replicas(nth as usize, (nth % SCALINGS_PER_DAY) as usize);
            all.push((at, Event::Scale { tenant, replicas }));
        }
    }
    for (change, times) in Change::ALL {
        let times = season.days * times;
        let each = length / times;
        for nth in 0..times {
            let words = ["change", change.name(), &nth.to_string()];
            let within = between(season.seed, &words, 0, each.as_millis() as u64 - 1);
            all.push((each * nth + Duration::from_millis(within), Event::Change(change, nth)));
        }
    }
    if season.faults {
        all.extend(trouble::plan(season.seed, length).into_iter().map(|(at, one)| (at, Event::Trouble(one))));
    }
    let looks = (length.as_secs() / LOOK.as_secs()) as u32;
    all.extend((1..=looks).map(|nth| (LOOK * nth, Event::Look)));
    all.into_iter().enumerate().map(|(nth, (at, event))| ((at, nth as u64), event)).collect()
}

struct Story {
    season: Season,
    world: World,
    /// Reads that no fault strikes.
    observer: Client,
    pods: Pods,
    wanted: BTreeMap<String, u64>,
    scalings: u64,
    changes: BTreeMap<&'static str, u64>,
    done: BTreeMap<String, u64>,
    /// Since when something is not as it should be.
    since: BTreeMap<String, Instant>,
    told: BTreeSet<String>,
    _watch: JoinSet<()>,
}

impl Story {
    fn new(world: World, season: Season) -> Self {
        let observer = Client::new(world.server.observer(), NAMESPACE);
        let pods = Pods::default();
        let mut watch = JoinSet::new();
        watch.spawn(pods.clone().keep(observer.clone()));
        Self {
            season,
            world,
            observer,
            pods,
            wanted: BTreeMap::new(),
            scalings: 0,
            changes: BTreeMap::new(),
            done: BTreeMap::new(),
            since: BTreeMap::new(),
            told: BTreeSet::new(),
            _watch: watch,
        }
    }

    /// What may be bought, and every tenant with nothing to run yet.
    async fn settle_in(&mut self) {
        for class in pools::node_classes() {
            self.must("POST", CLASSES_PATH, &class).await;
        }
        self.must("POST", OVERLAYS_PATH, &pools::overlay()).await;
        for pool in pools::pools() {
            self.must("POST", POOLS_PATH, &pool).await;
        }
        for number in 0..self.season.deployments {
            let tenant = Tenant::new(self.season.seed, number);
            self.must("POST", DEPLOYMENTS, &tenant.deployment(0)).await;
            for budget in tenant.budgets() {
                self.must("POST", BUDGETS, &budget).await;
            }
        }
    }

    async fn scale(&mut self, tenant: usize, replicas: u64) {
        let name = Tenant::new(self.season.seed, tenant).name;
        self.world.audit.scaled(&name, replicas);
        self.must("PATCH", &format!("{DEPLOYMENTS}/{name}"), &json!({"spec": {"replicas": replicas}})).await;
        self.wanted.insert(name, replicas);
        self.scalings += 1;
    }

    async fn change(&mut self, change: Change, nth: u32) {
        let (method, path, body) = change.request(self.season.seed, nth);
        self.must(method, &path, &body).await;
        *self.changes.entry(change.name()).or_default() += 1;
    }

    /// A user's request, which no fault strikes: what is tried here is not the user.
    async fn must(&self, method: &str, path: &str, body: &Value) {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        if let Err(error) = send(&self.observer, method, path, kind, body).await {
            self.world.audit.violated(format!("{method} {path}: {error}"));
        }
    }

    fn count(&mut self, trouble: Trouble) {
        let own = match trouble {
            Trouble::DropWatches => "watches_dropped",
            Trouble::ExpireWatches => "watches_expired",
            Trouble::Compact => "history_compacted",
            Trouble::Restart => "controllers_restarted",
            // The region and the wire count their own when they strike.
            _ => return,
        };
        *self.done.entry(own.to_owned()).or_default() += 1;
    }

    /// Looks at everything, and remembers since when something is amiss.
    async fn look(&mut self) {
        let (claims, nodes) = (self.items(CLAIMS).await, self.items(NODES).await);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names: BTreeSet<String> = nodes.iter().map(|node| text(&node["metadata"]["name"])).collect();
        let instances = self.world.region.instances();
        let alive: BTreeMap<&str, &str> = instances
            .iter()
            .filter(|one| one.ended_at.is_none())
            .map(|one| (one.instance.id.as_str(), one.instance.zone.as_str()))
            .collect();
        let held: BTreeSet<String> = claims.iter().map(|claim| text(&claim["status"]["providerID"])).collect();
        let id_of = |provider_id: &str| provider_id.rsplit('/').next().unwrap_or_default().to_owned();
        let held_ids: BTreeSet<String> = held.iter().map(|id| id_of(id)).collect();
        let mut amiss: BTreeMap<String, Duration> = BTreeMap::new();
        for id in alive.keys().filter(|id| !held_ids.contains(**id)) {
            amiss.insert(format!("instance {id} has no claim"), CLEANING);
        }
        for claim in claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_null()) {
            let (name, id) = (text(&claim["metadata"]["name"]), text(&claim["status"]["providerID"]));
            if id.is_empty() {
                amiss.insert(format!("claim {name} has no instance"), LAUNCH_DEADLINE);
            } else if !alive.contains_key(id_of(&id).as_str()) {
                amiss.insert(format!("claim {name} holds instance {id}, which is gone"), CLEANING);
            }
        }
        self.look_at_static_pool(&claims, &mut amiss);
        let context = self.world.current.context();
        amiss.extend(context.into_iter().flat_map(|context| context.hung()).map(|what| (what, HUNG)));
        for pod in self.pods.lost(&names) {
            amiss.insert(format!("pod {pod}, which is gone"), CLEANING);
        }
        self.tell(&amiss);
        for pod in self.pods.stuck(LONGEST_WAIT) {
            let name = pod.split(" waits ").next().unwrap_or_default().to_owned();
            if self.told.insert(name) {
                self.world.audit.violated(format!("{} {pod}", self.world.clock.now()));
            }
        }
    }

    /// It has as many nodes as it says, and never more than it may.
    fn look_at_static_pool(&self, claims: &[Value], amiss: &mut BTreeMap<String, Duration>) {
        let mine = claims.iter().filter(|claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"] == STATIC);
        let staying = mine.filter(|claim| claim["metadata"]["deletionTimestamp"].is_null()).count() as u64;
        if staying < REPLICAS {
            amiss.insert(format!("the static pool has less than {REPLICAS} nodes"), REPLACING);
        }
        if staying > REPLICAS {
            amiss.insert(format!("the static pool has more than {REPLICAS} nodes"), DRIFTING);
        }
        if staying > MOST_REPLICAS {
            amiss.insert(
                format!("the static pool has more than {MOST_REPLICAS} nodes, which it may not"),
                Duration::ZERO,
            );
        }
    }

    /// What has been amiss for too long is a violation, once.
    fn tell(&mut self, amiss: &BTreeMap<String, Duration>) {
        let now = Instant::now();
        self.since.retain(|what, _| amiss.contains_key(what));
        for (what, limit) in amiss {
            let since = *self.since.entry(what.clone()).or_insert(now);
            if now.duration_since(since) >= *limit && self.told.insert(what.clone()) {
                let minutes = now.duration_since(since).as_secs() / 60;
                self.world.audit.violated(format!("{} {what}, for {minutes} minutes", self.world.clock.now()));
            }
        }
    }

    /// The storm is over: every tenant gets what it wants, then wants nothing, and nothing stays.
    async fn end(mut self) -> Report {
        self.world.server.clear_faults();
        self.world.region.clear_scripts();
        self.world.wire.recover();
        for what in self.until(|story| Box::pin(story.unserved())).await {
            self.world.audit.violated(format!("in the end {what}"));
        }
        for tenant in 0..self.season.deployments {
            self.scale(tenant, 0).await;
        }
        self.must("PATCH", &format!("{POOLS_PATH}/{STATIC}"), &json!({"spec": {"replicas": 0}})).await;
        for what in self.until(|story| Box::pin(story.left())).await {
            self.world.audit.violated(format!("in the end {what} is left"));
        }
        self.report()
    }

    /// Looks now and then until there is nothing to tell; what there is when patience ends.
    async fn until<'a, F>(&'a self, what: impl Fn(&'a Self) -> F) -> Vec<String>
    where
        F: Future<Output = Vec<String>>,
    {
        let end = Instant::now() + SETTLING;
        loop {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let found = what(self).await;
            if found.is_empty() || Instant::now() >= end {
                return found;
            }
        }
    }

    async fn unserved(&self) -> Vec<String> {
        let deployments = self.items(DEPLOYMENTS).await;
        let ready = |name: &str| {
            let found = deployments.iter().find(|one| one["metadata"]["name"] == name);
            found.and_then(|one| one["status"]["readyReplicas"].as_u64()).unwrap_or(0)
        };
        let missing = self.wanted.iter().filter(|(name, wanted)| ready(name) != **wanted);
        missing.map(|(name, wanted)| format!("{} of {wanted} pods of {name} are ready", ready(name))).collect()
    }

    async fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for path in [CLAIMS, NODES] {
            let all = self.items(path).await;
            left.extend(
                all.iter().map(|one| format!("{path}/{}", one["metadata"]["name"].as_str().unwrap_or_default())),
            );
        }
        let alive = self.world.region.instances().into_iter().filter(|one| one.ended_at.is_none());
        left.extend(alive.map(|one| one.instance.id));
        left.extend((self.pods.alive() > 0).then(|| format!("{} pods", self.pods.alive())));
        left
    }

    async fn items(&self, path: &str) -> Vec<Value> {
        match send(&self.observer, "GET", path, "application/json", &Value::Null).await {
            Ok(mut list) => list["items"].as_array_mut().map(std::mem::take).unwrap_or_default(),
            Err(error) => {
                self.world.audit.violated(format!("GET {path}: {error}"));
                Vec::new()
            }
        }
    }

    fn report(self) -> Report {
        let of_region = self.world.region.faults_fired();
        let of_server =
            self.world.server.faults_fired().into_iter().map(|(kind, count)| (format!("api_{kind}"), count));
        let of_wire = self.world.wire.struck().into_iter().map(|(kind, count)| (kind.to_owned(), count));
        let commands = self.world.audit.commands();
        let faults: BTreeMap<String, u64> =
            of_region.into_iter().chain(of_server).chain(of_wire).chain(self.done).collect();
        let done = |kind: &str| faults.get(kind).or(commands.get(kind)).copied().unwrap_or(0);
        let of_faults = if self.season.faults { EXPECTED.as_slice() } else { &[] };
        let is_week = self.season.days >= 7;
        // Faults are made to happen. Whether several nodes can go together on one day is chance.
        let of_commands = if is_week { COMMANDS.as_slice() } else { &[] };
        let expected = of_faults.iter().chain(of_commands);
        let least = if is_week { TRIED } else { 1 };
        let untried = expected.filter(|kind| done(kind) < least).map(|kind| format!("{kind} {}", done(kind))).collect();
        let digest = self.world.server.digest();
        let calls = self.world.region.calls();
        let fleets = ("fleets", calls.get("CreateFleet").copied().unwrap_or(0));
        let counts = self.world.audit.counts().into_iter().chain(self.changes).chain([fleets]);
        let counts = counts.chain(commands.clone()).map(|(what, count)| (what.to_owned(), count)).collect();
        let mut violations = self.world.audit.violations();
        violations.extend(self.world.audit.faulty_plans());
        Report {
            seed: self.season.seed,
            days: self.season.days,
            deployments: self.season.deployments,
            scalings: self.scalings,
            pods_run: self.pods.ran(),
            nodes_launched: self.world.region.launched(),
            usd: (self.world.region.spent().dollars() * 100.0).round() / 100.0,
            pending_to_running: Waits::of(&self.pods.waits()),
            counts,
            untried,
            faults,
            violations,
            writes: digest.writes,
            writes_by_kind: self.world.server.writes_by_kind(),
            digest: format!("{:016x}", digest.hash),
        }
    }
}

/// Every kind of fault that must have been tried.
const EXPECTED: [&str; 40] = [
    "scripted_pool",
    "scripted_subnet",
    "scripted_reservation",
    "scripted_call",
    "scripted_server_fault",
    "lost_answer",
    "message_spot_interruption",
    "message_rebalance_recommendation",
    "message_scheduled_change",
    "message_stopping",
    "message_terminated",
    "message_capacity_reservation",
    "throttled",
    "server_fault",
    "refused_pool",
    "partial_fleet",
    "dead_machine",
    "slow_machine",
    "spot_reclaimed",
    "stopped",
    "lost_template",
    "api_conflict",
    "api_internal_error",
    "api_too_many_requests",
    "api_unavailable",
    "api_timeout",
    "requests_late",
    "watches_dropped",
    "watches_expired",
    "history_compacted",
    "controllers_restarted",
    "watches_forgotten",
    "watches_muted",
    "requests_unanswered",
    "unreadable_pod",
    "unreadable_node",
    "unreadable_node_claim",
    "unreadable_node_pool",
    "solve_stalled",
    "leadership_lost",
];

/// Every way of taking nodes out of service, which must have been taken.
const COMMANDS: [&str; 5] =
    ["command_empty", "command_drift", "command_static_drift", "command_multi", "command_single"];

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const NODES: &str = "/api/v1/nodes";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
