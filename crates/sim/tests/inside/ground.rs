//! What lies under a scenario: a server in this process and virtual time, or a control plane somewhere and real time.

use std::sync::Arc;

use karpenter_apiserver::{ApiServer, TokioClock};
use karpenter_aws_sim::{Options, Region, Span};
use karpenter_controllers::{Clock, Settings};
use karpenter_sim::machines::{Joined, Kubelets, join};
use karpenter_sim::world::{over, send};
use karpenter_sim::{Setup, World};
use kube::Client;
use serde_json::Value;
use tokio::task::JoinSet;

/// Where scenarios may play.
pub(crate) enum Ground {
    Embedded,
    /// It has its own scheduler and controllers; kubelets and the cloud are ours. Our controllers have their own account.
    Real {
        everybody_else: Client,
        controllers: Client,
    },
}

/// What a scenario plays on, until it is dropped.
pub(crate) enum Stage {
    Embedded(Box<World>),
    Real(Box<Live>),
}

/// A region and the controllers over somebody else's control plane.
pub(crate) struct Live {
    client: Client,
    controllers: Client,
    region: Region,
    clock: Clock,
    process: JoinSet<()>,
    _machines: Joined,
}

impl Ground {
    pub(crate) async fn stage(&self, seed: u64, mut region: Options) -> Stage {
        match self {
            Self::Embedded => {
                let start = "2026-01-01T00:00:00Z".parse().unwrap();
                let clock = Arc::new(TokioClock::starting_at(start));
                let options = karpenter_apiserver::Options { clock, seed, rbac: false, keep_history: false };
                let settings = Settings::default();
                let events = karpenter_sim::EventFate::Kept;
                let setup = Setup {
                    seed,
                    start,
                    region,
                    settings,
                    interruptions: true,
                    election: false,
                    root_ca: None,
                    judged: 1,
                    events,
                };
                Stage::Embedded(Box::new(World::start(ApiServer::new(options), setup).await.unwrap()))
            }
            Self::Real { everybody_else, controllers } => {
                region.boot = Span::exactly(std::time::Duration::from_secs(2));
                Stage::Real(Box::new(Live::start(everybody_else.clone(), controllers.clone(), region).await))
            }
        }
    }
}

impl Stage {
    pub(crate) fn client(&self) -> Client {
        match self {
            Self::Embedded(world) => world.client.clone(),
            Self::Real(live) => live.client.clone(),
        }
    }

    pub(crate) fn region(&self) -> &Region {
        match self {
            Self::Embedded(world) => &world.region,
            Self::Real(live) => &live.region,
        }
    }

    /// The controllers die where they are, and new ones start with nothing in memory.
    pub(crate) async fn restart(&mut self) {
        match self {
            Self::Embedded(world) => world.restart().await.unwrap(),
            Self::Real(live) => live.restart().await,
        }
    }

    /// Nothing of the kind that must never be was seen; on a control plane of its own nobody looks on.
    pub(crate) fn is_sound(&self) {
        if let Self::Embedded(world) = self {
            assert!(world.audit.faulty_plans().is_empty(), "{:?}", world.audit.faulty_plans());
            assert!(world.audit.violations().is_empty(), "{:?}", world.audit.violations());
        }
    }
}

impl Live {
    async fn start(client: Client, controllers: Client, options: Options) -> Self {
        for crd in karpenter_api::crds() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            // It may be there from another scenario.
            let _ = send(&client, "POST", path, "application/json", &crd).await;
        }
        let served = async || {
            let path = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
            send(&client, "GET", path, "application/json", &Value::Null).await.is_ok()
        };
        while !served().await {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        let clock = Clock::system();
        let now = clock.clone();
        let region = Region::new(options, Arc::new(move || now.now()));
        let machines = join(&region, &client, &clock, "kube-system", Kubelets::Internal).await.unwrap();
        let mut live = Self { client, controllers, region, clock, process: JoinSet::new(), _machines: machines };
        live.restart().await;
        live
    }

    async fn restart(&mut self) {
        self.process.shutdown().await;
        let controllers = over(self.controllers.clone(), &self.region, &self.clock, true, Settings::default());
        self.process.spawn(controllers.await.unwrap().run());
    }
}
