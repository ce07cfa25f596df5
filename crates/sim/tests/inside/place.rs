//! A cluster with one pool in a region where everything is to be had.

use std::time::Duration;

use karpenter_aws_sim::{Capacity, Rates, Region};
use karpenter_sim::world::send;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ground::{Ground, Stage};

pub(crate) const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
pub(crate) const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
pub(crate) const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

pub(crate) struct Place {
    pub(crate) stage: Stage,
    client: Client,
}

impl Place {
    /// With the pool's disruption and the changes to its template.
    pub(crate) async fn new(ground: &Ground, seed: u64, rates: Rates, disruption: Value, template: Value) -> Self {
        let mut region = karpenter_aws_sim::Options::new("us-east-1", seed, "simulated");
        (region.capacity, region.rates) = (Capacity::Unlimited, rates);
        let stage = ground.stage(seed, region).await;
        let place = Self { client: stage.client(), stage };
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
        let ready = async || condition(&place.list(POOLS).await[0], "Ready") == Some("True".to_owned());
        place.until("the pool is ready", 60, ready).await;
        place
    }

    /// Where nodes stay until somebody ends them.
    pub(crate) async fn quiet(ground: &Ground) -> Self {
        Self::new(ground, 1, Rates::default(), never(), json!({})).await
    }

    pub(crate) fn region(&self) -> &Region {
        self.stage.region()
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits for something, looking every second.
    pub(crate) async fn until(&self, what: &str, within: u64, check: impl AsyncFn() -> bool) {
        let end = Instant::now() + Duration::from_secs(within);
        while !check().await {
            assert!(Instant::now() < end, "not within {within} s: {what}\n{}", self.picture().await);
            self.pass(1).await;
        }
    }

    pub(crate) async fn until_running(&self, count: usize, within: u64) {
        self.until(&format!("{count} pods run"), within, async || self.running().await == count).await;
    }

    /// Waits until a claim is gone, with its machine.
    pub(crate) async fn until_gone(&self, claim: &str, within: u64) {
        let gone = async || !self.names(CLAIMS).await.iter().any(|name| name == claim);
        self.until(&format!("claim {claim} is gone"), within, gone).await;
    }

    /// Pods of an app, of which so many may be missing at a time.
    pub(crate) async fn budget(&self, app: &str, max_unavailable: u32) {
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
            "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": app}}}});
        self.create(BUDGETS, budget).await;
    }

    /// Waits until so many pods run and none of these claims is left, with at most one pod missing on the way.
    pub(crate) async fn until_moved(&self, old: &[String], pods: usize) {
        let moved = async || {
            let running = self.running().await;
            assert!(running + 1 >= pods, "{running} ran at a time");
            running == pods && !self.names(CLAIMS).await.iter().any(|name| old.contains(name))
        };
        self.until("all have moved", 600, moved).await;
    }

    /// Waits until nothing is left that costs money.
    pub(crate) async fn until_empty(&self, within: u64) {
        let empty = async || {
            self.list(CLAIMS).await.is_empty() && self.list(NODES).await.is_empty() && self.instances().is_empty()
        };
        self.until("nothing is left", within, empty).await;
    }

    async fn picture(&self) -> String {
        let mut text = String::new();
        for path in [POOLS, CLAIMS, NODES, PODS] {
            for one in self.list(path).await {
                text += &format!("{path} {} {}\n", one["metadata"]["name"], one["status"]["conditions"]);
            }
        }
        text + &format!("{:?}", self.instances())
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> Value {
        let answer = send(&self.client, method, path, kind, body).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
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

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send("GET", path, "application/json", &Value::Null).await
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().unwrap().clone()
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

    /// Pods that are ready and not on their way out.
    pub(crate) async fn running(&self) -> usize {
        let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        let pods = self.list(PODS).await;
        pods.iter().filter(stays).filter(|pod| condition(pod, "Ready") == Some("True".to_owned())).count()
    }

    /// Ids of instances that cost money.
    pub(crate) fn instances(&self) -> Vec<String> {
        let all = self.region().instances().into_iter().filter(|one| one.ended_at.is_none());
        all.map(|one| one.instance.id).collect()
    }

    /// Every claim has an instance, and no instance is without one.
    pub(crate) async fn is_even(&self) -> bool {
        self.instances().len() == self.list(CLAIMS).await.len()
    }

    /// What a scenario may have left goes, as another may follow on the same ground.
    pub(crate) async fn close(self) {
        self.stage.is_sound();
        self.clear().await;
    }

    /// As [`Self::close`], of a scenario in which pods are deleted on purpose.
    pub(crate) async fn clear(self) {
        if matches!(self.stage, Stage::Embedded(_)) {
            return;
        }
        for path in [BUDGETS, DEPLOYMENTS, DAEMON_SETS, STATEFUL_SETS, PODS, POOLS, CLAIMS] {
            for name in self.names(path).await {
                let _ = send(&self.client, "DELETE", &format!("{path}/{name}"), "application/json", &Value::Null).await;
            }
        }
        self.until_empty(180).await;
        self.until("the pool is gone", 60, async || self.list(POOLS).await.is_empty()).await;
        self.delete(&format!("{CLASSES}/default")).await;
        self.until("the node class is gone", 60, async || self.list(CLASSES).await.is_empty()).await;
    }
}

/// The status of a condition.
pub(crate) fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(found["status"].as_str()?.to_owned())
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
