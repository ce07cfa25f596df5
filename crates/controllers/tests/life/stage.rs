//! Where scenarios play: a control plane, machines, and the controllers, which may die and come back.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::conditions::Status;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_apiserver::{ApiServer, Options, TokioClock};
use karpenter_cluster::kubelet::{Events, Heartbeats};
use karpenter_cluster::{Cluster, Parts};
use karpenter_controllers::{Clock, Context, Engine, Reconciler, Settings, roster};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cloud::{Cloud, node_name};
use crate::objects;
use crate::scythe::{Scythe, Watched};
use crate::silence::{Reads, Troubled};

pub(crate) struct Stage {
    /// The users' way to the API server; the controllers have their own.
    pub(crate) client: Client,
    pub(crate) cloud: Arc<Cloud>,
    pub(crate) scythe: Scythe,
    /// What becomes of what the controllers read.
    pub(crate) reads: Reads,
    pub(crate) settings: Settings,
    pub(crate) context: Arc<Context>,
    back: Back,
    clock: Clock,
    cluster: Cluster,
    engine: Option<JoinHandle<()>>,
}

/// What lies under a stage. Whoever waits waits alike: on the embedded server time is virtual and jumps.
pub(crate) enum Back {
    Embedded(ApiServer),
    /// A control plane of its own; only kubelets are ours.
    Real(Client),
}

impl Back {
    /// A client for the controllers, which sees and can be cut off at every effect. A real server cannot die for us.
    fn controllers_client(&self, scythe: &Scythe, reads: &Reads) -> Client {
        match self {
            Self::Embedded(server) => {
                let inner = Watched { server: server.service(), scythe: scythe.clone() };
                Client::new(Troubled { inner, reads: reads.clone() }, "default")
            }
            Self::Real(client) => client.clone(),
        }
    }
}

impl Stage {
    /// On the embedded server, with the controllers running.
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        Self::embedded(settings, Parts::ALL).await
    }

    /// Without the cloud's own controller, which removes the nodes of machines that are gone.
    pub(crate) async fn alone() -> Self {
        Self::embedded(Settings::default(), Parts { cloud: false, ..Parts::ALL }).await
    }

    async fn embedded(settings: Settings, parts: Parts) -> Self {
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Arc::new(TokioClock::starting_at(start));
        let server = ApiServer::new(Options { clock, seed: 1, rbac: false, keep_history: false });
        let client = Client::new(server.service(), "default");
        Self::on(Back::Embedded(server), client, Clock::starting_at(start), start, settings, parts).await
    }

    /// On the control plane of a kubeconfig, which has its own scheduler and controllers.
    pub(crate) async fn real(client: Client) -> Self {
        let now = Clock::system().now();
        let parts = Parts { kubelets: true, cloud: true, ..Parts::NONE };
        Self::on(Back::Real(client.clone()), client, Clock::system(), now, Settings::default(), parts).await
    }

    async fn on(
        back: Back,
        client: Client,
        clock: Clock,
        start: jiff::Timestamp,
        settings: Settings,
        parts: Parts,
    ) -> Self {
        let mut around = karpenter_cluster::Settings { seed: 1, parts, ..Default::default() };
        around.kubelets.heartbeats = match &back {
            Back::Embedded(_) => Heartbeats::Folded,
            Back::Real(_) => Heartbeats::Written,
        };
        around.kubelets.events = Events::Warnings;
        let cluster = Cluster::start(client.clone(), karpenter_cluster::clock::Clock::starting_at(start), around);
        let scythe = Scythe::default();
        let cloud = Arc::new(Cloud::new(cluster.handle().clone(), clock.clone(), scythe.clone()));
        let reads = Reads::default();
        let controllers = back.controllers_client(&scythe, &reads);
        let context = Arc::new(context(controllers, &clock, &cloud, &settings));
        let mut stage = Self { client, cloud, scythe, reads, settings, context, back, clock, cluster, engine: None };
        stage.install().await;
        stage.start();
        stage
    }

    /// The custom resources, and a node class that is ready.
    async fn install(&self) {
        for crd in karpenter_api::crds() {
            let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            if self.get(&format!("{path}/{name}")).await.is_none() {
                self.create(path, crd).await;
            }
            let established = || async {
                let crd = self.get(&format!("{path}/{name}")).await.unwrap();
                objects::condition(&crd, "Established").is_some_and(|condition| condition["status"] == "True")
            };
            self.until("a CRD is established", 30, established).await;
        }
        if self.get(&format!("{}/default", objects::CLASSES)).await.is_none() {
            self.create(objects::CLASSES, objects::node_class("default")).await;
            self.class_is_ready("default", true).await;
        }
    }

    /// Starts the controllers: a new process, with nothing in memory.
    pub(crate) fn start(&mut self) {
        self.start_with(roster::life(&self.settings));
    }

    /// As [`Stage::start`], of some controllers only.
    pub(crate) fn start_with(&mut self, reconcilers: Vec<Arc<dyn Reconciler>>) {
        self.scythe.revive();
        let controllers = self.back.controllers_client(&self.scythe, &self.reads);
        self.context = Arc::new(context(controllers, &self.clock, &self.cloud, &self.settings));
        self.engine = Some(tokio::spawn(Engine::new(self.context.clone(), reconcilers).run()));
    }

    /// Starts other controllers beside those that run, and never ends them.
    pub(crate) fn start_another(&self) {
        let controllers = self.back.controllers_client(&self.scythe, &self.reads);
        let other = Arc::new(context(controllers, &self.clock, &self.cloud, &self.settings));
        tokio::spawn(Engine::new(other, roster::life(&self.settings)).run());
    }

    /// The controllers are gone, wherever they were.
    pub(crate) fn kill(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.abort();
        }
    }

    /// The controllers are gone; `start` brings new ones.
    pub(crate) async fn kill_and_wait(&self) {
        if let Some(engine) = &self.engine {
            engine.abort();
        }
        self.pass(1).await;
    }

    /// Waits until the scythe has fallen, then starts over after a while.
    pub(crate) async fn dies_and_comes_back(&mut self, within: u64) {
        let scythe = self.scythe.clone();
        self.until("the chosen effect comes", within, || async { scythe.is_dead() }).await;
        self.kill();
        self.pass(3).await;
        self.start();
    }

    /// As [`Stage::until`], and whenever the controllers die, new ones start after a while.
    pub(crate) async fn survives<F: Future<Output = bool>>(
        &mut self,
        what: &str,
        within: u64,
        check: impl Fn(Client) -> F,
    ) {
        let start = tokio::time::Instant::now();
        while !check(self.client.clone()).await {
            if self.scythe.is_dead() {
                self.kill();
                self.pass(3).await;
                self.start();
            }
            if start.elapsed() > Duration::from_secs(within) {
                panic!("not within {within} s: {what}\n{}", self.picture().await);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self.back, Back::Real(_))
    }

    /// Takes everything away that a scenario may have left, and starts the controllers anew.
    pub(crate) async fn clear(&mut self) {
        for path in [objects::DEPLOYMENTS, "/apis/apps/v1/namespaces/default/daemonsets", objects::BUDGETS] {
            for object in self.list(path).await {
                self.delete_if_there(&format!("{path}/{}", object["metadata"]["name"].as_str().unwrap())).await;
            }
        }
        for path in [objects::CLAIMS, objects::POOLS] {
            for object in self.list(path).await {
                self.delete_if_there(&format!("{path}/{}", object["metadata"]["name"].as_str().unwrap())).await;
            }
            self.until("they are gone", 180, || async { self.list(path).await.is_empty() }).await;
        }
        self.delete("/api/v1/namespaces/default/events").await;
        self.kill();
        self.start();
    }

    /// The embedded server, to break its answers.
    pub(crate) fn server(&self) -> &ApiServer {
        match &self.back {
            Back::Embedded(server) => server,
            Back::Real(_) => panic!("a real server does not break on demand"),
        }
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits for something, and says how long it took in seconds.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, within: u64, check: impl Fn() -> F) -> f64 {
        let start = tokio::time::Instant::now();
        loop {
            if check().await {
                return start.elapsed().as_secs_f64();
            }
            if start.elapsed() > Duration::from_secs(within) {
                panic!("not within {within} s: {what}\n{}", self.picture().await);
            }
            // Often at first, when a moment matters.
            let pause = if start.elapsed() < Duration::from_secs(10) { 100 } else { 1_000 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// What there is, for whoever wonders why a test failed.
    async fn picture(&self) -> String {
        let mut text = String::new();
        for claim in self.list(objects::CLAIMS).await {
            text += &format!("claim {} {}\n", claim["metadata"], claim["status"]);
        }
        for node in self.list(objects::NODES).await {
            text += &format!("node {} {}\n", node["metadata"], node["spec"]);
        }
        for pod in self.list("/api/v1/pods").await {
            text += &format!("pod {} on {} {}\n", pod["metadata"], pod["spec"]["nodeName"], pod["status"]["phase"]);
        }
        let done = self.scythe.done();
        for effect in done.iter().skip(done.len().saturating_sub(40)) {
            text += &format!("{} {} -> {}\n", effect.name, effect.sent, effect.answer);
        }
        text
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: Option<Value>) -> Result<Value, kube::Error> {
        let bytes = body.map(|body| serde_json::to_vec(&body).unwrap()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind).body(bytes);
        self.client.request::<Value>(request.unwrap()).await
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> Value {
        let answer = self.send("POST", path, "application/json", Some(body.clone())).await;
        answer.unwrap_or_else(|error| panic!("create {path}: {error} {body}"))
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Value {
        let answer = self.send("PATCH", path, "application/merge-patch+json", Some(body)).await;
        answer.unwrap_or_else(|error| panic!("patch {path}: {error}"))
    }

    pub(crate) async fn delete(&self, path: &str) {
        let answer = self.send("DELETE", path, "application/json", None).await;
        answer.unwrap_or_else(|error| panic!("delete {path}: {error}"));
    }

    /// As [`Stage::delete`], of what may be gone already.
    pub(crate) async fn delete_if_there(&self, path: &str) {
        if self.get(path).await.is_some() {
            let _ = self.send("DELETE", path, "application/json", None).await;
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        match self.send("GET", path, "application/json", None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("get {path}: {error}"),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) async fn claim(&self, name: &str) -> Option<NodeClaim> {
        Api::<NodeClaim>::all(self.client.clone()).get_opt(name).await.unwrap()
    }

    pub(crate) async fn pool(&self, name: &str) -> NodePool {
        Api::<NodePool>::all(self.client.clone()).get(name).await.unwrap()
    }

    pub(crate) async fn node(&self, name: &str) -> Option<Node> {
        Api::<Node>::all(self.client.clone()).get_opt(name).await.unwrap()
    }

    pub(crate) async fn condition(&self, claim: &str, kind: &str) -> Option<(Status, String)> {
        let claim = self.claim(claim).await?;
        claim.condition(kind).map(|condition| (Status::of(Some(condition)), condition.reason.clone()))
    }

    pub(crate) async fn is(&self, claim: &str, kind: &str, status: Status, reason: &str) -> bool {
        self.condition(claim, kind).await == Some((status, reason.to_owned()))
    }

    /// The name of a claim's node, once it is there and usable.
    pub(crate) async fn ready_node(&self, claim: &str) -> String {
        let ready = || async { self.is(claim, "Ready", Status::True, "Ready").await };
        self.until(&format!("claim {claim} is ready"), 120, ready).await;
        self.claim(claim).await.unwrap().status.unwrap().node_name.unwrap()
    }

    pub(crate) async fn claim_is_gone(&self, name: &str, within: u64) -> f64 {
        self.until(&format!("claim {name} is gone"), within, || async { self.claim(name).await.is_none() }).await
    }

    /// Pods that run and are ready, with the node they run on.
    pub(crate) async fn running(&self, app: &str) -> Vec<(String, String)> {
        let pods = self.list(&format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{app}")).await;
        let ready = |pod: &&Value| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && objects::condition(pod, "Ready").is_some_and(|condition| condition["status"] == "True")
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pair = |pod: &Value| (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]));
        pods.iter().filter(ready).map(pair).collect()
    }

    pub(crate) async fn runs(&self, app: &str, count: usize) {
        let check = || async { self.running(app).await.len() == count };
        self.until(&format!("{count} pods of {app} run"), 180, check).await;
    }

    /// The events with this reason, as what they are about and what they say.
    pub(crate) async fn events(&self, reason: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = self.list("/api/v1/events").await;
        let ours = all.iter().filter(|event| event["reason"] == reason && event["source"]["component"] == "karpenter");
        ours.map(|event| {
            let object = &event["involvedObject"];
            (format!("{}/{}", text(&object["kind"]), text(&object["name"])), text(&event["message"]))
        })
        .collect()
    }

    /// A metric's value by its name and a part of its labels; zero if there is no such series.
    pub(crate) fn metric(&self, name: &str, labels: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.context.metrics.registry()).unwrap();
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    pub(crate) async fn class_is_ready(&self, name: &str, ready: bool) {
        let (status, reason) = if ready { ("True", "Ready") } else { ("False", "SubnetsNotFound") };
        let path = format!("{}/{name}", objects::CLASSES);
        let generation = self.get(&path).await.unwrap()["metadata"]["generation"].clone();
        let condition = json!({"type": "Ready", "status": status, "reason": reason, "message": "",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        self.patch(&format!("{path}/status"), json!({"status": {"conditions": [condition]}})).await;
    }

    /// The machine behind a claim loses its plug.
    pub(crate) async fn lose_machine(&self, claim: &str) {
        let id = self.claim(claim).await.unwrap().status.unwrap().provider_id.unwrap();
        self.cloud.lose(&id).await;
    }

    /// The cloud no longer knows the machine behind a claim, which runs on.
    pub(crate) async fn forget_machine(&self, claim: &str) {
        let id = self.claim(claim).await.unwrap().status.unwrap().provider_id.unwrap();
        self.cloud.forget(&id);
    }

    /// Cuts the kubelet of a claim's machine off, or connects it again.
    pub(crate) async fn silence(&self, claim: &str, silent: bool) {
        let id = self.claim(claim).await.unwrap().status.unwrap().provider_id.unwrap();
        self.cluster.handle().silence(&node_name(&id), silent).await.unwrap();
    }
}

fn context(client: Client, clock: &Clock, cloud: &Arc<Cloud>, settings: &Settings) -> Context {
    let vocabulary = Arc::new(karpenter_core::labels::Vocabulary::kubernetes());
    Context::new(client, clock.clone(), cloud.clone(), vocabulary, settings.clone())
}
