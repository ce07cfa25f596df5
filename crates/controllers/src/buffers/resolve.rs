//! What a buffer asks for: so many pods of a shape.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core_v1;
use karpenter_api::CapacityBuffer;
use karpenter_core::{Pod, Resources};
use karpenter_index::reduce::{self, Interner, Refused, resource_list};

use super::owner;

pub(super) const FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
pub(super) const BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
pub(super) const BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";

/// How many chunks. `workload` is how many replicas the workload has that the buffer is sized by, if it is by one.
pub fn size(buffer: &CapacityBuffer, requests: &Resources, workload: Option<i32>) -> i32 {
    let spec = &buffer.spec;
    let share = spec.percentage.filter(|_| workload.is_some()).map(|percentage| {
        let of = i64::from(workload.unwrap_or_default()) * i64::from(percentage);
        // Rounded up, so a share of something is never nothing.
        i32::try_from(of.div_euclid(100) + i64::from(of.rem_euclid(100) > 0)).unwrap_or(i32::MAX)
    });
    let wanted = spec.replicas.into_iter().chain(share).max();
    match (wanted, fitting(buffer, requests)) {
        (Some(wanted), Some(most)) => wanted.min(most),
        (Some(wanted), None) => wanted,
        (None, Some(most)) => most,
        (None, None) => 0,
    }
}

/// How many the limits leave room for; nothing, if they limit nothing that a pod asks for.
fn fitting(buffer: &CapacityBuffer, requests: &Resources) -> Option<i32> {
    let limits = resource_list(buffer.spec.limits.as_ref()?).ok()?;
    let of = |name: &str| requests.iter().find(|(known, _)| *known == name).map(|(_, amount)| amount);
    let counts = limits.iter().filter(|(name, _)| *name != "pods").filter_map(|(name, limit)| {
        let request = of(name)?.nanos();
        (request > 0).then(|| i32::try_from(limit.nanos().div_euclid(request)).unwrap_or(i32::MAX))
    });
    counts.min()
}

/// The pod of this number, as it would be if it existed.
pub fn virtual_pod(buffer: &CapacityBuffer, template: &core_v1::PodTemplateSpec, number: i32) -> core_v1::Pod {
    let metadata = &buffer.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (name, namespace) = (text(&metadata.name), text(&metadata.namespace));
    let mut pod = core_v1::Pod::default();
    let of_template = template.metadata.clone().unwrap_or_default();
    pod.metadata.name = Some(format!("capacity-buffer-{name}-{number}"));
    pod.metadata.namespace = Some(namespace.clone());
    pod.metadata.uid = Some(format!("{}-{number}", text(&metadata.uid)));
    pod.metadata.creation_timestamp = metadata.creation_timestamp.clone();
    pod.metadata.labels = of_template.labels;
    let annotations = [(FAKE_POD, "true".to_owned()), (BUFFER_NAME, name), (BUFFER_NAMESPACE, namespace)];
    pod.metadata.annotations = Some(annotations.map(|(key, value)| (key.to_owned(), value)).into());
    let mut spec = template.spec.clone().unwrap_or_default();
    spec.node_name = None;
    // Everybody else goes first.
    spec.priority = Some(i32::MIN);
    spec.priority_class_name = None;
    without_claims(&mut spec);
    pod.spec = Some(spec);
    let unscheduled = core_v1::PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        ..Default::default()
    };
    pod.status = Some(core_v1::PodStatus {
        phase: Some("Pending".to_owned()),
        conditions: Some(vec![unscheduled]),
        ..Default::default()
    });
    pod
}

/// Volumes that somebody would have to make are left out, with their mounts.
fn without_claims(spec: &mut core_v1::PodSpec) {
    let is_claim = |volume: &core_v1::Volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
    let volumes = spec.volumes.take().unwrap_or_default();
    let (gone, kept): (Vec<_>, Vec<_>) = volumes.into_iter().partition(is_claim);
    let gone: BTreeSet<String> = gone.into_iter().map(|volume| volume.name).collect();
    spec.volumes = Some(kept);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        if let Some(mounts) = &mut container.volume_mounts {
            mounts.retain(|mount| !gone.contains(&mount.name));
        }
    }
}

/// All pods of a buffer, as the solver sees them, and how many there are.
pub(super) fn virtual_pods(
    buffer: &CapacityBuffer,
    template: &core_v1::PodTemplateSpec,
    workload: Option<i32>,
) -> Result<(i32, Vec<Pod>), Refused> {
    let mut interner = Interner::default();
    let first = reduce::pod(&virtual_pod(buffer, template, 1), &mut interner)?;
    let count = size(buffer, &first.shape.requests, workload);
    let owners: Arc<[_]> = Arc::from([owner(buffer)]);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (name, uid) = (text(&buffer.metadata.name), text(&buffer.metadata.uid));
    let pods = (1..=count).map(|number| Pod {
        name: format!("capacity-buffer-{name}-{number}").into(),
        uid: format!("{uid}-{number}").into(),
        owners: owners.clone(),
        ..first.clone()
    });
    Ok((count, pods.collect()))
}
