//! What became of every pod: since when it waits, and how long it waited.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use kube::Client;
use kube::core::WatchEvent;
use serde::Deserialize;
use tokio::time::Instant;

const PODS: &str = "/api/v1/pods";
const PAUSE: Duration = Duration::from_millis(200);

/// Shared by whoever watches and whoever asks.
#[derive(Clone, Debug, Default)]
pub struct Pods(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    /// By uid.
    alive: BTreeMap<String, Entry>,
    ran: u64,
    /// From the first sight to running, of pods that ran.
    waits: Vec<Duration>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    since: Instant,
    ran: bool,
    leaving: bool,
    node: Option<String>,
    failed: bool,
}

/// What of a pod is looked at; a whole one is decoded ten times as slowly.
#[derive(Debug, Clone, Deserialize)]
struct Seen {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Status {
    #[serde(default)]
    phase: String,
}

#[derive(Debug, Deserialize)]
struct List {
    metadata: ListMetadata,
    #[serde(default)]
    items: Vec<Seen>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
}

impl Pods {
    /// Watches pods for as long as it is polled.
    pub async fn keep(self, client: Client) {
        loop {
            if let Err(error) = self.follow(&client).await {
                tracing::debug!(%error, "the watch on pods broke off");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// One list and one watch; ends when the watch does.
    async fn follow(&self, client: &Client) -> kube::Result<()> {
        let get = |path: &str| http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError);
        let list: List = client.request(get(PODS)?).await?;
        let present: BTreeSet<&str> = list.items.iter().map(|pod| pod.metadata.uid.as_str()).collect();
        self.books().alive.retain(|uid, _| present.contains(uid.as_str()));
        list.items.iter().for_each(|pod| self.see(pod));
        let path = format!("{PODS}?watch=true&resourceVersion={}", list.metadata.resource_version);
        let mut changes = client.request_events::<Seen>(get(&path)?).await?.boxed();
        while let Some(change) = changes.try_next().await? {
            match change {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => self.see(&pod),
                WatchEvent::Deleted(pod) => {
                    self.books().alive.remove(&pod.metadata.uid);
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn see(&self, pod: &Seen) {
        let now = Instant::now();
        let mut books = self.books();
        let Books { alive, ran, waits } = &mut *books;
        let entry = alive.entry(pod.metadata.uid.clone()).or_insert_with(|| Entry {
            name: format!("{}/{}", pod.metadata.namespace, pod.metadata.name),
            since: now,
            ran: false,
            leaving: false,
            node: None,
            failed: false,
        });
        entry.leaving = pod.metadata.deletion_timestamp.is_some();
        entry.node.clone_from(&pod.spec.node_name);
        entry.failed = pod.status.phase == "Failed";
        if pod.status.phase == "Running" && !entry.ran {
            entry.ran = true;
            *ran += 1;
            waits.push(now.duration_since(entry.since));
        }
    }

    /// Pods that have waited longer than this to run, by name. One that its kubelet refused waits no more: its workload makes
    /// another, which is seen for itself.
    pub fn stuck(&self, longer_than: Duration) -> Vec<String> {
        let now = Instant::now();
        let books = self.books();
        let stuck = books.alive.values().filter(|pod| !pod.ran && !pod.leaving && !pod.failed);
        let stuck = stuck.filter(|pod| now.duration_since(pod.since) > longer_than);
        let told = |pod: &Entry| {
            let minutes = now.duration_since(pod.since).as_secs() / 60;
            let place = pod.node.as_deref().unwrap_or("no node");
            format!("pod {} waits for {minutes} minutes, on {place}", pod.name)
        };
        stuck.map(told).collect()
    }

    /// Pods whose node is none of these, by name and node.
    pub fn lost(&self, nodes: &BTreeSet<String>) -> BTreeSet<String> {
        let books = self.books();
        let placed = books.alive.values().filter_map(|pod| Some((pod, pod.node.as_ref()?)));
        placed.filter(|(_, node)| !nodes.contains(*node)).map(|(pod, node)| format!("{} on {node}", pod.name)).collect()
    }

    pub fn alive(&self) -> usize {
        self.books().alive.len()
    }

    pub fn ran(&self) -> u64 {
        self.books().ran
    }

    /// From first sight to running, shortest first.
    pub fn waits(&self) -> Vec<Duration> {
        let mut waits = self.books().waits.clone();
        waits.sort_unstable();
        waits
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
