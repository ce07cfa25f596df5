//! Pods.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::labels::DO_NOT_DISRUPT;
use karpenter_core::pod::{Owner, Phase, Pod, PodShape};
use karpenter_core::ports::HostPort;

use super::{Faults, Interner, Read, Refused, affinity, requests, spread, taints, text};
use crate::object::TrackedPod;
use crate::path::Path;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub fn pod(object: &core_v1::Pod, interner: &mut Interner) -> Result<Pod, Refused> {
    read(object, interner).strict()
}

fn read(object: &core_v1::Pod, interner: &mut Interner) -> Read<Pod> {
    let mut faults = Faults::default();
    let no_spec = core_v1::PodSpec::default();
    let spec = object.spec.as_ref().unwrap_or(&no_spec);
    let metadata = &object.metadata;
    let shape = shape(metadata, spec, object.status.as_ref(), &Path::Root, &mut faults);
    let status = object.status.as_ref();
    let condition = |kind: &str| {
        status.and_then(|status| status.conditions.iter().flatten().find(|condition| condition.type_ == kind))
    };
    let name = text(metadata.name.as_deref());
    let started = status.and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    let ready = condition("Ready").filter(|c| c.status == "True").and_then(|c| c.last_transition_time.as_ref());
    let reduced = Pod {
        namespace: interner.text(metadata.namespace.as_deref().unwrap_or("")),
        uid: text(metadata.uid.as_deref()),
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        shape: interner.shape(shape),
        phase: phase(status, &mut faults),
        terminating: metadata.deletion_timestamp.is_some(),
        node: non_empty(spec.node_name.as_deref(), interner),
        nominated_node: non_empty(status.and_then(|status| status.nominated_node_name.as_deref()), interner),
        scheduled_reason: condition("PodScheduled").map(|c| interner.text(c.reason.as_deref().unwrap_or(""))),
        unready: condition("Ready").is_some_and(|c| c.status == "False"),
        started,
        owners: owners(metadata, interner),
        claims: interner.claims(claims(spec, &name)),
        deletion_cost: annotation(metadata, DELETION_COST),
        restarts: restarts(status),
        ready_after: started.and_then(|started| Duration::try_from(ready?.0.duration_since(started)).ok()),
        name,
    };
    faults.read("Pod", metadata, reduced)
}

/// A pod with what its end depends on.
pub fn tracked_pod(object: &core_v1::Pod, interner: &mut Interner) -> Result<TrackedPod, Refused> {
    let tracked = read_pod(object, interner);
    Read { reading: tracked.reading.clone(), value: tracked }.strict()
}

/// As [`tracked_pod`], however well it could be read: the pod is there.
pub fn read_pod(object: &core_v1::Pod, interner: &mut Interner) -> TrackedPod {
    let spec = object.spec.as_ref();
    let class = spec.and_then(|spec| spec.priority_class_name.as_deref());
    let Read { value: pod, reading } = read(object, interner);
    TrackedPod {
        pod,
        reading,
        deletion: object.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        grace_seconds: spec.and_then(|spec| spec.termination_grace_period_seconds),
        deletion_cost: annotation(&object.metadata, DELETION_COST),
        priority_class: non_empty(class, interner),
        limits: interner.resources(spec.map(super::requests::limits).unwrap_or_default()),
    }
}

/// Of app containers and sidecars, all together.
fn restarts(status: Option<&core_v1::PodStatus>) -> u32 {
    let lists =
        |status: &core_v1::PodStatus| [status.container_statuses.clone(), status.init_container_statuses.clone()];
    let all = status.map(lists).into_iter().flatten().flatten().flatten();
    all.map(|container| u32::try_from(container.restart_count).unwrap_or(0)).fold(0, u32::saturating_add)
}

fn annotation(metadata: &ObjectMeta, name: &str) -> Option<Arc<str>> {
    metadata.annotations.as_ref().and_then(|all| all.get(name)).map(|text| text.as_str().into())
}

/// What a pod made from this template would look like to the solver.
pub(super) fn shape(
    metadata: &ObjectMeta,
    spec: &core_v1::PodSpec,
    status: Option<&core_v1::PodStatus>,
    at: &Path<'_>,
    faults: &mut Faults,
) -> PodShape {
    let spec_path = at.field("spec");
    let annotations = metadata.annotations.as_ref();
    let mut shape = PodShape {
        labels: metadata.labels.clone().unwrap_or_default(),
        requests: requests::collect(spec, status, at, faults),
        node_selector: spec.node_selector.clone().unwrap_or_default(),
        tolerations: taints::tolerations(spec.tolerations.as_ref(), &spec_path.field("tolerations"), faults),
        host_ports: host_ports(spec, &spec_path, faults),
        priority: spec.priority.unwrap_or(0),
        wants_devices: wants_devices(spec),
        do_not_disrupt: annotations.and_then(|all| all.get(DO_NOT_DISRUPT)).map(|value| value.as_str().into()),
        ..PodShape::default()
    };
    if let Some(wire) = &spec.affinity {
        affinity::affinity(wire, &mut shape);
    }
    let constraints = spec_path.field("topologySpreadConstraints");
    for (position, wire) in spec.topology_spread_constraints.iter().flatten().enumerate() {
        shape.spread.push(spread::spread(wire, &constraints.index(position), faults));
    }
    shape
}

/// Claims of the pod as a whole count only where a container uses them, but a claim nobody uses still has to be
/// allocated before the pod may start.
fn wants_devices(spec: &core_v1::PodSpec) -> bool {
    spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
}

/// Of app containers only: those of init containers are free again before the pod runs.
fn host_ports(spec: &core_v1::PodSpec, at: &Path<'_>, faults: &mut Faults) -> Vec<HostPort> {
    let mut found = Vec::new();
    for (c, container) in spec.containers.iter().enumerate() {
        for (p, port) in container.ports.iter().flatten().enumerate() {
            let Some(number) = port.host_port.filter(|number| *number != 0) else {
                continue;
            };
            let Ok(number) = u16::try_from(number) else {
                let containers = at.field("containers");
                let container = containers.index(c);
                let ports = container.field("ports");
                faults.add(&ports.index(p).field("hostPort"), format!("{number} is not a port"));
                continue;
            };
            let ip = port.host_ip.as_deref().filter(|ip| !ip.is_empty()).unwrap_or("0.0.0.0");
            let protocol = port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
            found.push(HostPort { ip: ip.into(), port: number, protocol: protocol.into() });
        }
    }
    found
}

/// The claims a pod of this name uses; generic ephemeral volumes have one made after the pod.
pub fn claims(spec: &core_v1::PodSpec, pod: &str) -> Vec<Arc<str>> {
    let claim = |volume: &core_v1::Volume| -> Option<Arc<str>> {
        match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => Some(source.claim_name.as_str().into()),
            (None, Some(_)) => Some(format!("{pod}-{}", volume.name).into()),
            (None, None) => None,
        }
    };
    spec.volumes.iter().flatten().filter_map(claim).collect()
}

fn owners(metadata: &ObjectMeta, interner: &mut Interner) -> Arc<[Owner]> {
    let mut owners = Vec::new();
    for owner in metadata.owner_references.iter().flatten() {
        owners.push(Owner {
            api_version: interner.text(&owner.api_version),
            kind: interner.text(&owner.kind),
            name: interner.text(&owner.name),
            uid: interner.text(&owner.uid),
            controller: owner.controller == Some(true),
        });
    }
    interner.owners(owners)
}

/// A phase of a later Kubernetes is not known to be an end.
fn phase(status: Option<&core_v1::PodStatus>, faults: &mut Faults) -> Phase {
    match status.and_then(|status| status.phase.as_deref()) {
        None | Some("" | "Pending") => Phase::Pending,
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some("Unknown") => Phase::Unknown,
        Some(other) => {
            let message = format!("{other:?} is not one of Pending, Running, Succeeded, Failed, Unknown");
            faults.careful(&Path::Root.field("status").field("phase"), message);
            Phase::Unknown
        }
    }
}

fn non_empty(value: Option<&str>, interner: &mut Interner) -> Option<Arc<str>> {
    value.filter(|value| !value.is_empty()).map(|value| interner.text(value))
}
