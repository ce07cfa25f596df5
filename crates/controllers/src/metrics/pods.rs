//! How long pods waited: for a decision, for a node, until they ran.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use karpenter_core::Pod;
use karpenter_core::pod::Phase;
use karpenter_index::{Key, TrackedPod};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{DURATIONS, Summary};

/// What is remembered of a pod until it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// When it was first seen to need a node.
    pub seen: Option<Timestamp>,
    /// When it was first decided on, either way.
    pub decided: Option<Timestamp>,
    /// When a place was first found for it.
    pub placed: Option<Timestamp>,
    /// The same, of a place in a pool whose nodes are known to come up.
    pub placed_safely: Option<Timestamp>,
    pub bound: bool,
    pub started: bool,
}

/// What a plan has for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    None,
    /// On a node of a pool, or in one.
    Found {
        /// The pool's last nodes registered.
        healthy: bool,
    },
}

#[derive(Debug)]
pub struct Pods {
    decision: Histogram,
    bound: Histogram,
    planned_bound: Histogram,
    planned_startup: Histogram,
    pub startup: Summary,
    waits: Mutex<BTreeMap<Key, Wait>>,
}

impl Pods {
    /// In a registry whose prefix is `karpenter`.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let durations = || Histogram::new(DURATIONS);
        let pods = Self {
            decision: durations(),
            bound: durations(),
            planned_bound: durations(),
            planned_startup: durations(),
            startup: Summary::plain("karpenter_pods_startup_duration_seconds"),
            waits: Mutex::default(),
        };
        for (name, help, histogram) in [
            ("pods_scheduling_decision_duration_seconds", "From first seen to decided", &pods.decision),
            ("pods_bound_duration_seconds", "From creation to bound", &pods.bound),
            ("pods_provisioning_bound_duration_seconds", "From a place found to bound", &pods.planned_bound),
            ("pods_provisioning_startup_duration_seconds", "From a place found to running", &pods.planned_startup),
        ] {
            registry.register(name, help, histogram.clone());
        }
        pods
    }

    /// Pods that do not run yet, by name.
    pub fn waits(&self) -> BTreeMap<Key, Wait> {
        self.lock().clone()
    }

    /// It needs a node.
    pub fn acknowledged(&self, key: &Key, now: Timestamp) {
        self.lock().entry(key.clone()).or_default().seen.get_or_insert(now);
    }

    /// A plan has a place for it, or none.
    pub fn decided(&self, key: &Key, place: Place, now: Timestamp) {
        let mut waits = self.lock();
        let wait = waits.entry(key.clone()).or_default();
        if let Some(seen) = wait.seen.filter(|_| wait.decided.is_none()) {
            self.decision.observe(seconds(seen, now));
        }
        wait.decided.get_or_insert(now);
        let (placed, safely) = match place {
            Place::None => (false, false),
            Place::Found { healthy } => (true, healthy),
        };
        wait.placed = placed.then(|| wait.placed.unwrap_or(now));
        wait.placed_safely = safely.then(|| wait.placed_safely.unwrap_or(now));
    }

    /// What is seen of a pod.
    pub fn changed(&self, key: &Key, new: Option<&TrackedPod>, now: Timestamp) {
        let mut waits = self.lock();
        let Some(pod) = new.map(|tracked| &tracked.pod) else {
            waits.remove(key);
            return;
        };
        if pod.phase == Phase::Pending {
            waits.entry(key.clone()).or_default();
        }
        let Some(wait) = waits.get_mut(key) else { return };
        if pod.node.is_some() && !wait.bound {
            wait.bound = true;
            self.bound.observe(seconds(pod.created, now));
            if let Some(placed) = wait.placed {
                self.planned_bound.observe(seconds(placed, now));
            }
        }
        if runs(pod) {
            self.startup.observe("", seconds(pod.created, now));
            if let Some(placed) = wait.placed {
                self.planned_startup.observe(seconds(placed, now));
            }
            waits.remove(key);
        } else if matches!(pod.phase, Phase::Succeeded | Phase::Failed) {
            waits.remove(key);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn runs(pod: &Pod) -> bool {
    pod.phase == Phase::Running && !pod.unready
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pods() -> (Pods, Registry) {
        let mut registry = Registry::with_prefix("karpenter");
        (Pods::register(&mut registry), registry)
    }

    fn value(registry: &Registry, name: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("karpenter_{name} "))).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn tracked(phase: &str, node: Option<&str>) -> TrackedPod {
        let object = serde_json::json!({"metadata": {"name": "web", "namespace": "default", "uid": "u",
                "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"containers": [], "nodeName": node}, "status": {"phase": phase}});
        let object = serde_json::from_value(object).unwrap();
        karpenter_index::reduce::tracked_pod(&object, &mut karpenter_index::reduce::Interner::default()).unwrap()
    }

    const SAFE: Place = Place::Found { healthy: true };
    const UNSAFE: Place = Place::Found { healthy: false };

    #[test]
    fn a_pod_for_which_no_place_is_left_has_waited_from_the_next_one_on() {
        // covers: STATE-31, SCH-ERR-18
        let (pods, registry) = pods();
        let key = Key::new("default", "web");
        pods.acknowledged(&key, at(1));
        pods.acknowledged(&key, at(2));
        pods.decided(&key, UNSAFE, at(3));
        assert_eq!(pods.waits()[&key].placed, Some(at(3)));
        assert_eq!(pods.waits()[&key].placed_safely, None, "nobody knows whether that pool's nodes come up");
        pods.decided(&key, Place::None, at(4));
        assert_eq!(pods.waits()[&key].placed, None, "it failed since");
        pods.decided(&key, SAFE, at(10));
        pods.decided(&key, SAFE, at(11));
        let wait = pods.waits()[&key];
        assert_eq!((wait.placed, wait.placed_safely), (Some(at(10)), Some(at(10))));
        assert_eq!((wait.seen, wait.decided), (Some(at(1)), Some(at(3))), "the first of each");
        pods.decided(&key, UNSAFE, at(12));
        let wait = pods.waits()[&key];
        assert_eq!((wait.placed, wait.placed_safely), (Some(at(10)), None));
        assert_eq!(value(&registry, "pods_scheduling_decision_duration_seconds_sum"), 2.0, "the first, and only once");
        pods.changed(&key, Some(&tracked("Pending", Some("node"))), at(14));
        assert_eq!(value(&registry, "pods_provisioning_bound_duration_seconds_sum"), 4.0);
        pods.changed(&key, None, at(15));
        assert!(pods.waits().is_empty());
    }

    #[test]
    fn what_was_not_remembered_is_not_measured() {
        // covers: CP-I6
        let (pods, registry) = pods();
        let key = Key::new("default", "web");
        pods.changed(&key, Some(&tracked("Running", Some("node"))), at(50));
        assert_eq!(value(&registry, "pods_bound_duration_seconds_count"), 0.0, "it ran before we started");
        pods.changed(&key, None, at(51));
        pods.changed(&key, Some(&tracked("Pending", None)), at(60));
        pods.changed(&key, Some(&tracked("Pending", Some("node"))), at(61));
        pods.changed(&key, Some(&tracked("Running", Some("node"))), at(62));
        for name in
            ["pods_provisioning_bound_duration_seconds_count", "pods_provisioning_startup_duration_seconds_count"]
        {
            assert_eq!(value(&registry, name), 0.0, "{name}: its plan was made by the process before");
        }
        assert_eq!(value(&registry, "pods_scheduling_decision_duration_seconds_count"), 0.0);
        assert_eq!(value(&registry, "pods_bound_duration_seconds_count"), 1.0);
    }
}
