//! Where what the solver knows of a pod is written: for advice that can be put back into the manifests.

use std::ops::Range;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use karpenter_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use karpenter_core::{Pod, Quantity};
use karpenter_index::reduce::effective_requests;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

/// Which pods come from which workload, and which field of a pod decides about each of its requests.
#[derive(Debug, Default)]
pub struct Written {
    /// In the order of the pods.
    workloads: Vec<Template>,
    /// By uid, for pods whose only container does not decide alone.
    levers: FxHashMap<Arc<str>, Levers>,
    distinct: FxHashSet<Levers>,
    /// Paths of the host ports, by uid, for pods that have some.
    ports: FxHashMap<Arc<str>, Arc<[String]>>,
}

type Levers = Arc<[Lever]>;

#[derive(Debug)]
struct Template {
    pods: Range<usize>,
    object: String,
    levers: Option<Levers>,
    ports: Arc<[String]>,
}

/// The field by which what a pod takes of a resource is lowered furthest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lever {
    pub resource: String,
    /// Below the pod; ends before the resource's name.
    pub field: String,
    /// What the field says.
    pub amount: Quantity,
    /// What the pod takes when the field says zero.
    pub least: Quantity,
    /// Where limit and request must stay equal: all of the container's resources, as JSON.
    pub resources: Option<String>,
}

impl Written {
    pub(crate) fn pod(&mut self, uid: &Arc<str>, spec: &PodSpec) {
        if !spec.node_name.as_deref().unwrap_or("").is_empty() {
            return;
        }
        if let Some(levers) = self.levers_of(spec) {
            self.levers.insert(uid.clone(), levers);
        }
        let ports = host_ports(spec);
        if !ports.is_empty() {
            self.ports.insert(uid.clone(), ports);
        }
    }

    pub(crate) fn workload(&mut self, object: String, spec: &PodSpec, pods: Range<usize>) {
        if !pods.is_empty() {
            let levers = self.levers_of(spec);
            self.workloads.push(Template { pods, object, levers, ports: host_ports(spec) });
        }
    }

    fn levers_of(&mut self, spec: &PodSpec) -> Option<Levers> {
        let levers: Levers = levers(spec)?.into();
        if let Some(known) = self.distinct.get(&levers) {
            return Some(known.clone());
        }
        self.distinct.insert(levers.clone());
        Some(levers)
    }

    fn template(&self, pod: usize) -> Option<&Template> {
        let at = self.workloads.partition_point(|template| template.pods.end <= pod);
        self.workloads.get(at).filter(|template| template.pods.contains(&pod))
    }

    /// The workload a pod was made from, as `Deployment shop/web`; nothing where the pod is in the input itself.
    pub fn workload_of(&self, pod: usize) -> Option<&str> {
        self.template(pod).map(|template| template.object.as_str())
    }

    /// Positions of the pods that are written down in the same object.
    pub fn together(&self, pod: usize) -> Range<usize> {
        self.template(pod).map_or(pod..pod + 1, |template| template.pods.clone())
    }

    /// The field of one of a pod's host ports.
    pub fn host_port(&self, position: usize, pod: &Pod, port: usize) -> Option<&str> {
        let paths = match self.template(position) {
            Some(template) => Some(&template.ports),
            None => self.ports.get(&pod.uid),
        };
        paths?.get(port).map(String::as_str)
    }

    /// The field to lower if a pod, at this position, is to take less of a resource.
    pub fn lever(&self, position: usize, pod: &Pod, resource: &str) -> Option<Lever> {
        let known = match self.template(position) {
            Some(template) => template.levers.as_ref(),
            None => self.levers.get(&pod.uid),
        };
        match known {
            Some(levers) => levers.iter().find(|lever| lever.resource == resource).cloned(),
            None => Some(Lever {
                resource: resource.to_owned(),
                field: "spec.containers[0].resources.requests".to_owned(),
                amount: pod.shape.requests.get(resource),
                least: Quantity::ZERO,
                resources: None,
            }),
        }
    }
}

/// In the order in which the world has them.
fn host_ports(spec: &PodSpec) -> Arc<[String]> {
    let mut paths = Vec::new();
    for (c, container) in spec.containers.iter().enumerate() {
        for (p, port) in container.ports.iter().flatten().enumerate() {
            if port.host_port.is_some_and(|number| number != 0) {
                paths.push(format!("spec.containers[{c}].ports[{p}].hostPort"));
            }
        }
    }
    paths.into()
}

/// Nothing where the pod takes what its only container asks for.
fn levers(spec: &PodSpec) -> Option<Vec<Lever>> {
    let tied = |container: &Container| {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        limits.is_some_and(|limits| limits.keys().any(|name| !may_differ(name)))
    };
    let inits = spec.init_containers.as_ref().map_or(0, Vec::len);
    let plain = spec.containers.len() == 1 && inits == 0 && spec.resources.is_none() && spec.overhead.is_none();
    if plain && !spec.containers.iter().any(tied) {
        return None;
    }
    let takes = effective_requests(spec, None).ok()?;
    let mut levers = Vec::new();
    for (resource, total) in takes.iter().filter(|(name, _)| *name != PODS) {
        let mut best: Option<Lever> = None;
        for (field, part) in parts(spec) {
            let Some(amount) = requested(part(&mut spec.clone()), resource) else { continue };
            let mut without = spec.clone();
            if let Some(requests) = part(&mut without).and_then(|resources| resources.requests.as_mut()) {
                requests.remove(resource);
            }
            let Ok(least) = effective_requests(&without, None) else { continue };
            let least = least.get(resource);
            if least < total && best.as_ref().is_none_or(|best| least < best.least) {
                let written = whole(part(&mut spec.clone()), resource);
                best = Some(Lever { resource: resource.to_owned(), field, amount, least, resources: written });
            }
        }
        levers.extend(best);
    }
    Some(levers)
}

/// For these a container may have a larger limit than request.
fn may_differ(resource: &str) -> bool {
    [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&resource)
}

type Part = Box<dyn Fn(&mut PodSpec) -> Option<&mut ResourceRequirements>>;

/// Every place of a pod where requests are written, with its path.
fn parts(spec: &PodSpec) -> Vec<(String, Part)> {
    let mut parts: Vec<(String, Part)> = Vec::new();
    for at in 0..spec.containers.len() {
        let part: Part = Box::new(move |spec| spec.containers[at].resources.as_mut());
        parts.push((format!("spec.containers[{at}].resources.requests"), part));
    }
    for at in 0..spec.init_containers.as_ref().map_or(0, Vec::len) {
        let part: Part = Box::new(move |spec| spec.init_containers.as_mut()?.get_mut(at)?.resources.as_mut());
        parts.push((format!("spec.initContainers[{at}].resources.requests"), part));
    }
    parts.push(("spec.resources.requests".to_owned(), Box::new(|spec| spec.resources.as_mut())));
    parts
}

fn requested(part: Option<&mut ResourceRequirements>, resource: &str) -> Option<Quantity> {
    part?.requests.as_ref()?.get(resource)?.0.parse().ok()
}

fn whole(part: Option<&mut ResourceRequirements>, resource: &str) -> Option<String> {
    let part = part?;
    let tied = !may_differ(resource) && part.limits.as_ref().is_some_and(|limits| limits.contains_key(resource));
    let written: Value = serde_json::to_value(part).ok()?;
    tied.then(|| written.to_string())
}
