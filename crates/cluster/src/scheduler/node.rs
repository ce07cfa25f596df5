//! A node with what its pods have taken of it.

use super::pod::{HostPort, PodInfo};
use crate::resources::Resources;
use crate::selector::Labels;
use k8s_openapi::api::core::v1::{Node, Taint};
use std::sync::Arc;

/// Pods of one namespace with the same labels; see [`super::classes::Classes`].
pub type ClassId = u32;

#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    pub name: Arc<str>,
    /// `None` while pods are bound to a node nobody has seen yet.
    pub node: Option<Arc<Node>>,
    pub labels: Arc<Labels>,
    pub taints: Arc<[Taint]>,
    pub unschedulable: bool,
    pub allocatable: Resources,
    pub requested: Resources,
    pub non_zero: (i64, i64),
    pub ports: Vec<HostPort>,
    pub pods: Vec<Resident>,
    /// How many pods of each class are here, and how many of them are not on their way out.
    pub classes: Vec<ClassCount>,
    pub with_affinity: usize,
    pub with_anti_affinity: usize,
    pub with_claims: usize,
}

#[derive(Clone, Debug)]
pub struct Resident {
    pub pod: Arc<PodInfo>,
    pub class: ClassId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCount {
    pub class: ClassId,
    pub all: u32,
    pub live: u32,
}

impl NodeInfo {
    pub fn new(name: Arc<str>) -> Self {
        Self { name, ..Self::default() }
    }

    pub fn set_node(&mut self, node: Arc<Node>) {
        let spec = node.spec.as_ref();
        self.labels = Arc::new(node.metadata.labels.clone().unwrap_or_default());
        self.taints = spec.and_then(|s| s.taints.clone()).unwrap_or_default().into();
        self.unschedulable = spec.and_then(|s| s.unschedulable).unwrap_or(false);
        let allocatable = node.status.as_ref().and_then(|s| s.allocatable.as_ref());
        self.allocatable = allocatable.map(Resources::from_list).unwrap_or_default();
        self.node = Some(node);
    }

    pub fn add(&mut self, pod: Arc<PodInfo>, class: ClassId) {
        self.requested.add(&pod.requests);
        self.non_zero.0 += pod.non_zero.0;
        self.non_zero.1 += pod.non_zero.1;
        self.ports.extend(pod.ports.iter().cloned());
        self.with_affinity += usize::from(pod.has_affinity());
        self.with_anti_affinity += usize::from(!pod.anti_affinity.is_empty());
        self.with_claims += usize::from(!pod.claims.is_empty());
        let live = u32::from(!pod.terminating);
        match self.classes.iter_mut().find(|c| c.class == class) {
            Some(count) => {
                count.all += 1;
                count.live += live;
            }
            None => self.classes.push(ClassCount { class, all: 1, live }),
        }
        self.pods.push(Resident { pod, class });
    }

    /// Takes a pod off the node; answers what was there.
    pub fn remove(&mut self, uid: &str) -> Option<Resident> {
        let at = self.pods.iter().position(|r| r.pod.uid == uid)?;
        let resident = self.pods.remove(at);
        let pod = &resident.pod;
        self.requested.subtract(&pod.requests);
        self.non_zero.0 -= pod.non_zero.0;
        self.non_zero.1 -= pod.non_zero.1;
        for port in &pod.ports {
            if let Some(at) = self.ports.iter().position(|p| p == port) {
                self.ports.swap_remove(at);
            }
        }
        self.with_affinity -= usize::from(pod.has_affinity());
        self.with_anti_affinity -= usize::from(!pod.anti_affinity.is_empty());
        self.with_claims -= usize::from(!pod.claims.is_empty());
        if let Some(at) = self.classes.iter().position(|c| c.class == resident.class) {
            let count = &mut self.classes[at];
            count.all -= 1;
            count.live -= u32::from(!pod.terminating);
            if count.all == 0 {
                self.classes.swap_remove(at);
            }
        }
        Some(resident)
    }

    pub fn zone(&self) -> (&str, &str) {
        let label = |key: &str| self.labels.get(key).map_or("", String::as_str);
        (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
    }
}
