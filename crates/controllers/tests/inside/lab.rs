//! A cluster with our controllers in it.

use std::sync::Arc;
use std::time::Duration;

use karpenter_apiserver::{ApiServer, Digest, Options, TokioClock};
use karpenter_cluster::kubelet::{Events, Heartbeats};
use karpenter_cluster::{Cluster, Settings as ClusterSettings};
use karpenter_controllers::{Clock, Context, Engine, Reconciler, Settings, Shift};
use karpenter_core::labels::Vocabulary;
use karpenter_provider::CloudProvider;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::scythe::{Scythe, Watched};
use super::shop::Shop;
use super::silence::{Reads, Troubled};

pub(crate) const START: &str = "2026-01-01T00:00:00Z";

pub(crate) struct Lab {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    _cluster: Cluster,
    pub(crate) shop: Arc<Shop>,
    /// Everything the controllers write passes it.
    pub(crate) scythe: Scythe,
    /// What becomes of what they read.
    pub(crate) reads: Reads,
    pub(crate) context: Arc<Context>,
    clock: Clock,
    engine: Option<JoinHandle<()>>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.crash();
    }
}

impl Lab {
    /// An API server with our kinds, a cluster around it, and no controllers of ours yet.
    pub(crate) async fn new(seed: u64) -> Self {
        let start = START.parse().unwrap();
        let server_clock = Arc::new(TokioClock::starting_at(start));
        let server = ApiServer::new(Options { clock: server_clock, seed, rbac: false, keep_history: false });
        let client = Client::new(server.service(), "default");
        let mut settings = ClusterSettings { seed, ..ClusterSettings::default() };
        settings.kubelets.heartbeats = Heartbeats::Folded;
        settings.kubelets.events = Events::Warnings;
        let cluster = Cluster::start(client.clone(), karpenter_cluster::clock::Clock::starting_at(start), settings);
        let clock = Clock::starting_at(start);
        let shop = Arc::new(Shop::new(cluster.handle().clone()));
        let scythe = Scythe::default();
        let reads = Reads::default();
        let context = Self::context(&server, &scythe, &reads, &clock, shop.clone(), Settings::default());
        let lab = Self { server, client, _cluster: cluster, shop, scythe, reads, context, clock, engine: None };
        for crd in karpenter_api::crds() {
            lab.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
        }
        lab
    }

    fn context(
        server: &ApiServer,
        scythe: &Scythe,
        reads: &Reads,
        clock: &Clock,
        provider: Arc<dyn CloudProvider>,
        settings: Settings,
    ) -> Arc<Context> {
        let words = Arc::new(Vocabulary::kubernetes());
        let inner = Watched { server: server.service(), scythe: scythe.clone() };
        let client = Client::new(Troubled { inner, reads: reads.clone() }, "default");
        Arc::new(Context::new(client, clock.clone(), provider, words, settings))
    }

    /// Starts controllers, with nothing known yet: after a crash it is a new process.
    pub(crate) fn run(&mut self, reconcilers: Vec<Arc<dyn Reconciler>>) {
        self.run_with(reconcilers, Settings::default());
    }

    pub(crate) fn run_with(&mut self, reconcilers: Vec<Arc<dyn Reconciler>>, settings: Settings) {
        self.run_over(self.shop.clone(), reconcilers, settings);
    }

    /// Starts controllers that watch, and decide as long as their shift lasts.
    pub(crate) fn run_for(&mut self, shift: Shift, reconcilers: Vec<Arc<dyn Reconciler>>) {
        self.crash();
        self.scythe.revive();
        let (provider, settings) = (self.shop.clone(), Settings::default());
        self.context = Self::context(&self.server, &self.scythe, &self.reads, &self.clock, provider, settings);
        self.engine = Some(tokio::spawn(Engine::new(self.context.clone(), reconcilers).work(shift)));
    }

    /// Buys through another provider than the shop itself.
    pub(crate) fn run_over(
        &mut self,
        provider: Arc<dyn CloudProvider>,
        reconcilers: Vec<Arc<dyn Reconciler>>,
        settings: Settings,
    ) {
        self.crash();
        self.scythe.revive();
        self.context = Self::context(&self.server, &self.scythe, &self.reads, &self.clock, provider, settings);
        self.engine = Some(tokio::spawn(Engine::new(self.context.clone(), reconcilers).run()));
    }

    /// The process dies where it is.
    pub(crate) fn crash(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.abort();
        }
    }

    /// Lets some time pass.
    pub(crate) async fn settle(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// A metric's value by its name and a part of its labels; zero if there is no such series.
    pub(crate) fn metric(&self, name: &str, labels: &str) -> f64 {
        let text = self.metrics();
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// What would be scraped now.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.context.metrics.registry()).unwrap();
        text
    }

    pub(crate) fn digest(&self) -> Digest {
        self.server.digest()
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: Option<Value>) -> Result<Value, kube::Error> {
        let bytes = body.map(|body| serde_json::to_vec(&body).unwrap()).unwrap_or_default();
        let request =
            http::Request::builder().method(method).uri(path).header("content-type", kind).body(bytes).unwrap();
        self.client.request::<Value>(request).await
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> Value {
        let text = body.to_string();
        let made = self.send("POST", path, "application/json", Some(body)).await;
        made.unwrap_or_else(|error| panic!("create {path}: {error} {text}"))
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Value {
        let done = self.send("PATCH", path, "application/merge-patch+json", Some(body)).await;
        done.unwrap_or_else(|error| panic!("patch {path}: {error}"))
    }

    pub(crate) async fn delete(&self, path: &str) {
        let done = self.send("DELETE", path, "application/json", None).await;
        done.unwrap_or_else(|error| panic!("delete {path}: {error}"));
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.send("GET", path, "application/json", None).await.ok()
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_else(|| panic!("no list at {path}"));
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) async fn claims(&self) -> Vec<Value> {
        self.list(CLAIMS).await
    }

    pub(crate) async fn pods(&self, app: &str) -> Vec<Value> {
        self.list(&format!("{PODS}?labelSelector=app%3D{app}")).await
    }

    /// Reasons of the events so far, about objects of a kind.
    pub(crate) async fn events(&self, kind: &str) -> Vec<String> {
        let all = self.list("/api/v1/events").await;
        let about = all.iter().filter(|event| event["involvedObject"]["kind"] == kind);
        about
            .map(|event| format!("{} {}", event["reason"].as_str().unwrap(), event["message"].as_str().unwrap()))
            .collect()
    }

    /// A node class and a pool that is ready, without anybody to make it so.
    pub(crate) async fn ready_pool(&self, name: &str) {
        self.node_class().await;
        self.pool(name, json!({})).await;
        self.make_ready(name).await;
    }

    pub(crate) async fn node_class(&self) {
        let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"role": "r", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]}});
        self.create(CLASSES, class).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": START, "observedGeneration": 1}]}});
        self.patch(&format!("{CLASSES}/default/status"), ready).await;
    }

    pub(crate) async fn pool(&self, name: &str, spec: Value) {
        let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}}});
        for (key, value) in spec.as_object().unwrap() {
            pool["spec"][key] = value.clone();
        }
        self.create(POOLS, pool).await;
    }

    pub(crate) async fn make_ready(&self, pool: &str) {
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": START,
                "observedGeneration": 1})
        };
        let all: Vec<Value> = ["Ready", "NodeClassReady", "ValidationSucceeded"].map(condition).into();
        self.patch(&format!("{POOLS}/{pool}/status"), json!({"status": {"conditions": all}})).await;
    }

    pub(crate) async fn deployment(&self, app: &str, replicas: i32, cpu: &str) {
        self.create(DEPLOYMENTS, deployment(app, replicas, cpu)).await;
    }

    pub(crate) async fn scale(&self, app: &str, replicas: i32) {
        self.patch(&format!("{DEPLOYMENTS}/{app}"), json!({"spec": {"replicas": replicas}})).await;
    }
}

pub(crate) fn deployment(app: &str, replicas: i32, cpu: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "main", "image": "example.com/app:1",
                    "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]}}}})
}

pub(crate) fn running(pods: &[Value]) -> usize {
    pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
}

pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const NODES: &str = "/api/v1/nodes";
