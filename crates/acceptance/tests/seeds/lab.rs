//! A cluster with an autoscaler and a simulated region, for whole lives in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::{ConversionService, Kind, Quantity, Taint, conversion, conversion_path, convertible_crd};
use karpenter_apiserver::{ApiServer, Options as ServerOptions, TokioClock};
use karpenter_aws_sim::{Capacity, MachineEvent, Options, Region, Script, SimInstance, Target, cloud_controller};
use karpenter_cluster::kubelet::{Events, Heartbeats, Machine};
use karpenter_cluster::{Cluster, Settings as ClusterSettings};
use karpenter_controllers::decision::{Decision, Record};
use karpenter_controllers::{Clock, Context, Settings};
use karpenter_core::Resources;
use karpenter_ec2::Catalogue;
use karpenter_provider_aws::calls::InstanceState;
use karpenter_runtime::{Amazon, Autoscaler};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const START: &str = "2026-01-01T00:00:00Z";
pub(crate) const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Where the cluster is, and what is peculiar about it.
pub(crate) struct Place {
    pub(crate) region: &'static str,
    pub(crate) cluster: &'static str,
    pub(crate) kubernetes: &'static str,
    /// Pods that share a GPU by time slicing.
    pub(crate) pods_per_gpu: u64,
    /// Images that exist by id.
    pub(crate) images: &'static [&'static str],
    /// The interruption queue's name, if it has one of its own.
    pub(crate) queue: Option<&'static str>,
    pub(crate) controllers: Settings,
    /// Calls to AWS that are refused from the start.
    pub(crate) denied: &'static [&'static str],
    /// Nobody scales: replicas are brought along.
    pub(crate) idle: bool,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            region: "us-east-1",
            cluster: "simulated",
            kubernetes: "1.33",
            pods_per_gpu: 1,
            images: &[],
            queue: None,
            controllers: Settings::default(),
            denied: &[],
            idle: false,
        }
    }
}

pub(crate) struct Lab {
    pub(crate) client: Client,
    pub(crate) region: Region,
    pub(crate) context: Arc<Context>,
    pub(crate) clock: Clock,
    pub(crate) facts: karpenter_provider_aws::Settings,
    _server: ApiServer,
    _cluster: Cluster,
    _tasks: JoinSet<()>,
}

impl Lab {
    pub(crate) async fn new(place: Place) -> Self {
        Self::start(place, None).await
    }

    /// Another cluster in the region of this one. Its machines never boot: one cluster at a time plays the kubelets.
    pub(crate) async fn beside(&self, place: Place) -> Self {
        Self::start(place, Some(self.region.clone())).await
    }

    async fn start(place: Place, shared: Option<Region>) -> Self {
        const SEED: u64 = 11;
        let start = START.parse().unwrap();
        let clock = Arc::new(TokioClock::starting_at(start));
        let server = ApiServer::new(ServerOptions { clock, seed: SEED, rbac: false, keep_history: false });
        let client = Client::new(server.service(), "default");
        define(&server, &client).await;
        let mut settings = ClusterSettings { seed: SEED, ..ClusterSettings::default() };
        settings.kubelets.heartbeats = Heartbeats::Folded;
        settings.kubelets.events = Events::Warnings;
        let cluster = Cluster::start(client.clone(), karpenter_cluster::clock::Clock::starting_at(start), settings);
        let clock = Clock::starting_at(start);
        let mut options = Options::new(place.region, SEED, place.cluster);
        options.capacity = Capacity::Unlimited;
        options.catalogue = Arc::new(catalogue(place.region));
        options.kubernetes_version = place.kubernetes.to_owned();
        options.listed_ids = place.images.iter().map(|id| (*id).to_owned()).collect();
        if let Some(queue) = place.queue {
            options.queue = queue.to_owned();
        }
        let mut facts =
            karpenter_provider_aws::Settings::new(place.cluster, &options.cluster_endpoint, place.kubernetes);
        facts.interruption_queue = Some(options.queue.clone());
        // The version is the control plane's, as EKS tells it; the embedded server has one of its own.
        facts.eks_control_plane = true;
        let now = clock.clone();
        let alone = shared.is_none();
        let own = Region::new(options, Arc::new(move || now.now()));
        let region = shared.unwrap_or_else(|| own.clone());
        // Each cluster has a control plane of its own.
        let aws = karpenter_provider_aws::Aws { eks: own.aws().eks, ..region.aws() };
        for operation in place.denied {
            let call = Target::Call { operation, server_fault: false };
            region.script(Script::new(call, "UnauthorizedOperation", u32::MAX));
        }
        let amazon = Amazon::start(client.clone(), &clock, aws, facts.clone()).await.unwrap();
        let autoscaler = Autoscaler::new(client.clone(), clock.clone(), &amazon, place.controllers);
        let context = autoscaler.context.clone();
        let mut tasks = JoinSet::new();
        if alone {
            tasks.spawn(switch_on(region.clone(), cluster.handle().clone(), place.pods_per_gpu));
            let (agenda, sweep, of_sweep) = (region.clone(), region.clone(), client.clone());
            tasks.spawn(async move { agenda.run().await });
            tasks.spawn(async move { cloud_controller::run(&sweep, &of_sweep).await });
        }
        if !place.idle {
            tasks.spawn(autoscaler.run());
        }
        Self { client, region, context, clock, facts, _server: server, _cluster: cluster, _tasks: tasks }
    }

    /// Creates objects as a user would.
    pub(crate) async fn apply(&self, objects: Vec<Value>) {
        for object in objects {
            let path = collection(&object);
            self.send("POST", &path, Some(object)).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }

    /// Server-side apply of the whole object, as `kubectl apply --server-side` and Terraform do.
    pub(crate) async fn apply_again(&self, object: &Value) -> Value {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}?fieldManager=user&force=true", collection(object));
        self.send("APPLY", &path, Some(object.clone())).await.unwrap()
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Value {
        self.send("PATCH", path, Some(body)).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send("GET", path, None).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, None).await.unwrap();
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().cloned().unwrap()
    }

    pub(crate) async fn scale(&self, deployment: &str, replicas: usize) {
        self.patch(&format!("{DEPLOYMENTS}/{deployment}"), json!({"spec": {"replicas": replicas}})).await;
    }

    /// The answer, or the server's refusal.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, String> {
        send(&self.client, method, path, body).await
    }

    pub(crate) async fn settle(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn running(&self) -> usize {
        self.list(PODS).await.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
    }

    pub(crate) fn launches(&self) -> Vec<Arc<Record>> {
        let all = self.context.recorder.decisions_since(0).into_iter();
        all.filter(|record| matches!(record.decision, Decision::Launch(_))).collect()
    }

    /// Instances that run.
    pub(crate) fn instances(&self) -> Vec<SimInstance> {
        let alive = |one: &SimInstance| matches!(one.instance.state, InstanceState::Pending | InstanceState::Running);
        self.region.instances().into_iter().filter(alive).collect()
    }

    /// What a scraper gets.
    pub(crate) fn metrics(&self) -> String {
        karpenter_runtime::metrics::page(&self.context, karpenter_runtime::metrics::Show { legacy: true })
    }

    /// Ours, not the scheduler's.
    pub(crate) async fn events(&self, reason: &str) -> Vec<Value> {
        let all = self.list("/api/v1/events").await;
        let ours =
            |event: &Value| event["source"]["component"] == "karpenter" || event["reportingComponent"] == "karpenter";
        all.into_iter().filter(|event| event["reason"] == reason && ours(event)).collect()
    }
}

/// A condition of an object: its status, or nothing.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|condition| condition["type"] == kind)).unwrap_or(&Value::Null)
}

pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind)["status"] == "True"
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// A few families are as good as all of them, and much quicker to look through.
fn catalogue(region: &str) -> Catalogue {
    const FAMILIES: [&str; 9] = ["c5.", "c6i.", "m5.", "m6i.", "r5.", "t3.", "t3a.", "g4dn.", "g5."];
    let mut catalogue = super::plans::catalogue(region);
    catalogue.types.retain(|facts| FAMILIES.iter().any(|family| facts.name.starts_with(family)));
    catalogue
}

/// Where objects of a kind are.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = match object["kind"].as_str().unwrap() {
        "EC2NodeClass" => "ec2nodeclasses".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    match object["kind"].as_str().unwrap() {
        "EC2NodeClass" | "NodePool" | "NodeClaim" | "Node" | "PersistentVolume" | "StorageClass" => {
            format!("{root}/{plural}")
        }
        _ => {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
            format!("{root}/namespaces/{namespace}/{plural}")
        }
    }
}

/// The definitions of the chart, with a webhook in the process.
async fn define(server: &ApiServer, client: &Client) {
    let service =
        ConversionService { name: "karpenter".into(), namespace: "karpenter".into(), port: 8443, ca_bundle: None };
    for kind in Kind::ALL {
        let url = format!("https://karpenter.karpenter.svc:8443{}", conversion_path(kind));
        server.serve_webhook(&url, convert);
        let mut definition = convertible_crd(kind, &service);
        if definition["spec"]["conversion"].is_object() {
            definition["spec"]["conversion"]["webhook"]["clientConfig"] = json!({"url": url});
        }
        send(client, "POST", CRDS, Some(definition)).await.unwrap();
    }
}

fn convert(review: &Value) -> Value {
    let request = &review["request"];
    let to_v1beta1 = request["desiredAPIVersion"].as_str().unwrap().ends_with(conversion::V1BETA1);
    let converted = |object: &Value| match (conversion::convertible(object), to_v1beta1) {
        (Some((kind, false)), true) => conversion::to_v1beta1(kind, object),
        (Some((kind, true)), false) => conversion::to_v1(kind, object, &|_| None),
        _ => object.clone(),
    };
    let objects: Vec<Value> = request["objects"].as_array().unwrap().iter().map(converted).collect();
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": {
        "uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}})
}

async fn send(client: &Client, method: &str, path: &str, body: Option<Value>) -> Result<Value, String> {
    let (method, kind) = match method {
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        "PATCH" => ("PATCH", "application/merge-patch+json"),
        other => (other, "application/json"),
    };
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind).body(bytes).unwrap();
    client.request::<Value>(request).await.map_err(|error| error.to_string())
}

async fn switch_on(region: Region, kubelets: karpenter_cluster::Handle, pods_per_gpu: u64) {
    let mut machines = region.machines();
    while let Some(event) = machines.recv().await {
        match event {
            MachineEvent::Started(machine) => kubelets.add_machine(computer(&machine, pods_per_gpu)).await.unwrap(),
            MachineEvent::Stopped { name, .. } => kubelets.remove_machine(&name).await.unwrap(),
        }
    }
}

fn computer(machine: &karpenter_aws_sim::Machine, pods_per_gpu: u64) -> Machine {
    let amounts = |resources: &Resources| -> BTreeMap<String, Quantity> {
        resources.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))).collect()
    };
    let taint = |taint: &karpenter_core::Taint| Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    };
    let mut devices = amounts(&machine.devices);
    if let Some(gpus) = devices.get_mut("nvidia.com/gpu") {
        *gpus = Quantity((gpus.0.parse::<u64>().unwrap() * pods_per_gpu).to_string());
    }
    Machine {
        provider_id: machine.provider_id.clone(),
        labels: machine.labels.clone(),
        taints: machine.taints.iter().map(taint).collect(),
        capacity: amounts(&machine.capacity),
        allocatable: amounts(&machine.allocatable),
        devices,
        boot_delay: machine.boot_delay,
        ready_delay: Duration::from_secs(3),
        device_delay: Duration::from_secs(5),
        ..Machine::new(&machine.name, "0", "0")
    }
}
