//! The whole autoscaler with a simulated region, over the embedded API server and cluster, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "region/metrics.rs"]
mod metrics;
#[path = "region/outages.rs"]
mod outages;
#[path = "region/probes.rs"]
mod probes;
#[path = "region/rights.rs"]
mod rights;

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::{Quantity, Taint};
use karpenter_apiserver::{ApiServer, Options as ServerOptions, TokioClock, User};
use karpenter_aws_sim::{Capacity, MachineEvent, Options, Region, cloud_controller};
use karpenter_cluster::kubelet::{Events, Heartbeats, Machine};
use karpenter_cluster::{Cluster, Settings as ClusterSettings};
use karpenter_controllers::decision::Decision;
use karpenter_controllers::{Clock, Context, Settings};
use karpenter_core::Resources;
use karpenter_runtime::{Amazon, Autoscaler};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const START: &str = "2026-01-01T00:00:00Z";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

struct Lab {
    server: ApiServer,
    client: Client,
    region: Region,
    context: Arc<Context>,
    _cluster: Cluster,
    _tasks: JoinSet<()>,
}

impl Lab {
    async fn new(seed: u64) -> Self {
        Self::with(seed, |_, _| {}).await
    }

    async fn with(seed: u64, change: impl FnOnce(&mut Options, &mut karpenter_provider_aws::Settings)) -> Self {
        Self::of(seed, User::admin(), Settings::default(), change).await
    }

    /// Our controllers are this user.
    async fn of(
        seed: u64,
        user: User,
        controllers: Settings,
        change: impl FnOnce(&mut Options, &mut karpenter_provider_aws::Settings),
    ) -> Self {
        let start = START.parse().unwrap();
        let clock = Arc::new(TokioClock::starting_at(start));
        let server = ApiServer::new(ServerOptions { clock, seed, rbac: true, keep_history: false });
        let client = Client::new(server.service(), "default");
        let mut settings = ClusterSettings { seed, ..ClusterSettings::default() };
        settings.kubelets.heartbeats = Heartbeats::Folded;
        settings.kubelets.events = Events::Warnings;
        let cluster = Cluster::start(client.clone(), karpenter_cluster::clock::Clock::starting_at(start), settings);
        for crd in karpenter_api::crds() {
            send(&client, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Some(crd)).await;
        }
        let clock = Clock::starting_at(start);
        let mut options = Options::new("us-east-1", seed, "simulated");
        options.capacity = Capacity::Unlimited;
        let (endpoint, version) = (options.cluster_endpoint.clone(), options.kubernetes_version.clone());
        let mut facts = karpenter_provider_aws::Settings::new("simulated", &endpoint, &version);
        change(&mut options, &mut facts);
        let now = clock.clone();
        let region = Region::new(options, Arc::new(move || now.now()));
        let ours = Client::new(server.service_as(user), "default");
        let amazon = Amazon::start(ours.clone(), &clock, region.aws(), facts).await.unwrap();
        let autoscaler = Autoscaler::new(ours, clock, &amazon, controllers);
        let context = autoscaler.context.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(switch_on(region.clone(), cluster.handle().clone()));
        let (agenda, sweep, of_sweep) = (region.clone(), region.clone(), client.clone());
        tasks.spawn(async move { agenda.run().await });
        tasks.spawn(async move { cloud_controller::run(&sweep, &of_sweep).await });
        tasks.spawn(autoscaler.run());
        Self { server, client, region, context, _cluster: cluster, _tasks: tasks }
    }

    async fn create(&self, path: &str, body: Value) {
        send(&self.client, "POST", path, Some(body)).await;
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        send(&self.client, "GET", path, None).await["items"].as_array().cloned().unwrap()
    }

    async fn settle(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// A node class, and a pool of ordinary types whose empty nodes go.
    async fn pool(&self) {
        self.pool_of(&["on-demand"]).await;
    }

    async fn pool_of(&self, capacity_types: &[&str]) {
        let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"role": "KarpenterNodeRole", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "simulated"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "simulated"}}]}});
        self.create("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", class).await;
        let within =
            |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let requirements = [
            within("karpenter.k8s.aws/instance-category", "In", &["c", "m", "r"]),
            within("karpenter.k8s.aws/instance-cpu", "Lt", &["17"]),
            within("kubernetes.io/arch", "In", &["amd64"]),
            within("karpenter.sh/capacity-type", "In", capacity_types),
        ];
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"requirements": requirements,
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}},
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}}});
        self.create("/apis/karpenter.sh/v1/nodepools", pool).await;
    }

    /// The metrics page.
    fn metrics(&self) -> String {
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &self.context.metrics.registry()).unwrap();
        page
    }

    fn launches(&self) -> Vec<Arc<karpenter_controllers::decision::Record>> {
        let all = self.context.recorder.decisions_since(0).into_iter();
        all.filter(|record| matches!(record.decision, Decision::Launch(_))).collect()
    }
}

async fn send(client: &Client, method: &str, path: &str, body: Option<Value>) -> Value {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind).body(bytes).unwrap();
    client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

async fn switch_on(region: Region, kubelets: karpenter_cluster::Handle) {
    let mut machines = region.machines();
    while let Some(event) = machines.recv().await {
        match event {
            MachineEvent::Started(machine) => kubelets.add_machine(computer(&machine)).await.unwrap(),
            MachineEvent::Stopped { name, .. } => kubelets.remove_machine(&name).await.unwrap(),
        }
    }
}

fn computer(machine: &karpenter_aws_sim::Machine) -> Machine {
    let amounts = |resources: &Resources| {
        resources.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))).collect()
    };
    let taint = |taint: &karpenter_core::Taint| Taint {
        key: taint.key.clone(),
        effect: taint.effect.as_str().to_owned(),
        ..Taint::default()
    };
    Machine {
        provider_id: machine.provider_id.clone(),
        labels: machine.labels.clone(),
        taints: machine.taints.iter().map(taint).collect(),
        capacity: amounts(&machine.capacity),
        allocatable: amounts(&machine.allocatable),
        boot_delay: machine.boot_delay,
        ready_delay: Duration::from_secs(3),
        ..Machine::new(&machine.name, "0", "0")
    }
}

fn deployment((app, cpu, memory): (&str, &str, &str), replicas: usize) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "main", "image": "example.com/app:1",
                    "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}}}})
}

const SHAPES: [(&str, &str, &str); 5] = [
    ("even", "1", "1Gi"),
    ("half", "500m", "2Gi"),
    ("fat", "1", "8Gi"),
    ("double", "2", "4Gi"),
    ("small", "250m", "256Mi"),
];

#[tokio::test(start_paused = true)]
async fn the_nodes_at_the_end_are_those_of_the_first_plan_and_they_go_when_their_pods_do() {
    const EACH: usize = 10;
    let lab = Lab::new(5).await;
    lab.pool().await;
    lab.settle(10).await;
    for shape in SHAPES {
        lab.create(DEPLOYMENTS, deployment(shape, EACH)).await;
    }
    lab.settle(240).await;
    let pods = lab.list("/api/v1/namespaces/default/pods").await;
    let running = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
    assert_eq!(running, SHAPES.len() * EACH);
    let launches = lab.launches();
    assert!(!launches.is_empty());
    let times: Vec<String> = launches.iter().map(|record| record.at.to_string()).collect();
    let first = launches[0].at;
    let together = launches.iter().all(|record| record.at.duration_since(first).as_secs() == 0);
    assert!(together, "one plan, no second round: {times:?}");
    let claims = lab.list("/apis/karpenter.sh/v1/nodeclaims").await;
    assert_eq!(claims.len(), launches.len());
    for (app, ..) in SHAPES {
        let none = json!({"spec": {"replicas": 0}});
        send(&lab.client, "PATCH", &format!("{DEPLOYMENTS}/{app}"), Some(none)).await;
    }
    lab.settle(600).await;
    assert!(lab.list("/apis/karpenter.sh/v1/nodeclaims").await.is_empty());
    assert!(lab.list("/api/v1/nodes").await.is_empty());
    let alive = lab.region.price_per_hour();
    assert_eq!(alive.0, 0, "nothing is paid for any more");
    assert!(lab.server.version() > 0);
}

/// The name of the node an instance became.
fn node_of(lab: &Lab, id: &str) -> String {
    let all = lab.region.instances();
    all.into_iter().find(|one| one.instance.id == id).and_then(|one| one.node_name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_spot_warning_brings_a_replacement_in_one_pass_of_planning() {
    // covers: SCH-BATCH-26, API-IQ-04, API-IQ-06, API-IQ-07, API-IQ-08, API-IQ-10, AWS-OPS-16, AWS-MET-07, AWS-INT-12, AWS-IT-35, AWS-IT-37, SEED0-30, SEED3-14
    let lab = Lab::with(5, |_, settings| settings.interruption_queue = Some("simulated".to_owned())).await;
    lab.pool_of(&["spot"]).await;
    lab.settle(10).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 4)).await;
    lab.settle(240).await;
    let pods = lab.list("/api/v1/namespaces/default/pods").await;
    assert!(pods.iter().all(|pod| pod["status"]["phase"] == "Running"), "{pods:?}");
    // Registered nodes told how much memory their type really has.
    let provider = &lab.context.provider;
    let types = provider.instance_types(&lab.context.index.node_pool("default").unwrap()).await.unwrap();
    for node in lab.list("/api/v1/nodes").await {
        let name = node["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str().unwrap();
        let known = types.iter().find(|kind| &*kind.name == name).unwrap().capacity.get("memory");
        let told: karpenter_core::Quantity = node["status"]["capacity"]["memory"].as_str().unwrap().parse().unwrap();
        assert_eq!(known, told, "{name}");
    }
    let before = lab.launches().len();
    let fleets = lab.region.calls()["CreateFleet"];
    let victim = lab.region.instances().remove(0).instance;
    lab.region.warn(&victim.id, karpenter_aws_sim::Warning::SpotInterruption);
    // Less than the time a batch waits for company, and less than a call to EC2 takes: the plan is there.
    tokio::time::sleep(Duration::from_millis(900)).await;
    let launches = lab.launches();
    assert!(launches.len() > before, "a replacement is planned at once");
    let created = launches[before..].iter().all(|record| {
        let Decision::Launch(_) = &record.decision else { return false };
        lab.context.clock.now().duration_since(record.at).as_secs_f64() <= 0.9
    });
    assert!(created);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(lab.region.calls()["CreateFleet"] > fleets, "and launched");
    let node = send(&lab.client, "GET", &format!("/api/v1/nodes/{}", node_of(&lab, &victim.id)), None).await;
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    assert!(taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted"), "{taints:?}");
    let replaced = lab.region.instances();
    let again = |one: &karpenter_aws_sim::SimInstance| {
        one.instance.id != victim.id
            && one.instance.launched_at > victim.launched_at
            && (&one.instance.instance_type, &one.instance.zone) == (&victim.instance_type, &victim.zone)
    };
    assert!(!replaced.iter().any(again), "not from the pool that takes instances back");
    let page = lab.metrics();
    for line in [
        "karpenter_interruption_received_messages_total{message_type=\"spot_interrupted\"} 1",
        "karpenter_interruption_deleted_messages_total 1",
        "karpenter_interruption_message_queue_duration_seconds_count 1",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    let counted = page.lines().find(|line| {
        line.starts_with("karpenter_nodeclaims_disrupted_total{") && line.contains("reason=\"spot_interrupted\"")
    });
    let labels = ["nodepool=\"default\"", "capacity_type=\"spot\""];
    assert!(
        counted.is_some_and(|line| line.ends_with(" 1") && labels.iter().all(|label| line.contains(label))),
        "{counted:?}"
    );
    lab.settle(240).await;
    let pods = lab.list("/api/v1/namespaces/default/pods").await;
    assert_eq!(pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count(), 4);
}
