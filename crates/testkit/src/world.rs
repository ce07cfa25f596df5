//! Putting the pieces together.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::pod::{NodeTerm, PodShape};
use karpenter_core::settings::Settings;
use karpenter_core::storage::{BindingMode, StorageClass, Volume, VolumeClaim};
use karpenter_core::world::{DaemonSet, DisruptionBudget, Service};
use karpenter_core::{Labels, Pod, World};

use crate::express::{labels, node_term};
use crate::pod::owner_uid;
use crate::{NodeBuilder, PodBuilder, PoolBuilder, fake};

/// An empty cluster of the fake provider at 2026-01-02T00:00:00Z.
pub fn world() -> WorldBuilder {
    WorldBuilder(World {
        now: "2026-01-02T00:00:00Z".parse().expect("a constant"),
        settings: Settings::default(),
        vocabulary: Arc::new(fake::vocabulary()),
        pools: Vec::new(),
        nodes: Vec::new(),
        pods: Vec::new(),
        daemon_sets: Vec::new(),
        namespaces: Default::default(),
        storage: Default::default(),
        services: Vec::new(),
        workload_selectors: Default::default(),
        disruption_budgets: Vec::new(),
    })
}

#[derive(Clone, Debug)]
pub struct WorldBuilder(pub World);

impl WorldBuilder {
    pub fn pool(mut self, pool: PoolBuilder) -> Self {
        self.0.pools.push(pool.0);
        self
    }

    pub fn node(mut self, node: NodeBuilder) -> Self {
        self.0.nodes.push(node.0);
        self
    }

    pub fn pod(mut self, pod: PodBuilder) -> Self {
        self.add(pod.build());
        self
    }

    pub fn pods(mut self, pods: impl IntoIterator<Item = Pod>) -> Self {
        pods.into_iter().for_each(|pod| self.add(pod));
        self
    }

    pub fn replicas(self, count: usize, pod: PodBuilder) -> Self {
        self.pods(pod.replicas(count))
    }

    fn add(&mut self, mut pod: Pod) {
        if pod.created == Timestamp::MIN {
            let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a constant");
            pod.created = start + SignedDuration::from_secs(self.0.pods.len() as i64);
        }
        let name = pod.namespace.to_string();
        let own = labels(&[("kubernetes.io/metadata.name", &name)]);
        self.0.namespaces.entry(pod.namespace.clone()).or_insert(own);
        self.0.pods.push(pod);
    }

    pub fn namespace(mut self, name: &str, more: &[(&str, &str)]) -> Self {
        let mut all: Labels = labels(more);
        all.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        self.0.namespaces.insert(name.into(), all);
        self
    }

    /// A DaemonSet whose pods look like this one; name and namespace are the pod's.
    pub fn daemon_set(mut self, template: PodBuilder) -> Self {
        let pod = template.build();
        self.0.daemon_sets.push(DaemonSet {
            namespace: pod.namespace.clone(),
            uid: owner_uid("DaemonSet", &pod.name).into(),
            name: pod.name,
            required_node_affinity: pod.shape.required_node_affinity.clone(),
            template: pod.shape,
        });
        self
    }

    /// A claim bound to a volume that can be reached where one of the terms holds.
    pub fn bound_claim(mut self, name: &str, driver: &str, reachable: Vec<NodeTerm>) -> Self {
        let volume: Arc<str> = format!("pv-{name}").into();
        let claim = VolumeClaim { volume: Some(volume.clone()), bind_completed: true, ..VolumeClaim::default() };
        self.0.storage.claims.insert(("default".into(), name.into()), claim);
        let volume_is = Volume { node_affinity: reachable, driver: Some(driver.into()), ..Volume::default() };
        self.0.storage.volumes.insert(volume, volume_is);
        self
    }

    pub fn zonal_claim(self, name: &str, zone: &str) -> Self {
        let in_zone = crate::express::is_in(karpenter_core::labels::ZONE, &[zone]);
        self.bound_claim(name, "ebs.csi.aws.com", vec![node_term(vec![in_zone])])
    }

    /// A claim that is bound once its pod has a node.
    pub fn waiting_claim(mut self, name: &str, class: &str) -> Self {
        let claim = VolumeClaim { class: Some(class.into()), ..VolumeClaim::default() };
        self.0.storage.claims.insert(("default".into(), name.into()), claim);
        self
    }

    /// A class whose volumes are made in one of these zones; in any where none is given.
    pub fn storage_class(mut self, name: &str, binding: BindingMode, zones: &[&str]) -> Self {
        let topology = vec![crate::express::is_in(karpenter_core::labels::ZONE, zones)];
        let class = StorageClass {
            provisioner: "ebs.csi.aws.com".into(),
            binding,
            allowed_topologies: if zones.is_empty() { Vec::new() } else { vec![topology] },
        };
        self.0.storage.classes.insert(name.into(), class);
        self
    }

    pub fn service(mut self, name: &str, selector: Option<&[(&str, &str)]>) -> Self {
        self.0.services.push(Service {
            namespace: "default".into(),
            name: name.into(),
            selector: selector.map(labels),
        });
        self
    }

    pub fn disruption_budget(mut self, budget: DisruptionBudget) -> Self {
        self.0.disruption_budgets.push(budget);
        self
    }

    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.0.settings);
        self
    }

    pub fn build(self) -> World {
        self.0
    }
}

/// Lets equal shapes share one allocation, as the index keeps them.
pub fn share_shapes(world: &mut World) {
    let mut seen: std::collections::HashMap<PodShape, Arc<PodShape>> = Default::default();
    for pod in &mut world.pods {
        let shared = seen.entry((*pod.shape).clone()).or_insert_with(|| pod.shape.clone());
        pod.shape = shared.clone();
    }
}

/// The same world with pods, nodes, pools and daemon sets listed in another order.
pub fn reordered(world: &World, seed: u64) -> World {
    let mut dice = crate::dice::Dice::new(seed);
    let mut other = world.clone();
    shuffle(&mut other.pods, &mut dice);
    shuffle(&mut other.nodes, &mut dice);
    shuffle(&mut other.pools, &mut dice);
    shuffle(&mut other.daemon_sets, &mut dice);
    other
}

fn shuffle<T>(items: &mut [T], dice: &mut crate::dice::Dice) {
    for last in (1..items.len()).rev() {
        items.swap(last, dice.below(last + 1));
    }
}
