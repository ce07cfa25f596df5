//! Whoever looks on past the proxy: which pod was where and when, and when each instance ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use karpenter_controllers::Clock;
use karpenter_sim::world::send;
use kube::Client;
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
/// Whoever looks on hears a little late. A pod whose instance was terminated under it stays for longer than this: nobody
/// is left who could end it.
const HEARSAY: Duration = Duration::from_secs(4);
/// How often nodes are looked at: they live for longer.
const NODES_EVERY: Duration = Duration::from_secs(1);

/// Looks on until it is dropped.
pub(crate) struct Witness {
    client: Client,
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Seen {
    /// By uid.
    pods: BTreeMap<String, PodLife>,
    /// Of nodes, by the id of their instance.
    names: BTreeMap<String, String>,
}

#[derive(Debug)]
struct PodLife {
    name: String,
    node: String,
    bound: Timestamp,
    /// It has ended, or is gone.
    over: Option<Timestamp>,
}

/// An instance of the simulated region, as it is kept in its ConfigMaps.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: String,
    pub(crate) ended: Option<Timestamp>,
}

impl Witness {
    pub(crate) fn start(client: &Client) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(watch_pods(client.clone(), seen.clone()));
        tasks.spawn(look_at_nodes(client.clone(), seen.clone()));
        Self { client: client.clone(), seen, _tasks: tasks }
    }

    pub(crate) async fn instances(&self) -> Vec<Instance> {
        let Ok(maps) = send(&self.client, "GET", MAPS, "application/json", &Value::Null).await else {
            return Vec::new();
        };
        let pages = maps["items"].as_array().unwrap().iter().filter_map(|map| map["data"]["instances"].as_str());
        let pages: Vec<Value> = pages.map(|page| serde_json::from_str(page).unwrap()).collect();
        let saved = pages.iter().flat_map(|page| page["instances"].as_array().unwrap());
        let instance = |saved: &Value| Instance {
            id: saved["id"].as_str().unwrap().to_owned(),
            ended: saved["endedAt"].as_str().map(|time| time.parse().unwrap()),
        };
        saved.map(instance).collect()
    }

    /// Instances that were terminated with pods on them.
    pub(crate) async fn terminated_under_pods(&self) -> Vec<String> {
        let instances = self.instances().await;
        let seen = self.seen.lock().unwrap();
        let mut found = Vec::new();
        for (instance, ended) in instances.iter().filter_map(|one| Some((one, one.ended?))) {
            let Some(node) = seen.names.get(&instance.id) else { continue };
            for pod in seen.pods.values().filter(|pod| pod.node == *node && pod.bound < ended) {
                let stayed = pod.over.is_none_or(|over| over.duration_since(ended) > HEARSAY.try_into().unwrap());
                if stayed {
                    found.push(format!("{} ended at {ended} with pod {} on it", instance.id, pod.name));
                }
            }
        }
        found
    }
}

async fn look_at_nodes(client: Client, seen: Arc<Mutex<Seen>>) {
    loop {
        if let Ok(nodes) = send(&client, "GET", NODES, "application/json", &Value::Null).await {
            let mut seen = seen.lock().unwrap();
            for node in nodes["items"].as_array().unwrap() {
                let id = node["spec"]["providerID"].as_str().and_then(|id| id.rsplit('/').next());
                if let (Some(id), Some(name)) = (id, node["metadata"]["name"].as_str()) {
                    seen.names.insert(id.to_owned(), name.to_owned());
                }
            }
        }
        sleep(NODES_EVERY).await;
    }
}

async fn watch_pods(client: Client, seen: Arc<Mutex<Seen>>) {
    loop {
        let _ = follow_pods(&client, &seen).await;
        sleep(Duration::from_millis(100)).await;
    }
}

/// One list and one watch.
async fn follow_pods(client: &Client, seen: &Mutex<Seen>) -> kube::Result<()> {
    let clock = Clock::system();
    let list = send(client, "GET", PODS, "application/json", &Value::Null).await?;
    let present = list["items"].as_array().unwrap();
    let uids: Vec<&str> = present.iter().filter_map(|pod| pod["metadata"]["uid"].as_str()).collect();
    for (uid, life) in &mut seen.lock().unwrap().pods {
        if !uids.contains(&uid.as_str()) {
            life.over.get_or_insert(clock.now());
        }
    }
    present.iter().for_each(|pod| see(pod, false, seen, &clock));
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let path = format!("{PODS}?watch=true&resourceVersion={version}");
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let mut events = client.request_events::<Value>(request).await?.boxed();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => see(&pod, false, seen, &clock),
            WatchEvent::Deleted(pod) => see(&pod, true, seen, &clock),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
        }
    }
    Ok(())
}

fn see(pod: &Value, gone: bool, seen: &Mutex<Seen>, clock: &Clock) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let node = text(&pod["spec"]["nodeName"]);
    if node.is_empty() {
        return;
    }
    let now = clock.now();
    let mut seen = seen.lock().unwrap();
    let fresh = || PodLife { name: text(&pod["metadata"]["name"]), node, bound: now, over: None };
    let life = seen.pods.entry(text(&pod["metadata"]["uid"])).or_insert_with(fresh);
    // podgc fails the pods of machines that are gone: nobody has ended those.
    let collected = pod["status"]["conditions"].as_array().into_iter().flatten();
    let collected = collected.into_iter().any(|condition| condition["reason"] == "DeletionByPodGC");
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) && !collected;
    if (ended || gone) && !(gone && collected) {
        life.over.get_or_insert(now);
    }
}
