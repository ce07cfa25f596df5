//! Existing nodes.

use karpenter_core::labels::{CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED, ZONE};
use karpenter_core::node::Stage;
use karpenter_core::plan::NewNode;
use karpenter_core::resources::{CPU, MEMORY, PODS};
use karpenter_core::taints::Effect;
use karpenter_core::{InstanceType, Node, Taint, World};

use crate::quantity;

/// Somebody else's node: 4 CPUs, 16Gi, 110 pods, with its hostname label.
pub fn node(name: &str) -> NodeBuilder {
    let node = Node {
        name: name.into(),
        claim: None,
        provider_id: Some(format!("fake:///{name}").into()),
        stage: Stage::Unmanaged,
        has_node: true,
        labels: [(HOSTNAME.to_owned(), name.to_owned())].into(),
        taints: Vec::new(),
        capacity: Default::default(),
        allocatable: Default::default(),
        deleting: false,
        volume_limits: Default::default(),
    };
    NodeBuilder(node).room(CPU, "4").room(MEMORY, "16Gi").room(PODS, "110")
}

/// A node that a plan asks for once it is there, ready for pods.
pub fn launched(world: &World, new: &NewNode, name: &str) -> Node {
    let (pool, launch) = (&world.pools[new.pool], &new.launch);
    let kind = pool.instance_types.iter().find(|kind| kind.name == launch.instance_type);
    let kind = kind.expect("what is launched is one of the pool's types");
    let mut labels = new.labels.clone();
    for (key, requirement) in kind.requirements.iter().filter(|(_, r)| !r.open && r.values.len() == 1) {
        labels.insert(key.to_owned(), requirement.values.first().expect("there is one").to_string());
    }
    for (key, value) in [
        (INSTANCE_TYPE, &*launch.instance_type),
        (ZONE, &launch.zone),
        (CAPACITY_TYPE, &launch.capacity_type),
        (HOSTNAME, name),
        (REGISTERED, "true"),
        (INITIALIZED, "true"),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    Node {
        name: name.into(),
        claim: Some(name.into()),
        provider_id: Some(format!("fake:///{name}").into()),
        stage: Stage::Initialized,
        has_node: true,
        labels,
        taints: pool.taints.clone(),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        deleting: false,
        volume_limits: Default::default(),
    }
}

#[derive(Clone, Debug)]
pub struct NodeBuilder(pub Node);

impl NodeBuilder {
    /// Sets capacity and allocatable alike.
    pub fn room(mut self, resource: &str, text: &str) -> Self {
        self.0.capacity.set(resource, quantity(text));
        self.0.allocatable.set(resource, quantity(text));
        self
    }

    pub fn cpu(self, text: &str) -> Self {
        self.room(CPU, text)
    }

    pub fn memory(self, text: &str) -> Self {
        self.room(MEMORY, text)
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn without_label(mut self, key: &str) -> Self {
        self.0.labels.remove(key);
        self
    }

    pub fn zone(self, zone: &str) -> Self {
        self.label(ZONE, zone)
    }

    /// Ours, initialized, from this pool.
    pub fn of_pool(mut self, pool: &str) -> Self {
        self.0.claim = Some(format!("claim-{}", self.0.name).into());
        self.0.stage = Stage::Initialized;
        self.label(NODEPOOL, pool).label(REGISTERED, "true").label(INITIALIZED, "true")
    }

    /// What one offering of a type would have become.
    pub fn of_type(mut self, kind: &InstanceType, zone: &str, capacity_type: &str) -> Self {
        self.0.capacity = kind.capacity.clone();
        self.0.allocatable = kind.allocatable();
        for (key, requirement) in kind.requirements.iter() {
            if !requirement.open && requirement.values.len() == 1 {
                self = self.label(key, &requirement.values.first().expect("it has one").clone());
            }
        }
        self.label(INSTANCE_TYPE, &kind.name).label(ZONE, zone).label(CAPACITY_TYPE, capacity_type)
    }

    pub fn stage(mut self, stage: Stage) -> Self {
        self.0.stage = stage;
        if stage != Stage::Initialized {
            self.0.labels.remove(INITIALIZED);
        }
        if stage == Stage::Launched {
            self.0.labels.remove(REGISTERED);
            self.0.has_node = false;
        }
        self
    }

    pub fn taint(self, key: &str) -> Self {
        self.taint_of(key, "", Effect::NoSchedule)
    }

    pub fn taint_of(mut self, key: &str, value: &str, effect: Effect) -> Self {
        self.0.taints.push(Taint { key: key.to_owned(), value: value.to_owned(), effect });
        self
    }

    pub fn deleting(mut self) -> Self {
        self.0.deleting = true;
        self
    }

    pub fn volume_limit(mut self, driver: &str, count: u32) -> Self {
        self.0.volume_limits.insert(driver.into(), count);
        self
    }
}
