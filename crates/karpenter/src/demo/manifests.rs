//! What is applied: the demo's own manifests, or the user's.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use karpenter_manifests::{RawObject, Source, raw_objects, read_sources};
use karpenter_sim::world::send;
use kube::Client;
use serde_json::{Value, json};

use crate::bad_input::BadInput;

const POOL: &str = include_str!("manifests/pool.yaml");
const WORKLOAD: &str = include_str!("manifests/workload.yaml");
const FIELD_MANAGER: &str = "kubectl";

/// Objects in the order in which they are applied.
pub(crate) struct Manifests {
    objects: Vec<RawObject>,
}

/// Where nodes come from, and what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Supply,
    Workload,
}

/// Something that can be made larger and smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalable {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) replicas: i64,
}

impl Manifests {
    /// The user's files; what they leave out of pool and node class comes from us.
    pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let own = |name: &str, text: &str| Source { name: Arc::from(name), bytes: text.as_bytes().to_vec() };
        let pool = parsed(&[own("pool.yaml", POOL)])?;
        let mut objects = if paths.is_empty() {
            parsed(&[own("workload.yaml", WORKLOAD)])?
        } else {
            parsed(&read_sources(paths, &mut std::io::stdin().lock()).map_err(BadInput::from_all)?)?
        };
        for kind in ["EC2NodeClass", "NodePool"] {
            if !objects.iter().any(|object| object.object["kind"] == kind) {
                objects.extend(pool.iter().filter(|object| object.object["kind"] == kind).cloned());
            }
        }
        objects.sort_by_key(|object| rank(&object.object));
        Ok(Self { objects })
    }

    /// Applies one part, as `kubectl apply --server-side` does; answers what can be scaled.
    pub(crate) async fn apply(&self, client: &Client, part: Part) -> anyhow::Result<Vec<Scalable>> {
        let mut scalable = Vec::new();
        let is_supply =
            |object: &&RawObject| matches!(object.object["kind"].as_str(), Some("EC2NodeClass" | "NodePool"));
        for object in self.objects.iter().filter(|object| is_supply(object) == (part == Part::Supply)) {
            let refused = || BadInput(vec![format!("{}: {}", object.place, object.title)]);
            let path = self.path(client, &object.object).await.with_context(|| refused().to_string())?;
            let query = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
            let applied = send(client, "PATCH", &query, "application/apply-patch+yaml", &object.object).await;
            let applied =
                applied.map_err(|error| BadInput(vec![format!("{}: {}: {error}", object.place, object.title)]))?;
            let kind = applied["kind"].as_str().unwrap_or_default();
            if matches!(kind, "Deployment" | "StatefulSet" | "ReplicaSet") {
                let name = applied["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let replicas = applied["spec"]["replicas"].as_i64().unwrap_or(1);
                scalable.push(Scalable { name, path, replicas });
            }
        }
        Ok(scalable)
    }

    /// Pods and Jobs of their own: nobody can scale them, so in the end they are deleted.
    pub(crate) async fn delete_the_rest(&self, client: &Client) -> anyhow::Result<()> {
        for object in &self.objects {
            if matches!(object.object["kind"].as_str(), Some("Pod" | "Job" | "CronJob")) {
                let path = self.path(client, &object.object).await?;
                let body = json!({"propagationPolicy": "Background"});
                match send(client, "DELETE", &path, "application/json", &body).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    other => {
                        other.with_context(|| object.title.clone())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Where the object lives.
    async fn path(&self, client: &Client, object: &Value) -> anyhow::Result<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let name = text(&object["metadata"]["name"]);
        anyhow::ensure!(!version.is_empty() && !kind.is_empty(), "apiVersion and kind are required");
        anyhow::ensure!(!name.is_empty(), "metadata.name is required");
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let served = send(client, "GET", &root, "application/json", &Value::Null).await;
        let served = served.map_err(|_| anyhow::anyhow!("the cluster does not know {version}"))?;
        let mut resources = served["resources"].as_array().into_iter().flatten();
        let found = resources.find(|one| one["kind"] == kind.as_str() && !text(&one["name"]).contains('/'));
        let found = found.with_context(|| format!("the cluster does not know {kind} in {version}"))?;
        let plural = text(&found["name"]);
        if found["namespaced"] == true {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
            Ok(format!("{root}/namespaces/{namespace}/{plural}/{name}"))
        } else {
            Ok(format!("{root}/{plural}/{name}"))
        }
    }
}

impl Scalable {
    pub(crate) async fn scale(&self, client: &Client, replicas: i64) -> anyhow::Result<()> {
        let body = json!({"spec": {"replicas": replicas}});
        let path = format!("{}/scale", self.path);
        let scaled = send(client, "PATCH", &path, "application/merge-patch+json", &body).await;
        scaled.map(|_| ()).with_context(|| format!("cannot scale {}", self.name))
    }
}

fn parsed(sources: &[Source]) -> anyhow::Result<Vec<RawObject>> {
    Ok(raw_objects(sources).map_err(BadInput::from_all)?)
}

/// What others refer to comes first.
fn rank(object: &Value) -> usize {
    let order =
        ["Namespace", "PriorityClass", "StorageClass", "EC2NodeClass", "NodePool", "ServiceAccount", "ConfigMap"];
    let kind = object["kind"].as_str().unwrap_or_default();
    order.iter().position(|first| *first == kind).unwrap_or(order.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_manifests_are_complete_and_pools_come_before_pods() {
        let kinds = |manifests: &Manifests| -> Vec<String> {
            manifests.objects.iter().map(|object| object.object["kind"].as_str().unwrap().to_owned()).collect()
        };
        let own = Manifests::read(&[]).unwrap();
        let want = ["Namespace", "EC2NodeClass", "NodePool", "DaemonSet", "Deployment", "Deployment", "Deployment"];
        assert_eq!(kinds(&own), want);
    }
}
