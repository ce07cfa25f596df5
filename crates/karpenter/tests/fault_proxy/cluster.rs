//! What users do to a cluster, past the proxy, and what they see of it.

use std::time::Duration;

use karpenter_sim::world::send;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

pub(crate) const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

const LOOK: Duration = Duration::from_millis(500);
/// What a pod asks for: of the nodes of our pools each has room for one.
const CPU: &str = "3";

pub(crate) type Outcome<T> = Result<T, String>;

#[derive(Clone)]
pub(crate) struct Users {
    pub(crate) client: Client,
}

impl Users {
    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> Outcome<Value> {
        send(&self.client, method, path, kind, body).await.map_err(|error| format!("{method} {path}: {error}"))
    }

    /// It may be there already.
    pub(crate) async fn create(&self, path: &str, body: Value) -> Outcome<()> {
        match send(&self.client, "POST", path, "application/json", &body).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(format!("POST {path}: {error}")),
        }
    }

    /// It may be gone already.
    pub(crate) async fn delete(&self, path: &str) -> Outcome<()> {
        match send(&self.client, "DELETE", path, "application/json", &Value::Null).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(format!("DELETE {path}: {error}")),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Outcome<Vec<Value>> {
        let mut listed = self.send("GET", path, "application/json", &Value::Null).await?;
        match listed["items"].take() {
            Value::Array(items) => Ok(items),
            other => Err(format!("GET {path}: items are {other}")),
        }
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) -> Outcome<()> {
        let body = json!({"spec": {"replicas": replicas}});
        let path = format!("{DEPLOYMENTS}/{name}");
        self.send("PATCH", &path, "application/merge-patch+json", &body).await.map(drop)
    }

    /// A pool of nodes of four processors, and what happens to those that are empty.
    pub(crate) async fn pool(&self, name: &str, disruption: Value) -> Outcome<()> {
        let requirements = json!([
            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m"]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
        let spec = json!({"requirements": requirements,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}});
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": spec}, "disruption": disruption}});
        self.create(POOLS, pool).await
    }

    pub(crate) async fn node_class(&self) -> Outcome<()> {
        let tags = json!([{"tags": {"a": "b"}}]);
        let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"role": "any", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": tags,
                "securityGroupSelectorTerms": tags}});
        self.create(CLASSES, class).await
    }

    /// Pods that take a node of the pool each.
    pub(crate) async fn deploy(&self, name: &str, replicas: u32, pool: &str) -> Outcome<()> {
        let mut spec = pod_spec();
        spec["nodeSelector"] = json!({"karpenter.sh/nodepool": pool});
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec}}});
        self.create(DEPLOYMENTS, body).await
    }

    /// A pod that somebody else than the scheduler put on a node.
    pub(crate) async fn bound(&self, name: &str, node: &str) -> Outcome<()> {
        let mut spec = pod_spec();
        spec["nodeName"] = json!(node);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": spec});
        self.create(PODS, pod).await
    }

    /// So many pods of an app have to be there at any time.
    pub(crate) async fn budget(&self, app: &str, least: u32) -> Outcome<()> {
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
            "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}});
        self.create(BUDGETS, budget).await
    }

    pub(crate) async fn pods(&self, app: &str) -> Outcome<Vec<Pod>> {
        let pods = self.list(&format!("{PODS}?labelSelector=app%3D{app}")).await?;
        Ok(pods.iter().map(Pod::of).collect())
    }

    pub(crate) async fn run(&self, app: &str, count: usize) -> Outcome<bool> {
        let pods = self.pods(app).await?;
        Ok(pods.len() == count && pods.iter().all(|pod| pod.runs && !pod.leaves))
    }

    /// Whether so many objects are there, and ready.
    pub(crate) async fn are_ready(&self, path: &str, count: usize) -> Outcome<bool> {
        let all = self.list(path).await?;
        Ok(all.len() == count && all.iter().all(is_ready))
    }

    /// The claim of a node.
    pub(crate) async fn claim_of(&self, node: &str) -> Outcome<String> {
        let claims = self.list(CLAIMS).await?;
        let found = claims.iter().find(|claim| claim["status"]["nodeName"] == node);
        let name = found.and_then(|claim| claim["metadata"]["name"].as_str());
        name.map(str::to_owned).ok_or_else(|| format!("node {node} has no claim"))
    }

    /// Whether a claim is on its way out, or gone.
    pub(crate) async fn is_leaving(&self, claim: &str) -> Outcome<bool> {
        let claims = self.list(CLAIMS).await?;
        let found = claims.iter().find(|one| one["metadata"]["name"] == claim);
        Ok(found.is_none_or(|claim| !claim["metadata"]["deletionTimestamp"].is_null()))
    }

    /// Waits for something; how long it took.
    pub(crate) async fn until(
        &self,
        what: &str,
        within: Duration,
        check: impl AsyncFn() -> Outcome<bool>,
    ) -> Outcome<Duration> {
        let began = Instant::now();
        loop {
            if check().await? {
                return Ok(began.elapsed());
            }
            if began.elapsed() > within {
                let state = self.state().await;
                return Err(format!("not within {} s: {what}\n{state}", within.as_secs()));
            }
            sleep(LOOK).await;
        }
    }

    async fn state(&self) -> String {
        let mut text = String::new();
        for path in [CLAIMS, NODES, PODS, BUDGETS] {
            for one in self.list(path).await.unwrap_or_default() {
                let (metadata, status) = (&one["metadata"], &one["status"]);
                let left = metadata["deletionTimestamp"].as_str().map_or(String::new(), |at| format!(", deleted {at}"));
                let conditions = status["conditions"].as_array().into_iter().flatten();
                let conditions: Vec<String> =
                    conditions.map(|one| format!("{}={} {}", one["type"], one["status"], one["reason"])).collect();
                text += &format!(
                    "  {path} {} on {}{left}: {} {}\n",
                    metadata["name"],
                    one["spec"]["nodeName"],
                    status["phase"],
                    conditions.join(", ").replace('"', "")
                );
            }
        }
        text
    }
}

/// A pod as far as scenarios look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    pub(crate) node: Option<String>,
    pub(crate) runs: bool,
    pub(crate) leaves: bool,
}

impl Pod {
    fn of(pod: &Value) -> Self {
        Self {
            uid: pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            node: pod["spec"]["nodeName"].as_str().map(str::to_owned),
            runs: is_ready(pod),
            leaves: !pod["metadata"]["deletionTimestamp"].is_null(),
        }
    }
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn pod_spec() -> Value {
    json!({"terminationGracePeriodSeconds": 2, "containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": CPU}}}]})
}
