//! What a pod really takes from its node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};
use karpenter_core::resources::{CPU, HUGEPAGES_PREFIX, MEMORY, PODS};
use karpenter_core::{Quantity, Resources};

use super::resources::read;
use super::{Fault, Faults};
use crate::path::Path;

/// Containers and sidecars together, or the hungriest moment of start-up where that is more, resource by resource;
/// pod-level requests in place of what they cover; overhead; and one of `pods`.
pub fn effective_requests(spec: &PodSpec, status: Option<&PodStatus>) -> Result<Resources, Vec<Fault>> {
    let mut faults = Faults::default();
    let requests = collect(spec, status, &Path::Root, &mut faults);
    faults.into_result(requests)
}

pub(super) fn collect(spec: &PodSpec, status: Option<&PodStatus>, at: &Path<'_>, faults: &mut Faults) -> Resources {
    let spec_path = at.field("spec");
    let resize = Resize::of(status);
    let mut running = Resources::new();
    let containers = spec_path.field("containers");
    for (position, container) in spec.containers.iter().enumerate() {
        running.add(&resize.requests(container, &containers.index(position), faults));
    }
    let mut sidecars = Resources::new();
    let mut starting = Resources::new();
    let init_containers = spec_path.field("initContainers");
    for (position, container) in spec.init_containers.iter().flatten().enumerate() {
        let mut needed = resize.requests(container, &init_containers.index(position), faults);
        if container.restart_policy.as_deref() == Some("Always") {
            running.add(&needed);
            sidecars.add(&needed);
            needed = sidecars.clone();
        } else {
            needed.add(&sidecars);
        }
        starting.max(&needed);
    }
    running.max(&starting);
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let pod_resources = spec_path.field("resources");
    for (name, quantity) in read(pod_level, &pod_resources.field("requests"), faults).iter() {
        if is_pod_level(name) {
            running.set(name, quantity);
        }
    }
    running.add(&read(spec.overhead.as_ref(), &spec_path.field("overhead"), faults));
    running.set(PODS, Quantity::from_units(1));
    running
}

/// What a pod may use at most: the sum over its containers and sidecars, or what an init container needs if that is more.
/// A quantity that cannot be read counts for nothing here; the pod is refused elsewhere if it matters.
pub(super) fn limits(spec: &PodSpec) -> Resources {
    let of = |container: &k8s_openapi::api::core::v1::Container| {
        let given = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        given.and_then(|given| super::resource_list(given).ok()).unwrap_or_default()
    };
    let mut running = Resources::new();
    spec.containers.iter().for_each(|container| running.add(&of(container)));
    let mut starting = Resources::new();
    for container in spec.init_containers.iter().flatten() {
        match container.restart_policy.as_deref() {
            Some("Always") => running.add(&of(container)),
            _ => starting.max(&of(container)),
        }
    }
    running.max(&starting);
    running
}

/// Which resources a pod as a whole may ask for.
fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGEPAGES_PREFIX)
}

/// What the kubelet reports of containers that are being resized in place.
struct Resize<'a> {
    statuses: BTreeMap<&'a str, &'a ContainerStatus>,
    /// The node will never grant what the spec asks for, so only what it granted counts.
    infeasible: bool,
}

impl<'a> Resize<'a> {
    fn of(status: Option<&'a PodStatus>) -> Self {
        let Some(status) = status else {
            return Self { statuses: BTreeMap::new(), infeasible: false };
        };
        let app = status.container_statuses.iter().flatten();
        let all = app.chain(status.init_container_statuses.iter().flatten());
        let pending = |condition: &&k8s_openapi::api::core::v1::PodCondition| condition.type_ == "PodResizePending";
        let condition = status.conditions.iter().flatten().find(pending);
        Self {
            statuses: all.map(|status| (status.name.as_str(), status)).collect(),
            infeasible: condition.is_some_and(|c| c.reason.as_deref() == Some("Infeasible")),
        }
    }

    fn requests(&self, container: &Container, at: &Path<'_>, faults: &mut Faults) -> Resources {
        let asked = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let asked = read(asked, &at.field("resources").field("requests"), faults);
        let Some(status) = self.statuses.get(container.name.as_str()) else {
            return asked;
        };
        let Some(actual) = &status.resources else { return asked };
        let root = Path::Root;
        let status_path = root.field("status");
        let statuses = status_path.field("containerStatuses");
        let statuses = statuses.field(&container.name);
        let mut requests = if self.infeasible { Resources::new() } else { asked };
        requests.max(&read(actual.requests.as_ref(), &statuses.field("resources"), faults));
        requests.max(&read(status.allocated_resources.as_ref(), &statuses.field("allocatedResources"), faults));
        requests
    }
}
