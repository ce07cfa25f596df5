//! What a pod asks for and what a node has, counted as kube-scheduler counts it.

use crate::quantity::{Nanos, nanos};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Resource amounts in the scheduler's units: thousandths of a CPU, bytes, counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    pub pods: i64,
    /// Extended resources, huge pages and attachable volumes, by name. Few pods have any, so a short list beats a map.
    pub scalars: Vec<(String, i64)>,
}

impl Resources {
    pub fn from_list(list: &BTreeMap<String, Quantity>) -> Self {
        Self::from_nanos(&list.iter().map(|(name, amount)| (name.clone(), nanos(amount))).collect())
    }

    fn from_nanos(list: &BTreeMap<String, Nanos>) -> Self {
        let mut out = Self::default();
        for (name, amount) in list {
            match name.as_str() {
                "cpu" => out.milli_cpu = amount.milli(),
                "memory" => out.memory = amount.value(),
                "ephemeral-storage" => out.ephemeral_storage = amount.value(),
                "pods" => out.pods = amount.value(),
                _ if is_scalar(name) => out.scalars.push((name.clone(), amount.value())),
                _ => {}
            }
        }
        out
    }

    pub fn scalar(&self, name: &str) -> i64 {
        self.scalars.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v)
    }

    pub fn add(&mut self, other: &Self) {
        self.combine(other, 1);
    }

    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, -1);
    }

    fn combine(&mut self, other: &Self, sign: i64) {
        self.milli_cpu += sign * other.milli_cpu;
        self.memory += sign * other.memory;
        self.ephemeral_storage += sign * other.ephemeral_storage;
        for (name, amount) in &other.scalars {
            match self.scalars.iter_mut().find(|(n, _)| n == name) {
                Some((_, have)) => *have += sign * amount,
                None => self.scalars.push((name.clone(), sign * amount)),
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.scalars.is_empty()
    }
}

/// The scheduler tracks every name with a domain, huge pages and volume limits, and ignores the rest.
fn is_scalar(name: &str) -> bool {
    name.contains('/') || name.starts_with("hugepages-") || name.starts_with("attachable-volumes-")
}

type List = BTreeMap<String, Nanos>;

/// For scoring, a container that asks for nothing counts as a small one, so that such pods spread as well.
const DEFAULT_MILLI_CPU: i128 = 100;
const DEFAULT_MEMORY: i128 = 200 * 1024 * 1024;

/// What the pod needs at its widest: containers and sidecars together, or an init container beside the sidecars started
/// before it; then pod-level requests, then overhead.
pub fn pod_requests(pod: &Pod) -> Resources {
    Resources::from_nanos(&requests(pod, false))
}

/// The same with the scorer's defaults for containers without requests: milli-CPU and bytes.
pub fn non_zero_requests(pod: &Pod) -> (i64, i64) {
    let list = requests(pod, true);
    let cpu = list.get("cpu").map_or(0, |q| q.milli());
    (cpu, list.get("memory").map_or(0, |q| q.value()))
}

fn requests(pod: &Pod, defaults: bool) -> List {
    let Some(spec) = &pod.spec else { return List::new() };
    let statuses = Statuses::of(pod);
    let of = |container: &Container| {
        let mut list = statuses.effective(container);
        if defaults {
            list.entry("cpu".into()).or_insert(Nanos(DEFAULT_MILLI_CPU * 1_000_000));
            list.entry("memory".into()).or_insert(Nanos(DEFAULT_MEMORY * 1_000_000_000));
        }
        list
    };
    let mut total = List::new();
    for container in &spec.containers {
        add(&mut total, &of(container));
    }
    let mut sidecars = List::new();
    let mut widest_init = List::new();
    for container in spec.init_containers.iter().flatten() {
        let list = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut total, &list);
            add(&mut sidecars, &list);
            maximum(&mut widest_init, &sidecars);
        } else {
            let mut at_once = list;
            add(&mut at_once, &sidecars);
            maximum(&mut widest_init, &at_once);
        }
    }
    maximum(&mut total, &widest_init);
    for (name, amount) in spec.resources.iter().filter_map(|r| r.requests.as_ref()).flatten() {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            total.insert(name.clone(), nanos(amount));
        }
    }
    for (name, amount) in spec.overhead.iter().flatten() {
        *total.entry(name.clone()).or_default() += nanos(amount);
    }
    total
}

/// A resize in place counts at its widest until it is done: what the spec wants, what the kubelet gave, what runs.
struct Statuses<'a> {
    by_name: BTreeMap<&'a str, &'a ContainerStatus>,
    infeasible: bool,
}

impl<'a> Statuses<'a> {
    fn of(pod: &'a Pod) -> Self {
        let Some(status) = &pod.status else {
            return Self { by_name: BTreeMap::new(), infeasible: false };
        };
        let containers = status.container_statuses.iter().flatten();
        let with_resources = containers.chain(status.init_container_statuses.iter().flatten());
        let by_name = with_resources.filter(|s| s.resources.is_some()).map(|s| (s.name.as_str(), s)).collect();
        let infeasible = status
            .conditions
            .iter()
            .flatten()
            .any(|c| c.type_ == "PodResizePending" && c.reason.as_deref() == Some("Infeasible"));
        Self { by_name, infeasible }
    }

    fn effective(&self, container: &Container) -> List {
        let wanted = list_of(container.resources.as_ref());
        let Some(status) = self.by_name.get(container.name.as_str()) else {
            return wanted;
        };
        let mut widest = if self.infeasible { List::new() } else { wanted };
        maximum(&mut widest, &list_of(status.resources.as_ref()));
        let allocated = status.allocated_resources.iter().flatten().map(|(n, q)| (n.clone(), nanos(q)));
        maximum(&mut widest, &allocated.collect());
        widest
    }
}

fn list_of(requirements: Option<&ResourceRequirements>) -> List {
    let requests = requirements.and_then(|r| r.requests.as_ref());
    requests.into_iter().flatten().map(|(name, amount)| (name.clone(), nanos(amount))).collect()
}

fn add(into: &mut List, other: &List) {
    for (name, amount) in other {
        *into.entry(name.clone()).or_default() += *amount;
    }
}

fn maximum(into: &mut List, other: &List) {
    for (name, amount) in other {
        let have = into.entry(name.clone()).or_insert(*amount);
        *have = (*have).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn container(cpu: &str) -> serde_json::Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_counts_at_its_widest_moment() {
        let sidecar = json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
        for (why, spec, milli) in [
            ("containers add up", json!({"containers": [container("1"), container("500m")]}), 1500),
            (
                "an init container runs alone",
                json!({"containers": [container("1")], "initContainers": [container("3")]}),
                3000,
            ),
            (
                "a sidecar runs beside the containers",
                json!({"containers": [container("1")], "initContainers": [sidecar]}),
                2000,
            ),
            (
                "and beside the init containers after it",
                json!({"containers": [container("1")], "initContainers": [sidecar, container("3")]}),
                4000,
            ),
            (
                "but not beside those before it",
                json!({"containers": [container("1")], "initContainers": [container("3"), sidecar]}),
                3000,
            ),
            ("overhead comes on top", json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}), 1250),
            (
                "pod-level requests replace the sum",
                json!({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}}),
                5000,
            ),
        ] {
            assert_eq!(pod_requests(&pod(spec)).milli_cpu, milli, "{why}");
        }
    }

    #[test]
    fn a_container_without_requests_scores_as_a_small_one() {
        let bare = pod(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
        assert_eq!(non_zero_requests(&bare), (200, 2 * 200 * 1024 * 1024));
        assert!(pod_requests(&bare).is_empty());
    }
}
