//! The whole world in one process: API server, cluster, simulated region, and the real controllers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use karpenter_apiserver::{ApiServer, Listening, Options, TokioClock};
use karpenter_aws_sim::Region;
use karpenter_cluster::kubelet::{Events, Heartbeats, Span};
use karpenter_cluster::{Cluster, Settings, clock, furniture};
use karpenter_controllers::{Clock, Context};
use karpenter_runtime::{Amazon, Autoscaler};
use kube::Client;
use serde_json::Value;
use tokio::task::JoinSet;

use super::ledger::Ledger;
use super::manifests::send;
use crate::simulated::{self, Fate};

const CLUSTER_NAME: &str = "simulated";
const REGION: &str = "us-east-1";
const KUBERNETES: &str = "1.36";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Lives until it is dropped.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) listening: Listening,
    pub(crate) region: Region,
    pub(crate) context: Arc<Context>,
    pub(crate) ledger: Ledger,
    _cluster: Cluster,
    _tasks: JoinSet<()>,
}

impl World {
    /// Everything starts at `start`, by tokio's clock.
    pub(crate) async fn start(port: u16, fate: Fate, start: Timestamp) -> anyhow::Result<Self> {
        let server = ApiServer::new(Options {
            clock: Arc::new(TokioClock::starting_at(start)),
            seed: fate.seed,
            ..Options::new()
        });
        let listening = server.listen(port).await?;
        let client = Client::new(server.service(), "default");
        let clock = Clock::starting_at(start);
        let cluster = Cluster::start(client.clone(), clock::Clock::starting_at(start), cluster(fate.seed, &listening));
        furniture::install(&client).await.context("cannot create what a cluster starts with")?;
        for crd in karpenter_api::crds() {
            send(&client, "POST", CRDS, "application/json", &crd).await.context("cannot create our kinds")?;
        }
        let mut tasks = JoinSet::new();
        let region = region(fate, &listening, &clock);
        tasks.spawn(simulated::switch_on(region.machines(), cluster.handle().clone()));
        let agenda = region.clone();
        tasks.spawn(async move { agenda.run().await });
        let facts = karpenter_provider_aws::Settings {
            cluster_dns: Some("10.96.0.10".to_owned()),
            ..karpenter_provider_aws::Settings::new(CLUSTER_NAME, &listening.url(), KUBERNETES)
        };
        let amazon = Amazon::start(client.clone(), &clock, region.aws(), facts).await;
        let amazon = amazon.context("cannot start the provider")?;
        let settings = karpenter_controllers::Settings::default();
        let autoscaler = Autoscaler::new(client.clone(), clock.clone(), &amazon, settings);
        let context = autoscaler.context.clone();
        let ledger = Ledger::default();
        judge_plans(&context, &ledger);
        tasks.spawn(ledger.clone().keep(client.clone()));
        tasks.spawn(autoscaler.run());
        until_served(&client).await?;
        Ok(Self { client, listening, region, context, ledger, _cluster: cluster, _tasks: tasks })
    }
}

fn cluster(seed: u64, listening: &Listening) -> Settings {
    let mut settings = Settings { seed, root_ca: Some(listening.ca_pem.clone()), ..Settings::default() };
    settings.kubelets.seed = seed;
    settings.kubelets.heartbeats = Heartbeats::Folded;
    settings.kubelets.events = Events::Warnings;
    settings.kubelets.image_pull = Span::millis(1_000, 5_000);
    settings
}

fn region(fate: Fate, listening: &Listening, clock: &Clock) -> Region {
    let mut options = simulated::options(REGION, CLUSTER_NAME, fate);
    options.cluster_endpoint = listening.url();
    options.kubernetes_version = KUBERNETES.to_owned();
    simulated::region(options, clock)
}

/// Every plan is checked by somebody who knows nothing of how it was made.
fn judge_plans(context: &Context, ledger: &Ledger) {
    let ledger = ledger.clone();
    let observer = move |world: &karpenter_core::World, plan: &karpenter_core::plan::Plan| {
        ledger.violated(karpenter_verify::verify(world, plan).iter().map(|violation| format!("{violation:?}")));
    };
    let _ = context.plan_observer.set(Box::new(observer));
}

/// The kinds we watch are served a moment after they were created.
async fn until_served(client: &Client) -> anyhow::Result<()> {
    for _ in 0..200 {
        let path = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
        if send(client, "GET", path, "application/json", &Value::Null).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("our kinds are not served")
}
