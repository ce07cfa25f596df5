//! A cluster to try things in.

use karpenter_apiserver::{ApiServer, Digest, Options, TokioClock};
use karpenter_cluster::clock::Clock;
use karpenter_cluster::kubelet::{Events, Heartbeats, Machine};
use karpenter_cluster::{Cluster, Settings};
use kube::Client;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Lab {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) cluster: Cluster,
}

impl Lab {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(seed, |_| {})
    }

    pub(crate) fn with(seed: u64, change: impl FnOnce(&mut Settings)) -> Self {
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = TokioClock::starting_at(start);
        let options = Options { clock: Arc::new(clock), seed, rbac: false, keep_history: false };
        let server = ApiServer::new(options);
        let client = Client::new(server.service(), "default");
        let mut settings = Settings { seed, ..Settings::default() };
        settings.kubelets.heartbeats = Heartbeats::Folded;
        settings.kubelets.events = Events::Warnings;
        change(&mut settings);
        let cluster = Cluster::start(client.clone(), Clock::starting_at(start), settings);
        Self { server, client, cluster }
    }

    /// A lab with so many machines of four CPUs, over three zones.
    pub(crate) async fn with_machines(seed: u64, count: usize) -> Self {
        let lab = Self::new(seed);
        for n in 1..=count {
            lab.cluster.handle().add_machine(machine(n)).await.unwrap();
        }
        lab.settle(5).await;
        lab
    }

    /// Everything but the API server ends and begins anew, with nothing in memory.
    pub(crate) fn restart(&mut self, now: jiff::Timestamp) {
        let mut settings = Settings { seed: 1, ..Settings::default() };
        settings.kubelets.heartbeats = Heartbeats::Folded;
        settings.kubelets.events = Events::Warnings;
        self.cluster = Cluster::start(self.client.clone(), Clock::starting_at(now), settings);
    }

    /// Lets some time pass.
    pub(crate) async fn settle(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn digest(&self) -> Digest {
        self.server.digest()
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: Option<Value>) -> Result<Value, kube::Error> {
        let bytes = body.map(|b| serde_json::to_vec(&b).unwrap()).unwrap_or_default();
        let request =
            http::Request::builder().method(method).uri(path).header("content-type", kind).body(bytes).unwrap();
        self.client.request::<Value>(request).await
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> Value {
        self.send("POST", path, "application/json", Some(body.clone()))
            .await
            .unwrap_or_else(|e| panic!("create {path}: {e} {body}"))
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Value {
        let kind = "application/merge-patch+json";
        self.send("PATCH", path, kind, Some(body)).await.unwrap_or_else(|e| panic!("patch {path}: {e}"))
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, "application/json", None).await.unwrap_or_else(|e| panic!("delete {path}: {e}"));
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.send("GET", path, "application/json", None).await.ok()
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_else(|| panic!("no list at {path}"));
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) async fn pods(&self, app: &str) -> Vec<Value> {
        self.list(&format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{app}")).await
    }
}

pub(crate) fn machine(n: usize) -> Machine {
    let mut machine = Machine::new(&format!("node-{n}"), "4", "16Gi");
    let zone = format!("zone-{}", ["a", "b", "c"][n % 3]);
    machine.labels.insert("topology.kubernetes.io/zone".into(), zone);
    machine
}

pub(crate) fn template(app: &str, cpu: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]}})
}

pub(crate) fn deployment(app: &str, replicas: i32, cpu: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template(app, cpu)}})
}

pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) fn ready(pod: &Value) -> bool {
    pod["status"]["conditions"].as_array().into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}
