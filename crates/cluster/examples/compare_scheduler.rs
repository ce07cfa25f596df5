//! Places the same pods with a real kube-scheduler and with ours, and compares who is placed.
//!
//! `KUBECONFIG=… compare_scheduler [--seed S] [--count N]`: the cluster must be empty and run kube-scheduler and
//! kube-controller-manager; nobody needs to play the kubelets. Ours runs over the embedded API server. Ends with status
//! 1 if a case is placed by one and not by the other.

use karpenter_apiserver::{ApiServer, Options, TokioClock};
use karpenter_cluster::cases::{Case, Family, cases};
use karpenter_cluster::clock::Clock;
use karpenter_cluster::{Cluster, Parts, Settings};
use kube::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// What became of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    placed: bool,
    /// The node, where the case decides it.
    node: Option<String>,
    message: String,
}

struct Api {
    client: Client,
}

impl Api {
    async fn send(&self, method: &str, path: &str, kind: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let bytes = body.map(|b| serde_json::to_vec(b).expect("plain JSON")).unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(bytes)
            .expect("a request");
        self.client.request::<Value>(request).await
    }

    async fn create(&self, path: &str, body: &Value) -> Value {
        match self.send("POST", path, "application/json", Some(body)).await {
            Ok(made) => made,
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Value::Null,
            Err(error) => panic!("creating at {path}: {error}\n{body}"),
        }
    }

    async fn patch(&self, path: &str, body: &Value) {
        let patched = self.send("PATCH", path, "application/merge-patch+json", Some(body)).await;
        patched.unwrap_or_else(|e| panic!("patching {path}: {e}"));
    }

    async fn get(&self, path: &str) -> Option<Value> {
        self.send("GET", path, "application/json", None).await.ok()
    }

    async fn delete(&self, path: &str) {
        let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        let _ = self.send("DELETE", path, "application/json", Some(&now)).await;
    }

    async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path).await.unwrap_or_default();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|i| i["metadata"]["name"].as_str().map(str::to_owned)).collect()
    }

    async fn prepare(&self) {
        for (name, value, policy) in [
            ("low", 10, "PreemptLowerPriority"),
            ("middle", 100, "PreemptLowerPriority"),
            ("high", 1000, "PreemptLowerPriority"),
            ("patient", 1000, "Never"),
        ] {
            let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                "value": value, "preemptionPolicy": policy});
            self.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
        }
        for _ in 0..100 {
            if self.get("/api/v1/namespaces/default/serviceaccounts/default").await.is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn create_all(&self, path: &str, objects: &[Value]) {
        futures_util::future::join_all(objects.iter().map(|object| self.create(path, object))).await;
    }

    async fn volumes_available(&self, case: &Case) {
        for volume in case.volumes.iter().filter(|v| v["spec"]["claimRef"].is_null()) {
            let path = format!("/api/v1/persistentvolumes/{}", volume["metadata"]["name"].as_str().unwrap_or_default());
            for _ in 0..300 {
                if self.get(&path).await.is_some_and(|v| v["status"]["phase"] == "Available") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    async fn add_node(&self, node: &Value) {
        let name = node["metadata"]["name"].as_str().expect("nodes have names");
        self.create("/api/v1/nodes", node).await;
        let now =
            self.get(&format!("/api/v1/nodes/{name}")).await.expect("just created")["metadata"]["creationTimestamp"]
                .clone();
        let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now, "lastTransitionTime": now}]);
        let mut status = node["status"].clone();
        status["conditions"] = ready;
        self.patch(&format!("/api/v1/nodes/{name}/status"), &json!({"status": status})).await;
        self.patch(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": node["spec"]["taints"]}})).await;
        // The node controller takes its own taints off by itself, and the cordon's comes with the cordon.
        let cordoned = node["spec"]["unschedulable"] == true;
        let wanted = node["spec"]["taints"].as_array().map_or(0, Vec::len) + usize::from(cordoned);
        for _ in 0..200 {
            let seen = self.get(&format!("/api/v1/nodes/{name}")).await.unwrap_or_default();
            if seen["spec"]["taints"].as_array().map_or(0, Vec::len) == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the taints of {name} do not settle");
    }

    async fn run(&self, case: &Case) -> Outcome {
        let nodes = futures_util::future::join_all(case.nodes.iter().map(|node| self.add_node(node)));
        let csi_nodes = self.create_all("/apis/storage.k8s.io/v1/csinodes", &case.csi_nodes);
        let classes = self.create_all("/apis/storage.k8s.io/v1/storageclasses", &case.classes);
        let volumes = self.create_all("/api/v1/persistentvolumes", &case.volumes);
        tokio::join!(nodes, csi_nodes, classes, volumes);
        // A claim looks for a volume once, and then only every fifteen seconds: the volumes must be there before.
        self.volumes_available(case).await;
        self.create_all(CLAIMS, &case.claims).await;
        self.create_all(PODS, &case.running).await;
        self.storage_settles(case).await;
        if let Some((pod, node)) = &case.hopeful {
            self.create(PODS, pod).await;
            let name = pod["metadata"]["name"].as_str().expect("pods have names");
            self.patch(&format!("{PODS}/{name}/status"), &json!({"status": {"nominatedNodeName": node}})).await;
        }
        // What was written must be seen by the scheduler before it is asked.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let name = case.pod["metadata"]["name"].as_str().expect("pods have names");
        let path = format!("{PODS}/{name}");
        let mut pod = case.pod.clone();
        if let Some(node) = &case.nominated {
            pod["spec"]["schedulingGates"] = json!([{"name": "example.com/nominate"}]);
            self.create(PODS, &pod).await;
            self.patch(&format!("{path}/status"), &json!({"status": {"nominatedNodeName": node}})).await;
            self.patch(&path, &json!({"spec": {"schedulingGates": null}})).await;
        } else {
            self.create(PODS, &pod).await;
        }
        let outcome = self.wait(&path, case).await;
        self.clean().await;
        outcome
    }

    /// Claims that name a volume are bound, volumes that nobody names are available.
    async fn storage_settles(&self, case: &Case) {
        for _ in 0..300 {
            let mut settled = true;
            for volume in &case.volumes {
                let name = volume["metadata"]["name"].as_str().unwrap_or_default();
                let seen = self.get(&format!("/api/v1/persistentvolumes/{name}")).await.unwrap_or_default();
                let phase = seen["status"]["phase"].as_str().unwrap_or("Pending");
                settled &= if volume["spec"]["claimRef"].is_null() {
                    phase == "Available" || phase == "Bound"
                } else {
                    phase == "Bound"
                };
            }
            for claim in case.claims.iter().filter(|c| !c["spec"]["volumeName"].is_null()) {
                let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                let seen = self.get(&format!("{CLAIMS}/{name}")).await.unwrap_or_default();
                settled &= seen["status"]["phase"] == "Bound";
            }
            if settled {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // A claim that binds at once does so now or never.
        if case.classes.iter().any(|c| c["volumeBindingMode"] == "Immediate") {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn wait(&self, path: &str, case: &Case) -> Outcome {
        let mut refused = 0;
        for _ in 0..1000 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let pod = self.get(path).await.unwrap_or_default();
            if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
                return Outcome { placed: true, node: Some(node.into()), message: String::new() };
            }
            for claim in &case.claims {
                let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                let mounted = case.pod["spec"]["volumes"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|v| v["persistentVolumeClaim"]["claimName"] == name);
                let seen = self.get(&format!("{CLAIMS}/{name}")).await.unwrap_or_default();
                let node =
                    seen["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str().filter(|_| mounted);
                if let Some(node) = node {
                    return Outcome { placed: true, node: Some(node.into()), message: "waiting for its volume".into() };
                }
            }
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let scheduled = conditions.iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False");
            let nominated = pod["status"]["nominatedNodeName"].as_str().is_some_and(|n| !n.is_empty());
            if let Some(condition) = scheduled.filter(|_| !nominated) {
                refused += 1;
                // A pod that can preempt is refused first and placed when its victims are gone.
                if refused > 10 {
                    return Outcome {
                        placed: false,
                        node: None,
                        message: condition["message"].as_str().unwrap_or_default().into(),
                    };
                }
            }
        }
        Outcome { placed: false, node: None, message: "no answer".into() }
    }

    async fn clean(&self) {
        for (path, finalized) in [
            (PODS, false),
            (CLAIMS, true),
            ("/api/v1/persistentvolumes", true),
            ("/apis/storage.k8s.io/v1/storageclasses", false),
            ("/apis/storage.k8s.io/v1/csinodes", false),
            ("/api/v1/nodes", false),
        ] {
            // All at once, and one by one only what somebody holds on to.
            self.delete(path).await;
            let rest = if finalized { self.names(path).await } else { Vec::new() };
            for name in rest {
                let free = json!({"metadata": {"finalizers": null}});
                let path = format!("{path}/{name}");
                let _ = self.send("PATCH", &path, "application/merge-patch+json", Some(&free)).await;
            }
            for _ in 0..500 {
                if self.names(path).await.is_empty() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// The answers of our scheduler, over the embedded server.
fn ours(all: &[Case]) -> Vec<Outcome> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let start = "2026-01-01T00:00:00Z".parse().expect("a time");
        let options =
            Options { clock: Arc::new(TokioClock::starting_at(start)), seed: 1, rbac: false, keep_history: false };
        let server = ApiServer::new(options);
        let client = Client::new(server.service(), "default");
        let parts = Parts { kubelets: false, cloud: false, workloads: false, disruption: false, ..Parts::ALL };
        let settings = Settings { parts, ..Settings::default() };
        let _cluster = Cluster::start(client.clone(), Clock::starting_at(start), settings);
        let api = Api { client };
        api.prepare().await;
        let mut outcomes = Vec::new();
        for case in all {
            outcomes.push(api.run(case).await);
        }
        outcomes
    })
}

fn theirs(all: &[Case], own: &[Outcome]) -> Vec<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let api = Api { client: Client::try_default().await.expect("a cluster behind KUBECONFIG") };
        api.prepare().await;
        api.clean().await;
        let mut outcomes = Vec::new();
        for (i, case) in all.iter().enumerate() {
            let outcome = api.run(case).await;
            if outcome.placed != own[i].placed {
                eprintln!("{} differs", case.name);
            }
            outcomes.push(outcome);
            if i % 50 == 49 {
                eprintln!("{} of {}", i + 1, all.len());
            }
        }
        outcomes
    })
}

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |flag: &str, default: u64| {
        let at = arguments.iter().position(|a| a == flag);
        at.and_then(|i| arguments.get(i + 1)?.parse().ok()).unwrap_or(default)
    };
    let all = cases(number("--seed", 1), number("--count", 550) as usize);
    let own = ours(&all);
    let mut families: BTreeMap<Family, (usize, usize)> = BTreeMap::new();
    for (case, outcome) in all.iter().zip(&own) {
        let counts = families.entry(case.family).or_default();
        counts.0 += 1;
        counts.1 += usize::from(!outcome.placed);
    }
    if arguments.iter().any(|a| a == "--verbose") {
        for (case, outcome) in all.iter().zip(&own) {
            println!("{}: {outcome:?}", case.name);
        }
    }
    let unplaced = own.iter().filter(|o| !o.placed).count();
    for (family, (count, unplaced)) in &families {
        println!("{family:?}: {count} cases, {unplaced} unplaceable");
    }
    println!("{} cases, {unplaced} unplaceable ({} %)", all.len(), 100 * unplaced / all.len().max(1));
    if std::env::var_os("KUBECONFIG").is_none() {
        eprintln!("no KUBECONFIG, so nothing to compare with");
        return std::process::ExitCode::SUCCESS;
    }
    let reference = theirs(&all, &own);
    let (mut different, mut worded, mut elsewhere) = (0, 0, 0);
    for ((case, own), reference) in all.iter().zip(&own).zip(&reference) {
        if own.placed != reference.placed {
            different += 1;
            println!("DIFFERENT {}: ours {own:?}, theirs {reference:?}\n  {}", case.name, case.pod["spec"]);
        } else if !own.placed && own.message != reference.message {
            worded += 1;
            println!("worded {}:\n  ours   {}\n  theirs {}", case.name, own.message, reference.message);
        } else if case.nominated.is_some() && own.node != reference.node {
            elsewhere += 1;
            println!("elsewhere {}: ours {:?}, theirs {:?}", case.name, own.node, reference.node);
        }
    }
    println!("{different} placed by one only, {worded} worded differently, {elsewhere} nominated and placed elsewhere");
    if different + elsewhere == 0 { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
