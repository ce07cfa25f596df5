//! A whole cluster and its cloud in this process, with the real controllers in it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_apiserver::ApiServer;
use karpenter_aws_sim::Region;
use karpenter_cluster::kubelet::{Events, Heartbeats, Span};
use karpenter_cluster::{Cluster, clock, furniture};
use karpenter_controllers::{Clock, Context, Settings};
use karpenter_provider::ProviderError;
use karpenter_provider_aws::Aws;
use karpenter_runtime::{Amazon, Autoscaler};
use kube::Client;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::audit::{Audit, EventFate, terminations};
use crate::machines::switch_on;
use crate::process::{Current, Origin, Process, Stalls};
use crate::wire::Wire;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The last of our kinds to be served.
const LAST_KIND: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot create what a cluster starts with")]
    Cluster(#[source] kube::Error),
    #[error("cannot create our kinds")]
    Kinds(#[source] kube::Error),
    #[error("our kinds are not served")]
    NotServed,
    #[error("cannot start the provider")]
    Provider(#[from] ProviderError),
}

/// What a world starts from.
#[derive(Clone)]
pub struct Setup {
    pub seed: u64,
    /// What time it is at the start, by tokio's clock.
    pub start: Timestamp,
    pub region: karpenter_aws_sim::Options,
    pub settings: Settings,
    /// Whether warnings in the region's queue are read.
    pub interruptions: bool,
    /// Whether the controllers hold a lease to work, and start again when they have lost it.
    pub election: bool,
    /// The certificate every namespace gets.
    pub root_ca: Option<String>,
    /// Every so many plans one is judged.
    pub judged: u64,
    pub events: EventFate,
}

/// Lives until it is dropped.
pub struct World {
    pub server: ApiServer,
    /// The users' way in.
    pub client: Client,
    pub region: Region,
    pub clock: Clock,
    /// Everything that the controllers' evictions go through.
    pub audit: Audit,
    /// Of the controllers that were started first, or by the last restart.
    pub context: Arc<Context>,
    pub(crate) wire: Wire,
    pub(crate) stalls: Stalls,
    pub(crate) current: Current,
    origin: Origin,
    process: JoinSet<()>,
    _cluster: Cluster,
    _tasks: JoinSet<()>,
}

impl World {
    pub async fn start(server: ApiServer, setup: Setup) -> Result<Self, StartError> {
        let client = Client::new(server.service(), "default");
        let clock = Clock::starting_at(setup.start);
        let cluster = Cluster::start(client.clone(), clock::Clock::starting_at(setup.start), around(&setup));
        furniture::install(&client).await.map_err(StartError::Cluster)?;
        for crd in karpenter_api::crds() {
            send(&client, "POST", CRDS, "application/json", &crd).await.map_err(StartError::Kinds)?;
        }
        until_served(&client).await?;
        let now = clock.clone();
        let region = Region::new(setup.region.clone(), Arc::new(move || now.now()));
        let mut tasks = JoinSet::new();
        tasks.spawn(switch_on(region.machines(), cluster.handle().clone()));
        let agenda = region.clone();
        tasks.spawn(async move { agenda.run().await });
        let audit = Audit::new(setup.judged, setup.events, clock.clone());
        region.observe_terminations(terminations::observer(&server, &audit));
        let origin = Origin {
            server: server.clone(),
            audit: audit.clone(),
            region: region.clone(),
            clock: clock.clone(),
            setup: Arc::new(setup),
            wire: Wire::default(),
            stalls: Stalls::default(),
            current: Current::default(),
        };
        let first = origin.start().await?;
        let (context, mut process) = (first.autoscaler.context.clone(), JoinSet::new());
        process.spawn(origin.clone().keep(first));
        Ok(Self {
            server,
            client,
            region,
            clock,
            audit,
            context,
            wire: origin.wire.clone(),
            stalls: origin.stalls.clone(),
            current: origin.current.clone(),
            origin,
            process,
            _cluster: cluster,
            _tasks: tasks,
        })
    }

    /// The controllers die where they are, and new ones start with nothing in memory.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.process.shutdown().await;
        let next: Process = self.origin.start().await?;
        self.context = next.autoscaler.context.clone();
        self.process.spawn(self.origin.clone().keep(next));
        Ok(())
    }
}

fn around(setup: &Setup) -> karpenter_cluster::Settings {
    let mut settings = karpenter_cluster::Settings {
        seed: setup.seed,
        root_ca: setup.root_ca.clone(),
        ..karpenter_cluster::Settings::default()
    };
    settings.kubelets.seed = setup.seed;
    settings.kubelets.heartbeats = Heartbeats::Folded;
    settings.kubelets.events = Events::Warnings;
    settings.kubelets.image_pull = Span::millis(1_000, 5_000);
    settings
}

/// The controllers that buy in a region for whatever cluster the client leads to.
pub async fn over(
    client: Client,
    region: &Region,
    clock: &Clock,
    interruptions: bool,
    settings: Settings,
) -> Result<Autoscaler, StartError> {
    over_aws(client, region.aws(), region.options(), clock, interruptions, settings).await
}

/// The same over a way to the region that is not everybody's.
pub(crate) async fn over_aws(
    client: Client,
    aws: Aws,
    options: &karpenter_aws_sim::Options,
    clock: &Clock,
    interruptions: bool,
    settings: Settings,
) -> Result<Autoscaler, StartError> {
    let plain = karpenter_provider_aws::Settings::new(
        &options.cluster_name,
        &options.cluster_endpoint,
        &options.kubernetes_version,
    );
    let facts = karpenter_provider_aws::Settings {
        cluster_dns: Some("10.96.0.10".to_owned()),
        interruption_queue: interruptions.then(|| options.queue.clone()),
        node_overlays: settings.node_overlays,
        ..plain
    };
    // A region may refuse at first; whoever starts a process that fails starts it again.
    let mut amazon = Amazon::start(client.clone(), clock, aws.clone(), facts.clone()).await;
    for _ in 0..STARTS {
        if amazon.is_ok() {
            break;
        }
        tokio::time::sleep(BETWEEN_STARTS).await;
        amazon = Amazon::start(client.clone(), clock, aws.clone(), facts.clone()).await;
    }
    Ok(Autoscaler::new(client, clock.clone(), &amazon?, settings))
}

const STARTS: usize = 20;
const BETWEEN_STARTS: Duration = Duration::from_secs(10);

/// The kinds we watch are served a moment after they were created.
async fn until_served(client: &Client) -> Result<(), StartError> {
    for _ in 0..200 {
        if send(client, "GET", LAST_KIND, "application/json", &Value::Null).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(StartError::NotServed)
}

/// One request; `Null` sends no body.
pub async fn send(client: &Client, method: &str, path: &str, content_type: &str, body: &Value) -> kube::Result<Value> {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, content_type);
    client.request(request.body(bytes).map_err(kube::Error::HttpError)?).await
}
