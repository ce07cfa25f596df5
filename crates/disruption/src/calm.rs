//! What moving pods costs beyond their eviction: the time they take to start, what they have suffered already, work that
//! is lost, and rollouts that are under way.
//!
//! It has a say where savings are weighed against disruption, under `Balanced` and with `--consolidation-threshold`, and
//! nowhere else. Each part adds so many ordinary pods to the one that is moved; an ordinary pod adds nothing, and is
//! weighed as the reference weighs it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::{Pod, PodShape, World};
use rustc_hash::FxHashMap;

use crate::candidate::Candidate;
use crate::cost;

/// A pod of a Job loses what it has done so far: as much trouble as ten ordinary pods.
const JOB: f64 = 9.0;
/// A pod of a workload that is being rolled out is missed while others are missing anyway.
const ROLLOUT: f64 = 1.0;
/// For each minute a pod took to become ready: so long its work is left to others.
const MINUTE: f64 = 1.0;
/// A pod that was not ready for long may have been so for another reason than its start.
const MOST_MINUTES: f64 = 5.0;
/// For each time its containers were started again: whoever uses it has been interrupted before.
const RESTART: f64 = 0.2;
/// Crash loops restart without end.
const MOST_RESTARTS: u32 = 10;

const TEMPLATE_HASH: &str = "pod-template-hash";
const REVISION_HASH: &str = "controller-revision-hash";

/// Rollouts that are under way in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calm {
    rolling: BTreeSet<Workload>,
}

/// Namespace, kind and name of what owns pods of several versions.
type Workload = (Arc<str>, Arc<str>, String);

impl Calm {
    /// A workload is rolled out while it has active pods of more than one version.
    pub fn of(world: &World) -> Self {
        let mut versions: BTreeMap<Workload, BTreeSet<&str>> = BTreeMap::new();
        let mut seen: FxHashMap<(*const PodShape, &str), ()> = FxHashMap::default();
        for pod in world.pods.iter().filter(|pod| pod.is_active()) {
            let owner = pod.owners.iter().find(|owner| owner.controller).map_or("", |owner| &*owner.uid);
            if seen.insert((Arc::as_ptr(&pod.shape), owner), ()).is_some() {
                continue; // another replica
            }
            if let Some((workload, version)) = version(pod) {
                versions.entry(workload).or_default().insert(version);
            }
        }
        let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
        Self { rolling: several.map(|(workload, _)| workload).collect() }
    }

    /// How many ordinary pods moving this one costs on top of itself.
    pub fn weight(&self, pod: &Pod) -> f64 {
        let job = if pod.owned_by("batch/v1", "Job") { JOB } else { 0.0 };
        let rolling = version(pod).is_some_and(|(workload, _)| self.rolling.contains(&workload));
        let minutes = pod.ready_after.map_or(0.0, |took| took.as_secs_f64() / 60.0).min(MOST_MINUTES);
        let restarts = f64::from(pod.restarts.min(MOST_RESTARTS));
        job + if rolling { ROLLOUT } else { 0.0 } + minutes.floor() * MINUTE + restarts * RESTART
    }

    /// What a candidate's disruption costs on top of [`Candidate::cost`].
    pub fn extra(&self, candidate: &Candidate, world: &World) -> f64 {
        let pods = candidate.pods.iter().map(|pod| &world.pods[*pod]);
        pods.map(|pod| cost::eviction(pod).max(0.0) * self.weight(pod)).sum()
    }
}

/// What a pod is a version of. A Deployment's ReplicaSets are told apart by the hash that ends their names; other
/// controllers put the version into a label of their pods.
fn version(pod: &Pod) -> Option<(Workload, &str)> {
    let owner = pod.owners.iter().find(|owner| owner.controller)?;
    let labels = &pod.shape.labels;
    let (name, version) = match (labels.get(TEMPLATE_HASH), labels.get(REVISION_HASH)) {
        (Some(hash), _) => (owner.name.strip_suffix(hash.as_str())?.strip_suffix('-')?, hash),
        (None, Some(hash)) => (&*owner.name, hash),
        (None, None) => return None,
    };
    Some(((pod.namespace.clone(), owner.kind.clone(), name.to_owned()), version))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karpenter_testkit::{PodBuilder, pod, world};

    use super::*;

    fn of_set(name: &str, set: &str, hash: &str) -> PodBuilder {
        pod(name).label(TEMPLATE_HASH, hash).owned_by("apps/v1", "ReplicaSet", set).on("n")
    }

    #[test]
    fn each_part_of_the_trouble_counts() {
        let calm = Calm::default();
        let seconds = |seconds| Duration::from_secs(seconds);
        for (pod, want) in [
            (pod("ordinary"), 0.0),
            (pod("quick").ready_after(seconds(59)), 0.0),
            (pod("slow").ready_after(seconds(150)), 2.0),
            (pod("flapping").ready_after(seconds(86_400)), 5.0),
            (pod("restarted").restarts(3), 0.6),
            (pod("crashing").restarts(5_000), 2.0),
            (pod("job").owned_by("batch/v1", "Job", "j"), 9.0),
            (pod("all").owned_by("batch/v1", "Job", "j").restarts(5).ready_after(seconds(60)), 11.0),
        ] {
            let built = pod.build();
            assert!((calm.weight(&built) - want).abs() < 1e-9, "{}: {}", built.name, calm.weight(&built));
        }
    }

    #[test]
    fn a_workload_with_pods_of_two_versions_is_being_rolled_out() {
        let stateful =
            |name: &str, hash: &str| pod(name).label(REVISION_HASH, hash).owned_by("apps/v1", "StatefulSet", "db");
        let built = world()
            .pod(of_set("web-1", "web-aaa", "aaa"))
            .pod(of_set("web-2", "web-bbb", "bbb"))
            .pod(of_set("api-1", "api-aaa", "aaa"))
            .pod(of_set("api-2", "api-aaa", "aaa"))
            .pod(of_set("old-1", "old-aaa", "aaa").terminating())
            .pod(of_set("old-2", "old-bbb", "bbb"))
            .pod(stateful("db-0", "one"))
            .pod(stateful("db-1", "two"))
            .pod(pod("bare"))
            .build();
        let calm = Calm::of(&built);
        let rolling: Vec<&str> = built.pods.iter().filter(|pod| calm.weight(pod) > 0.0).map(|pod| &*pod.name).collect();
        assert_eq!(rolling, ["web-1", "web-2", "db-0", "db-1"], "what is on its way out is no version any more");
    }
}
