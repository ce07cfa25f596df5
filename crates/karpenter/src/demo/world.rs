//! The demo's world: a cluster that kubectl can reach, a simulated region, and the real controllers.

use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use karpenter_apiserver::{ApiServer, Listening, Options, TokioClock};
use karpenter_aws_sim::Region;
use karpenter_controllers::Context;
use karpenter_sim::{Audit, Setup};
use kube::Client;
use tokio::task::JoinSet;

use super::ledger::Ledger;
use crate::simulated::{self, Fate};

const CLUSTER_NAME: &str = "simulated";
const REGION: &str = "us-east-1";
const KUBERNETES: &str = "1.36";

/// Lives until it is dropped.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) listening: Listening,
    pub(crate) region: Region,
    pub(crate) context: Arc<Context>,
    pub(crate) audit: Audit,
    pub(crate) ledger: Ledger,
    _world: karpenter_sim::World,
    _tasks: JoinSet<()>,
}

impl World {
    /// Everything starts at `start`, by tokio's clock.
    pub(crate) async fn start(port: u16, fate: Fate, start: Timestamp) -> anyhow::Result<Self> {
        let clock = Arc::new(TokioClock::starting_at(start));
        let server = ApiServer::new(Options { clock, seed: fate.seed, ..Options::new() });
        let listening = server.listen(port).await?;
        let mut region = simulated::options(REGION, CLUSTER_NAME, fate);
        region.cluster_endpoint = listening.url();
        region.kubernetes_version = KUBERNETES.to_owned();
        let setup = Setup {
            seed: fate.seed,
            start,
            region,
            settings: karpenter_controllers::Settings::default(),
            interruptions: true,
            election: false,
            root_ca: Some(listening.ca_pem.clone()),
            judged: 1,
            events: karpenter_sim::EventFate::Kept,
        };
        let world = karpenter_sim::World::start(server, setup).await.context("cannot start the world")?;
        let ledger = Ledger::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(ledger.clone().keep(world.client.clone()));
        Ok(Self {
            client: world.client.clone(),
            listening,
            region: world.region.clone(),
            context: world.context.clone(),
            audit: world.audit.clone(),
            ledger,
            _world: world,
            _tasks: tasks,
        })
    }
}
