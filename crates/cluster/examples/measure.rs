//! How long things take: `measure bind` creates and binds ten thousand pods, `measure week` lives a week twice.

use karpenter_apiserver::{ApiServer, Digest, Options, TokioClock};
use karpenter_cluster::clock::Clock;
use karpenter_cluster::kubelet::{Events, Heartbeats, Machine};
use karpenter_cluster::{Cluster, Parts, Settings, chance};
use kube::Client;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

struct Lab {
    server: ApiServer,
    client: Client,
    cluster: Cluster,
}

impl Lab {
    fn new(seed: u64, parts: Parts) -> Self {
        let start = "2026-01-05T00:00:00Z".parse().expect("a time");
        let options =
            Options { clock: Arc::new(TokioClock::starting_at(start)), seed, rbac: false, keep_history: false };
        let server = ApiServer::new(options);
        let client = Client::new(server.service(), "default");
        let mut settings = Settings { seed, parts, ..Settings::default() };
        settings.kubelets.heartbeats = Heartbeats::Folded;
        settings.kubelets.events = Events::All;
        let cluster = Cluster::start(client.clone(), Clock::starting_at(start), settings);
        Self { server, client, cluster }
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> Value {
        let bytes = serde_json::to_vec(body).expect("plain JSON");
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(bytes)
            .expect("a request");
        self.client.request::<Value>(request).await.unwrap_or_else(|e| panic!("{method} {path}: {e}"))
    }

    async fn machines(&self, count: usize, cpu: &str) {
        for n in 1..=count {
            let mut machine = Machine::new(&format!("node-{n}"), cpu, "512Gi");
            machine.labels.insert("topology.kubernetes.io/zone".into(), format!("zone-{}", n % 3));
            for list in [&mut machine.capacity, &mut machine.allocatable] {
                list.insert("pods".into(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("500".into()));
            }
            self.cluster.handle().add_machine(machine).await.expect("a living cluster");
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [
        {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}})
}

#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn real_now() -> std::time::Instant {
    std::time::Instant::now()
}

async fn bind(parts: Parts) {
    let lab = Lab::new(1, Parts::ALL);
    lab.machines(100, "64").await;
    drop(lab.cluster);
    let start = "2026-01-05T01:00:00Z".parse().expect("a time");
    let settings = Settings { parts, ..Settings::default() };
    let cluster = Cluster::start(lab.client.clone(), Clock::starting_at(start), settings);
    let lab = Lab { cluster, ..lab };
    let began = real_now();
    for n in 0..10_000 {
        let mut pod = template(&format!("app-{}", n % 200));
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(format!("pod-{n}"));
        lab.send("POST", "/api/v1/namespaces/default/pods", "application/json", &pod).await;
    }
    let created = began.elapsed();
    loop {
        let unbound = lab
            .send("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3D&limit=1", "application/json", &json!(null))
            .await;
        if unbound["items"].as_array().is_none_or(Vec::is_empty) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("10,000 pods created in {created:.2?}, bound after {:.2?}; {:?}", began.elapsed(), lab.server.digest());
}

async fn week(deployments: usize, days: u64) -> Digest {
    let began = real_now();
    let lab = Lab::new(7, Parts::ALL);
    lab.machines(50, "64").await;
    for n in 0..deployments {
        let app = format!("app-{n}");
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
            "spec": {"replicas": 5, "selector": {"matchLabels": {"app": app}}, "template": template(&app)}});
        lab.send("POST", "/apis/apps/v1/namespaces/default/deployments", "application/json", &body).await;
    }
    for quarter in 0..days * 4 {
        for n in 0..deployments {
            let replicas = chance::between(quarter, &["replicas", &n.to_string()], 1, 10);
            let path = format!("/apis/apps/v1/namespaces/default/deployments/app-{n}");
            lab.send("PATCH", &path, "application/merge-patch+json", &json!({"spec": {"replicas": replicas}})).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(6 * 3600 - deployments as u64)).await;
    }
    let digest = lab.server.digest();
    println!("{days} days of {deployments} deployments in {:.2?}: {digest:?}", began.elapsed());
    digest
}

fn main() {
    let paused =
        || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("bind") => {
            paused().block_on(bind(Parts::SCHEDULER));
            paused().block_on(bind(Parts::ALL));
        }
        Some("week") => {
            let (first, second) = (paused().block_on(week(200, 7)), paused().block_on(week(200, 7)));
            println!("the same history twice: {}", first == second);
        }
        Some("day") => {
            let (first, second) = (paused().block_on(week(200, 1)), paused().block_on(week(200, 1)));
            println!("the same history twice: {}", first == second);
        }
        _ => eprintln!("measure bind|day|week"),
    }
}
