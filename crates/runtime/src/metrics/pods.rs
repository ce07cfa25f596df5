//! Pods as they are now.

use karpenter_api::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};
use karpenter_controllers::Context;
use karpenter_core::Pod;
use karpenter_core::pod::Phase;
use karpenter_index::Key;

use super::objects::seconds;
use super::text::Gauge;

pub(super) fn pods(context: &Context, page: &mut String) {
    let now = context.clock.now();
    let waits = context.metrics.pods.waits();
    let mut state = Gauge::new("karpenter_pods_state", "What became of a pod, and where");
    let mut unstarted = Gauge::new("karpenter_pods_unstarted_time_seconds", "Since its creation, of a pod not running");
    let mut unbound = Gauge::new("karpenter_pods_unbound_time_seconds", "Since its creation, of a pod without a node");
    let mut planned_unstarted = Gauge::new(
        "karpenter_pods_provisioning_unstarted_time_seconds",
        "Since a place was found for it, of a pod not running",
    );
    let mut planned_unbound = Gauge::new(
        "karpenter_pods_provisioning_unbound_time_seconds",
        "Since a place was found for it, of a pod without a node",
    );
    let mut undecided = Gauge::new(
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
        "Since it was seen, of a pod nothing has been decided on",
    );
    for tracked in context.index.pods() {
        let pod = &tracked.pod;
        put_state(context, pod, &mut state);
        let labels = || [("name", &*pod.name), ("namespace", &*pod.namespace)];
        let key = Key { namespace: pod.namespace.clone(), name: pod.name.clone() };
        let wait = waits.get(&key);
        let placed = wait.and_then(|wait| wait.placed);
        if pod.phase == Phase::Pending || wait.is_some_and(|wait| !wait.started) && pod.phase == Phase::Running {
            unstarted.set(labels(), seconds(pod.created, now));
            if let Some(placed) = placed {
                planned_unstarted.set(labels(), seconds(placed, now));
            }
        }
        if pod.phase == Phase::Pending && pod.node.is_none() {
            unbound.set(labels(), seconds(pod.created, now));
            if let Some(placed) = placed {
                planned_unbound.set(labels(), seconds(placed, now));
            }
            if let Some(seen) = wait.filter(|wait| wait.decided.is_none()).and_then(|wait| wait.seen) {
                undecided.set(labels(), seconds(seen, now));
            }
        }
    }
    for gauge in [state, unstarted, unbound, planned_unstarted, planned_unbound, undecided] {
        gauge.write(page);
    }
}

fn put_state(context: &Context, pod: &Pod, gauge: &mut Gauge<'_>) {
    let node = pod.node.as_deref().and_then(|name| context.index.node(name));
    let of_node = |key: &str| {
        let labels = node.as_ref().and_then(|node| node.metadata.labels.as_ref());
        labels.and_then(|labels| labels.get(key)).map(String::as_str).unwrap_or_default()
    };
    let owner = pod.owners.first().map(|owner| {
        let kind = owner.kind.to_lowercase();
        format!("/apis/{}/namespaces/{}/{kind}s/{}", owner.api_version, pod.namespace, owner.name)
    });
    let yes = |yes: bool| if yes { "true" } else { "false" };
    let labels = [
        ("name", &*pod.name),
        ("namespace", &*pod.namespace),
        ("owner", owner.as_deref().unwrap_or_default()),
        ("node", pod.node.as_deref().unwrap_or_default()),
        ("scheduled", yes(pod.node.is_some())),
        ("nodepool", of_node(NODEPOOL)),
        ("zone", of_node(ZONE)),
        ("arch", of_node(ARCH)),
        ("capacity_type", of_node(CAPACITY_TYPE)),
        ("instance_type", of_node(INSTANCE_TYPE)),
        ("phase", phase(pod.phase)),
        ("ready", yes(pod.phase == Phase::Running && !pod.unready)),
        ("managed", yes(!of_node(NODEPOOL).is_empty())),
    ];
    gauge.set(labels, 1.0);
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
        Phase::Unknown => "Unknown",
    }
}
