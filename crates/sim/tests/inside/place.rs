//! A cluster with one pool in a region where everything is to be had.

use std::sync::Arc;
use std::time::Duration;

use karpenter_apiserver::{ApiServer, Options, TokioClock};
use karpenter_aws_sim::{Capacity, Rates};
use karpenter_sim::world::send;
use karpenter_sim::{Setup, World};
use serde_json::{Value, json};

pub(crate) const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(crate) struct Place {
    pub(crate) world: World,
}

impl Place {
    /// With the pool's disruption and the changes to its template.
    pub(crate) async fn new(seed: u64, rates: Rates, disruption: Value, template: Value) -> Self {
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Arc::new(TokioClock::starting_at(start));
        let server = ApiServer::new(Options { clock, seed, rbac: false, keep_history: false });
        let mut region = karpenter_aws_sim::Options::new("us-east-1", seed, "simulated");
        (region.capacity, region.rates) = (Capacity::Unlimited, rates);
        let settings = karpenter_controllers::Settings::default();
        let setup = Setup { seed, start, region, settings, interruptions: true, root_ca: None, judged: 1 };
        let place = Self { world: World::start(server, setup).await.unwrap() };
        place.create(CLASSES, class("simulated")).await;
        let requirements = json!([
            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["9"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
        let mut spec = json!({"requirements": requirements,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}});
        spec.as_object_mut().unwrap().extend(template.as_object().unwrap().clone());
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": spec}, "disruption": disruption}});
        place.create(POOLS, pool).await;
        place.pass(10).await;
        place
    }

    /// Where nodes stay until somebody ends them.
    pub(crate) async fn quiet(seed: u64) -> Self {
        Self::new(seed, Rates::default(), never(), json!({})).await
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> Value {
        send(&self.world.client, method, path, kind, body).await.unwrap()
    }

    pub(crate) async fn create(&self, path: &str, body: Value) {
        self.send("POST", path, "application/json", &body).await;
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) {
        self.send("PATCH", path, "application/merge-patch+json", &body).await;
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, "application/json", &Value::Null).await;
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.send("GET", path, "application/json", &Value::Null).await;
        list["items"].as_array().unwrap().clone()
    }

    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let all = self.list(path).await;
        all.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Pods of one cpu each, with these changes to their spec and annotations.
    pub(crate) async fn deploy(&self, name: &str, replicas: u32, spec: Value, annotations: Value) {
        let mut pod = json!({"terminationGracePeriodSeconds": 10, "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}}]});
        pod.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": pod}}});
        self.create(DEPLOYMENTS, body).await;
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) {
        self.patch(&format!("{DEPLOYMENTS}/{name}"), json!({"spec": {"replicas": replicas}})).await;
    }

    pub(crate) async fn running(&self) -> usize {
        self.list(PODS).await.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
    }

    /// Ids of instances that cost money.
    pub(crate) fn instances(&self) -> Vec<String> {
        let all = self.world.region.instances().into_iter().filter(|one| one.ended_at.is_none());
        all.map(|one| one.instance.id).collect()
    }

    /// Nothing of the kind that must never be was seen.
    pub(crate) fn is_sound(&self) {
        assert!(self.world.audit.faulty_plans().is_empty(), "{:?}", self.world.audit.faulty_plans());
        assert!(self.world.audit.violations().is_empty(), "{:?}", self.world.audit.violations());
    }
}

pub(crate) fn never() -> Value {
    json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"})
}

/// A node class whose network is selected by this tag.
pub(crate) fn class(tag: &str) -> Value {
    let ours = json!([{"tags": {"karpenter.sh/discovery": tag}}]);
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": "r", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": ours,
            "securityGroupSelectorTerms": ours}})
}
