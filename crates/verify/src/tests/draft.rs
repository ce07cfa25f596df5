//! Plans for the tests, sound unless a test bends them.

use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ON_DEMAND, SPOT, ZONE};
use karpenter_core::plan::{Launch, LeftOver, NewNode, Plan, Reason};
use karpenter_core::{Quantity, Requirement, Requirements, Resources, World};
use karpenter_testkit::fake::ZONES;
use karpenter_testkit::{WorldBuilder, quantity};

pub(super) struct Draft {
    pub(super) world: World,
    pub(super) plan: Plan,
}

pub(super) fn draft(world: WorldBuilder) -> Draft {
    Draft { world: world.build(), plan: Plan::default() }
}

impl Draft {
    fn pod(&self, name: &str) -> usize {
        let found = self.world.pods.iter().position(|pod| &*pod.name == name);
        found.expect("the test's world has the pod")
    }

    pub(super) fn on(mut self, node: &str, pods: &[&str]) -> Self {
        let position = self.world.nodes.iter().position(|n| &*n.name == node);
        let pods: Vec<usize> = pods.iter().map(|pod| self.pod(pod)).collect();
        self.plan.existing.insert(position.expect("the test's world has the node"), pods);
        self
    }

    pub(super) fn left_over(mut self, pods: &[&str]) -> Self {
        for pod in pods {
            let pod = self.pod(pod);
            self.plan.left_over.push(LeftOver { pod, reason: Reason::NoPools, nearest_miss: None });
        }
        self
    }

    pub(super) fn ignored(mut self, pods: &[&str]) -> Self {
        for pod in pods {
            let pod = self.pod(pod);
            let reason = Reason::Invalid { message: "test".to_owned() };
            self.plan.ignored.push(LeftOver { pod, reason, nearest_miss: None });
        }
        self
    }

    /// A node of the first pool that may become either type, anywhere.
    pub(super) fn fresh(self, pods: &[&str]) -> Self {
        self.fresh_in(pods, &["small", "large"], &ZONES)
    }

    pub(super) fn fresh_in(self, pods: &[&str], types: &[&str], zones: &[&str]) -> Self {
        self.fresh_of(0, pods, types, zones)
    }

    /// As the catalogue's prices go, the first type listed is the cheapest, spot is preferred and zones go by name.
    pub(super) fn fresh_of(mut self, pool: usize, pods: &[&str], types: &[&str], zones: &[&str]) -> Self {
        let pods: Vec<usize> = pods.iter().map(|pod| self.pod(pod)).collect();
        let is = &self.world.pools[pool];
        let find = |name: &&str| is.instance_types.iter().position(|kind| *kind.name == **name);
        let spot = zones.iter().any(|zone| *zone != "test-zone-3");
        let capacity_types = if spot { vec![ON_DEMAND, SPOT] } else { vec![ON_DEMAND] };
        let mut requirements = Requirements::new();
        requirements.add(INSTANCE_TYPE, Requirement::one_of(types.iter().copied()));
        requirements.add(ZONE, Requirement::one_of(zones.iter().copied()));
        requirements.add(CAPACITY_TYPE, Requirement::one_of(capacity_types));
        let mut labels = is.labels.clone();
        labels.insert(NODEPOOL.to_owned(), is.name.to_string());
        labels.insert(is.node_class_label.0.to_string(), is.node_class_label.1.to_string());
        let mut requests = Resources::new();
        pods.iter().for_each(|pod| requests.add(&self.world.pods[*pod].shape.requests));
        let instance_types: Vec<usize> = types.iter().map(|name| find(name).expect("the pool has the type")).collect();
        let launch = Launch {
            instance_type: types[0].into(),
            zone: zones[0].into(),
            capacity_type: if spot { SPOT } else { ON_DEMAND }.into(),
            price: is.instance_types[instance_types[0]].offerings[0].price,
        };
        self.plan.new_nodes.push(NewNode {
            pool,
            pods,
            requirements,
            labels,
            instance_types: instance_types.into(),
            requests,
            min_values_relaxed: false,
            reservations: Vec::new(),
            launch,
        });
        self
    }

    /// Requests of the last node with this much more for daemons.
    pub(super) fn with_daemons(mut self, more: &[(&str, &str)]) -> Self {
        let node = self.last();
        for (name, text) in more {
            let sum: Quantity = node.requests.get(name) + quantity(text);
            node.requests.set(name, sum);
        }
        self
    }

    pub(super) fn last(&mut self) -> &mut NewNode {
        self.plan.new_nodes.last_mut().expect("a node was drafted")
    }

    pub(super) fn bend(mut self, change: impl FnOnce(&mut NewNode)) -> Self {
        change(self.last());
        self
    }

    #[track_caller]
    pub(super) fn sound(&self) {
        super::assert_sound(&self.world, &self.plan);
    }

    #[track_caller]
    pub(super) fn breaks(&self, expected: crate::Violation) {
        super::assert_only(&self.world, &self.plan, expected);
    }
}
