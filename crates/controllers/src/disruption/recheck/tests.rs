use std::convert::Infallible;
use std::future::{Pending, pending};
use std::sync::Mutex;
use std::task::{self, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::labels::ON_DEMAND;
use karpenter_index::{Kind, Object};
use karpenter_provider::{
    CloudProvider, DeleteError, GetError, InstanceTypes, LaunchError, Machine, NodeClassKind, ProviderError,
    RepairPolicy, TypesError,
};
use karpenter_testkit::fake::{instance_type, sold};
use serde_json::{Value, json};

use super::*;
use crate::clock::{Clock, later};
use crate::settings::Settings;

const START: &str = "2026-01-01T00:00:00Z";

/// Sells one size of machine.
struct Shop;

#[async_trait]
impl CloudProvider for Shop {
    fn name(&self) -> &'static str {
        "shop"
    }

    fn node_class_kinds(&self) -> &'static [NodeClassKind] {
        &[NodeClassKind { group: "karpenter.k8s.aws", version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" }]
    }

    async fn create(&self, _: &NodeClaim) -> Result<Machine, LaunchError> {
        pending().await
    }

    async fn delete(&self, _: &NodeClaim) -> Result<(), DeleteError> {
        pending().await
    }

    async fn get(&self, _: &str) -> Result<Machine, GetError> {
        pending().await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        pending().await
    }

    async fn instance_types(&self, _: &NodePool) -> Result<InstanceTypes, TypesError> {
        let kind = instance_type("large").cpu("8").memory("32Gi").pods("110");
        Ok(Arc::from([Arc::new(kind.offerings(vec![sold("a", ON_DEMAND).at(100_000)]).build())]))
    }

    async fn is_drifted(&self, _: &NodeClaim) -> Result<Option<String>, GetError> {
        Ok(None)
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        Vec::new()
    }
}

/// An API server that answers nothing.
#[derive(Clone)]
struct Nobody;

impl tower::Service<Request<kube::client::Body>> for Nobody {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pending<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<kube::client::Body>) -> Self::Future {
        pending()
    }
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": START})
}

fn class() -> Value {
    json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
}

/// A pod of a workload, on the node or waiting.
fn pod(name: &str, node: Option<&str>, annotations: Value, version: u64) -> Object {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true});
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string(),
            "annotations": annotations, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "7"}}}]},
        "status": {"phase": if node.is_some() { "Running" } else { "Pending" }},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    Object::decode(Kind::Pod, &pod.to_string()).unwrap()
}

/// A drifted node with one pod, and nothing that answers.
fn cluster() -> (Context, Disruption) {
    let words = Arc::new(karpenter_core::labels::Vocabulary::kubernetes());
    let clock = Clock::starting_at(START.parse().unwrap());
    let client = kube::Client::new(Nobody, "default");
    let context = Context::new(client, clock, Arc::new(Shop), words, Settings::default());
    let pool = json!({
        "metadata": {"name": "main", "uid": "p", "resourceVersion": "1"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class()}},
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}},
        "status": {"conditions": [condition("Ready")]},
    });
    let labels = json!({"karpenter.sh/nodepool": "main", "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true", "node.kubernetes.io/instance-type": "large",
        "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand"});
    let room = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    let conditions = ["Launched", "Registered", "Initialized", "Drifted"].map(condition);
    let claim = json!({
        "metadata": {"name": "c", "uid": "c", "resourceVersion": "1", "labels": labels},
        "spec": {"requirements": [], "nodeClassRef": class()},
        "status": {"providerID": "shop:///a/i-1", "nodeName": "n", "capacity": room, "allocatable": room,
            "conditions": conditions},
    });
    let node = json!({
        "metadata": {"name": "n", "uid": "n", "resourceVersion": "1", "labels": labels},
        "spec": {"providerID": "shop:///a/i-1"},
        "status": {"capacity": room, "allocatable": room, "conditions": [condition("Ready")]},
    });
    let decode = |kind: Kind, value: &Value| vec![Object::decode(kind, &value.to_string()).unwrap()];
    for kind in context.index.kinds() {
        let objects = match kind {
            Kind::NodePool => decode(kind, &pool),
            Kind::NodeClaim => decode(kind, &claim),
            Kind::Node => decode(kind, &node),
            Kind::Pod => vec![pod_on_node(2, json!({}))],
            _ => Vec::new(),
        };
        context.index.list(kind, objects, Vec::new(), 10);
    }
    let disruption = Disruption { commands: Arc::default(), state: Mutex::default(), memory: Arc::default() };
    (context, disruption)
}

fn pod_on_node(version: u64, annotations: Value) -> Object {
    pod("web", Some("n"), annotations, version)
}

#[tokio::test(start_paused = true)]
async fn what_drift_found_holds_in_the_cluster_as_it_is_by_then() {
    for (what, left) in
        [("nothing", Some(1)), ("little", Some(1)), ("a pod", Some(0)), ("a promise", Some(0)), ("silence", None)]
    {
        let (context, disruption) = cluster();
        disruption.commands.pause.look(&context).await;
        let picture = Arc::new(Picture::take(&context, &disruption.commands).await.unwrap());
        let found = karpenter_disruption::propose(&picture.snapshot(), &disruption.policy(&context)).commands;
        assert_eq!(found.len(), 1, "the node is drifted");
        // A search takes its time, and the watches go on.
        match what {
            "little" => _ = context.index.apply(pod("other", None, json!({}), 20)),
            "a pod" => _ = context.index.apply(pod_on_node(20, json!({"karpenter.sh/do-not-disrupt": "true"}))),
            "a promise" => {
                let until = later(context.clock.now(), Duration::from_mins(1));
                context.index.nominate(picture.id(0).unwrap(), until);
                tokio::time::advance(Duration::from_secs(6)).await;
            }
            "silence" => {
                context.freshness.watch(Kind::Pod);
                tokio::time::advance(Duration::from_secs(120)).await;
            }
            _ => {}
        }
        let still = disruption.still_drifted(&context, &picture, found).await;
        assert_eq!(still.map(|(_, commands)| commands.len()), left, "{what} changed");
    }
}
