//! A cluster, a region and a provider to try things with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::{EC2NodeClass, Kind, NodeClaim, NodePool, labels};
use karpenter_apiserver::{ApiServer, Clock, TokioClock};
use karpenter_aws_sim::{Capacity, Options, Region, Span};
use karpenter_provider::{Machine, Notice, Recorder};
use karpenter_provider_aws::node_class::Next;
use karpenter_provider_aws::ttl::Now;
use karpenter_provider_aws::{AwsProvider, LiveObjects, NodeClassController, Observer, Parts, Settings};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) const CLUSTER: &str = "simulated";

#[derive(Default)]
pub(crate) struct Notices(Mutex<Vec<Notice>>);

impl Recorder for Notices {
    fn publish(&self, notice: Notice) {
        self.0.lock().unwrap().push(notice);
    }
}

impl Notices {
    pub(crate) fn with_reason(&self, reason: &str) -> Vec<Notice> {
        self.0.lock().unwrap().iter().filter(|notice| notice.reason == reason).cloned().collect()
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|notice| format!("{} {}", notice.reason, notice.message)).collect()
    }
}

#[derive(Default)]
pub(crate) struct Failures(pub(crate) Mutex<Vec<String>>);

impl Observer for Failures {
    fn launch_failed(&self, zone: &str, zone_id: &str, capacity_type: &str, reason: &'static str) {
        self.0.lock().unwrap().push(format!("{zone} {zone_id} {capacity_type} {reason}"));
    }

    fn message_received(&self, kind: &'static str) {
        self.0.lock().unwrap().push(format!("received {kind}"));
    }

    fn message_handled(&self, late: Duration) {
        self.0.lock().unwrap().push(format!("handled after {}s", late.as_secs()));
    }

    fn message_deleted(&self) {
        self.0.lock().unwrap().push("deleted".to_owned());
    }

    fn interrupted(&self, kind: &'static str, claim: &NodeClaim) {
        let label = |key: &str| claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let (pool, bought) = (label(labels::NODEPOOL), label(labels::CAPACITY_TYPE));
        let line = format!("interrupted {kind} {} {}", pool.unwrap_or_default(), bought.unwrap_or_default());
        self.0.lock().unwrap().push(line);
    }

    fn unhealthy_instance(&self, category: &'static str) {
        self.0.lock().unwrap().push(format!("unhealthy {category}"));
    }
}

pub(crate) struct Lab {
    pub(crate) client: kube::Client,
    pub(crate) region: Region,
    pub(crate) now: Now,
    pub(crate) settings: Settings,
    pub(crate) notices: Arc<Notices>,
    pub(crate) failures: Arc<Failures>,
    pub(crate) parts: Arc<Parts>,
    pub(crate) provider: AwsProvider,
    pub(crate) classes: NodeClassController,
    _server: ApiServer,
    _running: JoinSet<()>,
}

/// A few families are as good as all of them, and much quicker to look through.
pub(crate) fn options(seed: u64) -> Options {
    let mut catalogue = karpenter_ec2::catalogue::builtin::catalogue().clone();
    let families = ["m5.", "c5.", "r5.", "m6i.", "m6g.", "g4dn.", "inf2."];
    catalogue.types.retain(|facts| families.iter().any(|family| facts.name.starts_with(family)));
    Options { catalogue: Arc::new(catalogue), ..Options::new("us-east-1", seed, CLUSTER) }
}

/// A region that answers at once, forgets nothing and never runs out.
pub(crate) fn quiet(seed: u64) -> Options {
    Options {
        latency: Span::ZERO,
        staleness: Span::ZERO,
        capacity: Capacity::Unlimited,
        boot: Span::exactly(Duration::from_secs(30)),
        ..options(seed)
    }
}

impl Lab {
    pub(crate) async fn new(options: Options) -> Self {
        Self::with(options, |_| {}).await
    }

    pub(crate) async fn with(options: Options, change: impl FnOnce(&mut Settings)) -> Self {
        let lab = Self::unprepared_with(options, change).await;
        lab.prepare(&lab.parts).await;
        lab
    }

    /// A provider that has not been told the cluster's CIDR yet.
    pub(crate) async fn unprepared(options: Options) -> Self {
        Self::unprepared_with(options, |_| {}).await
    }

    /// Node classes are looked at before anything launches; the first thing they learn is the cluster's CIDR.
    async fn prepare(&self, parts: &Parts) {
        while parts.resolve_cluster_cidr().await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn unprepared_with(options: Options, change: impl FnOnce(&mut Settings)) -> Self {
        let start: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let clock = TokioClock::starting_at(start);
        let server_options = karpenter_apiserver::Options {
            clock: Arc::new(clock),
            seed: options.seed,
            rbac: false,
            keep_history: false,
        };
        let server = ApiServer::new(server_options);
        let client = kube::Client::new(server.service(), "default");
        for kind in [Kind::NodePool, Kind::NodeClaim, Kind::EC2NodeClass] {
            let crd = karpenter_api::crd(kind);
            post(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
        }
        let now: Now = Arc::new(move || clock.now());
        let region = Region::new(options, now.clone());
        let mut running = JoinSet::new();
        let ticking = region.clone();
        running.spawn(async move { ticking.run().await });
        let mut settings = Settings::new(CLUSTER, "https://simulated.local", "1.36");
        settings.cluster_dns = Some("10.100.0.10".to_owned());
        change(&mut settings);
        let (notices, failures) = (Arc::new(Notices::default()), Arc::new(Failures::default()));
        let parts = parts(&region, &settings, &now, &client, &notices, &failures).await;
        Self {
            provider: AwsProvider::new(parts.clone()),
            classes: NodeClassController::new(parts.clone(), client.clone()),
            client,
            region,
            now,
            settings,
            notices,
            failures,
            parts,
            _server: server,
            _running: running,
        }
    }

    /// The pieces as a new process would have them.
    pub(crate) async fn restarted(&self) -> Arc<Parts> {
        let parts = parts(&self.region, &self.settings, &self.now, &self.client, &self.notices, &self.failures).await;
        self.prepare(&parts).await;
        parts
    }

    pub(crate) async fn create_class(&self, spec: Value) -> EC2NodeClass {
        let object = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "main"}, "spec": spec,
        });
        let class: EC2NodeClass = serde_json::from_value(object).unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &class).await.unwrap()
    }

    pub(crate) async fn class(&self) -> EC2NodeClass {
        Api::all(self.client.clone()).get("main").await.unwrap()
    }

    /// Reconciles the class until it has settled; what it wished for last.
    pub(crate) async fn settle_class(&self) -> Next {
        for _ in 0..200 {
            let next = self.classes.reconcile(&self.class().await).await;
            match next {
                Ok(Next::After(wait)) if wait.is_zero() => tokio::time::sleep(Duration::from_secs(1)).await,
                Ok(next) => return next,
                Err(_) => tokio::time::sleep(Duration::from_secs(5)).await,
            }
        }
        panic!("the node class does not settle: {:?}", self.class().await.status);
    }

    /// A ready class and a pool that uses it.
    pub(crate) async fn ready(&self) -> NodePool {
        self.ready_with(default_spec()).await
    }

    pub(crate) async fn ready_with(&self, spec: Value) -> NodePool {
        self.create_class(spec).await;
        self.settle_class().await;
        assert_eq!(self.condition("Ready").await.0, "True", "{:?}", self.class().await.status);
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"},
                "requirements": [],
            }}},
        });
        let pool: NodePool = serde_json::from_value(pool).unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &pool).await.unwrap()
    }

    /// Status, reason and message.
    pub(crate) async fn condition(&self, name: &str) -> (String, String, String) {
        let class = self.class().await;
        let conditions = class.status.and_then(|status| status.conditions).unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition.type_ == name);
        found.map(|c| (c.status, c.reason, c.message)).unwrap_or_default()
    }

    pub(crate) async fn patch_class(&self, patch: Value) {
        let api = Api::<EC2NodeClass>::all(self.client.clone());
        api.patch("main", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn patch_class_status(&self, patch: Value) {
        let api = Api::<EC2NodeClass>::all(self.client.clone());
        api.patch_status("main", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete_class(&self) {
        Api::<EC2NodeClass>::all(self.client.clone()).delete("main", &DeleteParams::default()).await.unwrap();
    }

    /// Reconciles a deleting class until it is gone.
    pub(crate) async fn bury_class(&self) {
        let api = Api::<EC2NodeClass>::all(self.client.clone());
        while let Some(class) = api.get_opt("main").await.unwrap() {
            let _ = self.classes.reconcile(&class).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn parts(
    region: &Region,
    settings: &Settings,
    now: &Now,
    client: &kube::Client,
    notices: &Arc<Notices>,
    failures: &Arc<Failures>,
) -> Arc<Parts> {
    let reads = Arc::new(LiveObjects(client.clone()));
    let parts = Parts::new(region.aws(), settings.clone(), now.clone(), reads, notices.clone(), failures.clone());
    while parts.start().await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    parts
}

async fn post(client: &kube::Client, path: &str, body: &Value) {
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
    client.request::<Value>(request).await.unwrap();
}

pub(crate) fn default_spec() -> Value {
    json!({
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "simulated"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "simulated"}}],
    })
}

/// As the provisioner would write it; not stored.
pub(crate) fn claim(name: &str, requirements: &[(&str, &str, &[&str])]) -> NodeClaim {
    let requirements: Vec<Value> = requirements
        .iter()
        .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
        .collect();
    let object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "labels": {"karpenter.sh/nodepool": "pool"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"},
            "requirements": requirements,
            "resources": {"requests": {"cpu": "1", "memory": "1Gi", "pods": "5"}},
        },
    });
    serde_json::from_value(object).unwrap()
}

pub(crate) const CAPACITY: &str = labels::CAPACITY_TYPE;
pub(crate) const TYPE: &str = labels::INSTANCE_TYPE;
pub(crate) const ZONE: &str = labels::ZONE;

pub(crate) fn on_demand(name: &str) -> NodeClaim {
    claim(name, &[(CAPACITY, "In", &["on-demand"])])
}

pub(crate) fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A claim that has the machine.
pub(crate) fn holding(machine: &Machine) -> NodeClaim {
    let mut claim = on_demand("holding");
    claim.status.get_or_insert_default().provider_id = Some(machine.provider_id.clone());
    claim
}
