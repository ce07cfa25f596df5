//! DaemonSets: what will run on every new node.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1 as apps_v1;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use karpenter_api::Quantity;
use karpenter_core::world::DaemonSet;

use super::{Faults, Interner, Read, Refused, pod, text};
use crate::path::Path;

pub fn daemon_set(object: &apps_v1::DaemonSet, interner: &mut Interner) -> Result<DaemonSet, Refused> {
    read_daemon_set(object, interner).strict()
}

/// As [`daemon_set`], however well it could be read: its pods come to new nodes.
pub fn read_daemon_set(object: &apps_v1::DaemonSet, interner: &mut Interner) -> Read<DaemonSet> {
    let mut faults = Faults::default();
    let template = object.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut spec = template.spec.unwrap_or_default();
    limits_stand_in_for_requests(&mut spec);
    let metadata = template.metadata.unwrap_or_default();
    let at = Path::Root;
    let (at, name) = (at.field("spec"), "template");
    let shape = pod::shape(&metadata, &spec, None, &at.field(name), &mut faults);
    let reduced = DaemonSet {
        namespace: text(object.metadata.namespace.as_deref()),
        name: text(object.metadata.name.as_deref()),
        uid: text(object.metadata.uid.as_deref()),
        required_node_affinity: shape.required_node_affinity.clone(),
        template: interner.shape(shape),
    };
    faults.read("DaemonSet", &object.metadata, reduced)
}

/// What admission does for a pod: a limit without a request is also the request.
pub fn limits_stand_in_for_requests(spec: &mut PodSpec) {
    let all = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
    for Container { resources, .. } in all {
        let Some(resources) = resources else { continue };
        let Some(limits) = &resources.limits else { continue };
        let requests: &mut BTreeMap<String, Quantity> = resources.requests.get_or_insert_default();
        for (name, limit) in limits {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
}
