//! The provider itself over the wire: the suite every provider passes, played by moto and what stands before it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::{EC2NodeClass, Kind, NodeClaim, NodePool};
use karpenter_apiserver::{ApiServer, Clock, TokioClock};
use karpenter_aws_client::{Options, connect};
use karpenter_provider::conformance::{CASES, World, run};
use karpenter_provider::{CloudProvider, Notice, Recorder};
use karpenter_provider_aws::node_class::Next;
use karpenter_provider_aws::ttl::Now;
use karpenter_provider_aws::{Aws, AwsProvider, LiveObjects, NodeClassController, Parts, Settings, Unobserved};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::proxy::Proxy;
use crate::server::{IMAGE, Moto, REGION, ROLE, start};

struct Silent;

impl Recorder for Silent {
    fn publish(&self, _: Notice) {}
}

/// A cluster of its own for each case, in one account.
struct Account {
    proxy: Proxy,
    aws: Aws,
    client: kube::Client,
    settings: Settings,
    now: Now,
    parts: Arc<Parts>,
    classes: NodeClassController,
    pool: NodePool,
    _server: ApiServer,
}

async fn parts(aws: &Aws, settings: &Settings, now: &Now, client: &kube::Client) -> Arc<Parts> {
    let reads = Arc::new(LiveObjects(client.clone()));
    let parts = Parts::new(aws.clone(), settings.clone(), now.clone(), reads, Arc::new(Silent), Arc::new(Unobserved));
    parts.start().await.unwrap();
    parts.resolve_cluster_cidr().await.unwrap();
    parts
}

async fn post(client: &kube::Client, path: &str, body: &Value) {
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
    client.request::<Value>(request).await.unwrap();
}

impl Account {
    async fn new(moto: &Moto, cluster: &str) -> Self {
        moto.lay_out(cluster).await;
        let proxy = Proxy::before(&moto.address).await;
        let options = Options {
            region: Some(REGION.to_owned()),
            version: "test",
            emulator: Some(proxy.address.clone()),
            timeouts: None,
        };
        let aws = connect(options).await.unwrap().aws;
        let clock = TokioClock::starting_at("2026-01-02T00:00:00Z".parse().unwrap());
        let options =
            karpenter_apiserver::Options { clock: Arc::new(clock), seed: 1, rbac: false, keep_history: false };
        let server = ApiServer::new(options);
        let client = kube::Client::new(server.service(), "default");
        for kind in [Kind::NodePool, Kind::NodeClaim, Kind::EC2NodeClass] {
            post(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &karpenter_api::crd(kind)).await;
        }
        let now: Now = Arc::new(move || clock.now());
        let mut settings = Settings::new(cluster, "https://cluster.local", "1.32");
        settings.cluster_dns = Some("10.100.0.10".to_owned());
        let parts = parts(&aws, &settings, &now, &client).await;
        let discovered = json!([{"tags": {format!("karpenter.sh/discovery-{cluster}"): cluster}}]);
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "main"},
            "spec": {
                "role": ROLE, "amiFamily": "AL2023", "amiSelectorTerms": [{"id": IMAGE}],
                "subnetSelectorTerms": discovered, "securityGroupSelectorTerms": discovered,
            },
        });
        let class: EC2NodeClass = serde_json::from_value(class).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &class).await.unwrap();
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"},
                "requirements": [],
            }}},
        });
        let pool: NodePool = serde_json::from_value(pool).unwrap();
        let pool = Api::all(client.clone()).create(&PostParams::default(), &pool).await.unwrap();
        let classes = NodeClassController::new(parts.clone(), client.clone());
        let account = Self { proxy, aws, client, settings, now, parts, classes, pool, _server: server };
        account.settle().await;
        account
    }

    async fn class(&self) -> Option<EC2NodeClass> {
        Api::all(self.client.clone()).get_opt("main").await.unwrap()
    }

    /// Until the class has nothing more to do, or is gone.
    async fn settle(&self) {
        for _ in 0..50 {
            let Some(class) = self.class().await else { return };
            match self.classes.reconcile(&class).await {
                Ok(Next::After(wait)) if wait.is_zero() => {}
                Ok(_) if class.metadata.deletion_timestamp.is_none() => return,
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        panic!("the node class does not settle: {:?}", self.class().await.and_then(|class| class.status));
    }

    async fn condition(&self, name: &str) -> String {
        let conditions = self.class().await.and_then(|class| class.status?.conditions).unwrap_or_default();
        conditions.iter().find(|condition| condition.type_ == name).map_or_else(String::new, |condition| {
            format!("{} {} {}", condition.status, condition.reason, condition.message)
        })
    }
}

#[async_trait]
impl World for Account {
    fn provider(&self) -> Arc<dyn CloudProvider> {
        Arc::new(AwsProvider::new(self.parts.clone()))
    }

    async fn restarted(&self) -> Arc<dyn CloudProvider> {
        Arc::new(AwsProvider::new(parts(&self.aws, &self.settings, &self.now, &self.client).await))
    }

    async fn pool(&self) -> NodePool {
        self.pool.clone()
    }

    async fn claim(&self, name: &str) -> NodeClaim {
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": format!("uid-of-{name}"), "labels": {"karpenter.sh/nodepool": "pool"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi", "pods": "5"}},
            },
        });
        serde_json::from_value(object).unwrap()
    }

    async fn sold_out(&self, sold_out: bool) {
        self.proxy.sell_out(sold_out);
    }

    async fn spoil_node_class(&self) {
        let patch = json!({"spec": {"subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}]}});
        let api = Api::<EC2NodeClass>::all(self.client.clone());
        api.patch("main", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.settle().await;
    }

    async fn delete_node_class(&self) {
        Api::<EC2NodeClass>::all(self.client.clone()).delete("main", &DeleteParams::default()).await.unwrap();
        self.settle().await;
        assert!(self.class().await.is_none());
    }

    async fn pass_time(&self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn the_provider_conforms() {
    let Some(moto) = start().await else { return };
    moto.make_role().await;
    for (at, case) in CASES.iter().enumerate() {
        let account = Account::new(&moto, &format!("case-{at}")).await;
        let ready = account.condition("Ready").await;
        assert!(ready.starts_with("True"), "{case}: {ready}: {:?}", account.class().await.unwrap().status);
        if let Err(broken) = run(case, &account).await {
            panic!("{case}: {broken}");
        }
    }
}
