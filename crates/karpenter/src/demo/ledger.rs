//! What became of every pod: when it was first seen waiting, and when it ran.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

/// Shared by whoever watches and whoever asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    pods: BTreeMap<String, Entry>,
    /// From waiting to running, of pods that ran.
    waits: Vec<Duration>,
    instances: BTreeSet<String>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    since: Instant,
    ran: bool,
    daemon: bool,
    terminating: bool,
    gone: bool,
}

impl Ledger {
    /// Watches pods for as long as it is polled.
    pub(crate) async fn keep(self, client: Client) {
        let api = Api::<Pod>::all(client);
        loop {
            if let Err(error) = self.follow(&api).await {
                tracing::debug!(%error, "the watch on pods broke off");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// One list and one watch; ends when the watch does.
    async fn follow(&self, api: &Api<Pod>) -> kube::Result<()> {
        let listed = api.list(&ListParams::default()).await?;
        let present: BTreeSet<String> = listed.items.iter().filter_map(ResourceExt::uid).collect();
        for entry in self.books().pods.iter_mut().filter(|(uid, _)| !present.contains(*uid)) {
            entry.1.gone = true;
        }
        listed.items.iter().for_each(|pod| self.see(pod));
        let version = listed.metadata.resource_version.unwrap_or_default();
        let mut changes = api.watch(&WatchParams::default(), &version).await?.boxed();
        while let Some(change) = changes.try_next().await? {
            match change {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => self.see(&pod),
                WatchEvent::Deleted(pod) => self.miss(&pod),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn see(&self, pod: &Pod) {
        let Some(uid) = pod.uid() else { return };
        let now = Instant::now();
        let mut books = self.books();
        let entry = books.pods.entry(uid).or_insert_with(|| Entry {
            name: format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()),
            since: now,
            ran: false,
            daemon: pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet"),
            terminating: false,
            gone: false,
        });
        entry.terminating = pod.metadata.deletion_timestamp.is_some();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if !entry.ran && matches!(phase, Some("Running" | "Succeeded")) {
            entry.ran = true;
            let (waited, daemon) = (now - entry.since, entry.daemon);
            if !daemon {
                books.waits.push(waited);
            }
        }
    }

    fn miss(&self, pod: &Pod) {
        if let Some(entry) = pod.uid().and_then(|uid| self.books().pods.get_mut(&uid).map(|entry| entry.gone = true)) {
            entry
        }
    }

    /// Pods that should run and have not yet; daemons, which come with a node, do not count.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let books = self.books();
        let waits = |entry: &&Entry| !entry.ran && !entry.daemon && !entry.gone && !entry.terminating;
        books.pods.values().filter(waits).map(|entry| entry.name.clone()).collect()
    }

    /// Pods of workloads that exist, those on their way out included.
    pub(crate) fn present(&self) -> usize {
        self.books().pods.values().filter(|entry| !entry.daemon && !entry.gone).count()
    }

    /// Pods that ran at all.
    pub(crate) fn run(&self) -> usize {
        self.books().waits.len()
    }

    /// From waiting to running, sorted.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        let mut waits = self.books().waits.clone();
        waits.sort_unstable();
        waits
    }

    pub(crate) fn bought(&self, instances: impl IntoIterator<Item = String>) {
        self.books().instances.extend(instances);
    }

    pub(crate) fn instances(&self) -> usize {
        self.books().instances.len()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The smallest value that `share` of all are not above; sorted input.
pub(crate) fn percentile(sorted: &[Duration], share: f64) -> Option<Duration> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, phase: &str, owner: &str) -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": uid, "namespace": "ns", "uid": uid,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o"}]},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn waits_are_counted_from_first_sight_to_running_once() {
        let ledger = Ledger::default();
        ledger.see(&pod("a", "Pending", "ReplicaSet"));
        ledger.see(&pod("b", "Pending", "ReplicaSet"));
        ledger.see(&pod("d", "Pending", "DaemonSet"));
        assert_eq!(ledger.waiting(), ["ns/a", "ns/b"]);
        tokio::time::advance(Duration::from_secs(30)).await;
        ledger.see(&pod("a", "Running", "ReplicaSet"));
        ledger.see(&pod("d", "Running", "DaemonSet"));
        tokio::time::advance(Duration::from_secs(30)).await;
        ledger.see(&pod("a", "Running", "ReplicaSet"));
        assert_eq!((ledger.run(), ledger.waits()), (1, vec![Duration::from_secs(30)]));
        ledger.miss(&pod("b", "Pending", "ReplicaSet"));
        assert_eq!((ledger.waiting().len(), ledger.present()), (0, 1));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let all: Vec<Duration> = (1..=10).map(Duration::from_secs).collect();
        for (share, want) in [(0.5, 5), (0.99, 10), (0.1, 1)] {
            assert_eq!(percentile(&all, share), Some(Duration::from_secs(want)));
        }
        assert_eq!(percentile(&[], 0.5), None);
    }
}
