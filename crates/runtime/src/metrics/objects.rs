//! Nodes and pools as they are now.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::Quantity;
use karpenter_api::labels::WELL_KNOWN;
use karpenter_controllers::Context;
use karpenter_core::Resources;
use karpenter_core::pod::Phase;
use karpenter_core::resources::GPU;
use karpenter_index::{TrackedPod, reduce};

use super::text::{Gauge, amount, snake};

/// Everything about nodes, and how full the cluster is.
pub(super) fn nodes(context: &Context, page: &mut String) {
    let now = context.clock.now();
    let mut gauges = [
        Gauge::new("karpenter_nodes_allocatable", "What pods may use of a node"),
        Gauge::new("karpenter_nodes_total_pod_requests", "What pods on a node ask for, daemons included"),
        Gauge::new("karpenter_nodes_total_pod_limits", "What pods on a node may use at most, daemons included"),
        Gauge::new("karpenter_nodes_total_daemon_requests", "What daemons on a node ask for"),
        Gauge::new("karpenter_nodes_total_daemon_limits", "What daemons on a node may use at most"),
        Gauge::new("karpenter_nodes_system_overhead", "What of a node pods may not use"),
    ];
    let mut lifetime = Gauge::new("karpenter_nodes_current_lifetime_seconds", "Age of a node");
    let (mut all_allocatable, mut all_requests) = (Resources::new(), Resources::new());
    for machine in context.index.machines() {
        let Some(node) = &machine.node else { continue };
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let labels = node_labels(node, machine.claim.is_some());
        let status = node.status.as_ref();
        let list = |given: Option<&karpenter_api::ResourceList>| {
            given.and_then(|given| reduce::resource_list(given).ok()).unwrap_or_default()
        };
        let allocatable = list(status.and_then(|status| status.allocatable.as_ref()));
        let capacity = list(status.and_then(|status| status.capacity.as_ref()));
        let pods = Load::of(&context.index.pods_on(name));
        all_allocatable.add(&allocatable);
        all_requests.add(&pods.requests);
        let overhead = capacity.minus(&allocatable);
        let shown = [&allocatable, &pods.requests, &pods.limits, &pods.daemon_requests, &pods.daemon_limits, &overhead];
        for (gauge, resources) in gauges.iter_mut().zip(shown) {
            for (resource, quantity) in resources.iter() {
                let resource_type = snake(resource);
                let all = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                gauge.set(all.chain([("resource_type", resource_type.as_str())]), amount(resource, quantity));
            }
        }
        if let Some(created) = &node.metadata.creation_timestamp {
            let all = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            lifetime.set(all, seconds(created.0, now));
        }
    }
    gauges.into_iter().for_each(|gauge| gauge.write(page));
    lifetime.write(page);
    let mut utilization = Gauge::new("karpenter_cluster_utilization_percent", "Requests of pods over what nodes offer");
    for (resource, quantity) in all_allocatable.iter().filter(|(_, quantity)| !quantity.is_zero()) {
        let share = amount(resource, all_requests.get(resource)) / amount(resource, quantity);
        utilization.set([("resource_type", snake(resource).as_str())], 100.0 * share);
    }
    utilization.write(page);
}

pub(super) fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

/// The last part of every well-known label, and three of the node itself.
fn node_labels(node: &Node, managed: bool) -> Vec<(String, String)> {
    let own = node.metadata.labels.as_ref();
    let value = |key: &str| own.and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
    let named = |key: &&str| Some((snake(key.split_once('/')?.1), value(key)));
    let mut labels: BTreeMap<String, String> = WELL_KNOWN.iter().filter_map(named).collect();
    labels.insert("node_name".to_owned(), node.metadata.name.clone().unwrap_or_default());
    let phase = node.status.as_ref().and_then(|status| status.phase.clone());
    labels.insert("phase".to_owned(), phase.unwrap_or_default());
    labels.insert("managed".to_owned(), managed.to_string());
    labels.into_iter().collect()
}

/// What the pods of a node come to.
#[derive(Default)]
struct Load {
    requests: Resources,
    limits: Resources,
    daemon_requests: Resources,
    daemon_limits: Resources,
}

impl Load {
    fn of(pods: &[std::sync::Arc<TrackedPod>]) -> Self {
        let mut load = Self::default();
        for tracked in pods.iter().filter(|tracked| !matches!(tracked.pod.phase, Phase::Succeeded | Phase::Failed)) {
            let requests = &tracked.pod.shape.requests;
            load.requests.add(requests);
            load.limits.add(&tracked.limits);
            if tracked.pod.is_daemon() {
                load.daemon_requests.add(requests);
                load.daemon_limits.add(&tracked.limits);
            }
        }
        load
    }
}

/// Limits and usage of pools, under their old names as well if those are wanted.
pub(super) fn pools(context: &Context, legacy: bool, page: &mut String) {
    let mut limit = Gauge::new("karpenter_nodepools_limit", "What a pool may have at most");
    let mut usage = Gauge::new("karpenter_nodepools_usage", "What a pool has");
    for pool in context.index.node_pools() {
        if !context.index.is_managed_pool(&pool) {
            continue;
        }
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let read = |given: Option<&BTreeMap<String, Quantity>>| reduce::resource_list(given?).ok();
        let limits = read(pool.spec.limits.as_ref());
        let mut used = read(pool.status.as_ref().and_then(|status| status.resources.as_ref()));
        // What no resource is called is there beside its limit only.
        if let (Some(limits), Some(used)) = (&limits, &mut used)
            && limits.0.contains_key(GPU)
        {
            used.set(GPU, used.counted(GPU));
        }
        for (gauge, resources) in [(&mut limit, limits), (&mut usage, used)] {
            let Some(resources) = resources else { continue };
            for (resource, quantity) in resources.iter() {
                let resource_type = snake(resource);
                gauge.set([("resource_type", resource_type.as_str()), ("nodepool", name)], amount(resource, quantity));
            }
        }
    }
    if legacy {
        limit.write_as("karpenter_nodepool_limit", page);
        usage.write_as("karpenter_nodepool_usage", page);
    }
    limit.write(page);
    usage.write(page);
}
