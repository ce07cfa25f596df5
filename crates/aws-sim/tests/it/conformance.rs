//! The suite that every provider passes, on a quiet region and on a rough one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_aws_sim::{Options, Rates, Script, Target};
use karpenter_provider::CloudProvider;
use karpenter_provider::conformance::{A_WHILE, CASES, World, run};
use karpenter_provider_aws::AwsProvider;
use kube::Api;
use serde_json::json;

use crate::lab::{Lab, on_demand, quiet};

struct Simulated {
    lab: Lab,
    pool: NodePool,
}

#[async_trait]
impl World for Simulated {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        Arc::new(self.lab.provider.clone())
    }

    async fn restarted(&self) -> Arc<dyn CloudProvider> {
        Arc::new(AwsProvider::new(self.lab.restarted().await))
    }

    async fn pool(&self) -> NodePool {
        self.pool.clone()
    }

    async fn claim(&self, name: &str) -> NodeClaim {
        on_demand(name)
    }

    async fn sold_out(&self, sold_out: bool) {
        let target = Target::Pool { class: None, instance_type: None, zone: None };
        if sold_out {
            self.lab.region.script(Script::new(target, "InsufficientInstanceCapacity", 200));
        } else {
            self.lab.region.clear_scripts();
        }
    }

    async fn spoil_node_class(&self) {
        self.lab.patch_class(json!({"spec": {"tags": {"team": "x"}, "kubelet": {"maxPods": -1}}})).await;
        self.lab.settle_class().await;
    }

    async fn delete_node_class(&self) {
        self.lab.delete_class().await;
        self.lab.bury_class().await;
        let classes = Api::<karpenter_api::EC2NodeClass>::all(self.lab.client.clone());
        assert!(classes.get_opt("main").await.unwrap().is_none());
    }

    async fn pass_time(&self) {
        tokio::time::sleep(A_WHILE).await;
    }
}

async fn all(options: impl Fn() -> Options) {
    for case in CASES {
        let lab = Lab::new(options()).await;
        let pool = lab.ready().await;
        let world = Simulated { lab, pool };
        if let Err(broken) = run(case, &world).await {
            panic!("{case}: {broken}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_provider_conforms_on_a_quiet_region() {
    // covers: AWS-CP-01, AWS-CP-02, AWS-CP-03, AWS-CP-08, AWS-CP-13, AWS-CP-14, AWS-CP-16, AWS-CP-18, AWS-CP-19
    all(|| quiet(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_provider_conforms_where_reads_lag_and_pools_run_dry() {
    let rates = Rates { refused_pools: 0.2, slow_machines: 0.5, ..Rates::default() };
    let staleness = karpenter_aws_sim::Span { least: Duration::ZERO, most: Duration::from_secs(3) };
    all(|| Options { rates, staleness, ..crate::lab::options(2) }).await;
}
