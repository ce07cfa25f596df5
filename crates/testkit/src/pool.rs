//! NodePools.

use std::sync::Arc;

use karpenter_core::requirement::Expression;
use karpenter_core::taints::Effect;
use karpenter_core::{InstanceType, Pool, Taint};

use crate::quantity;

/// The label that names the fake provider's node class.
pub const NODE_CLASS: &str = "karpenter.test.sh/testnodeclass";

/// A pool without requirements, taints or limits that can buy nothing yet.
pub fn pool(name: &str) -> PoolBuilder {
    PoolBuilder(Pool {
        name: name.into(),
        weight: 0,
        labels: Default::default(),
        node_class_label: (NODE_CLASS.into(), "default".into()),
        taints: Vec::new(),
        requirements: Vec::new(),
        limits: Default::default(),
        instance_types: Arc::new([]),
    })
}

#[derive(Clone, Debug)]
pub struct PoolBuilder(pub Pool);

impl PoolBuilder {
    pub fn weight(mut self, weight: i32) -> Self {
        self.0.weight = weight;
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn taint(self, key: &str) -> Self {
        self.taint_of(key, "", Effect::NoSchedule)
    }

    pub fn taint_of(mut self, key: &str, value: &str, effect: Effect) -> Self {
        self.0.taints.push(Taint { key: key.to_owned(), value: value.to_owned(), effect });
        self
    }

    pub fn require(mut self, expression: Expression) -> Self {
        self.0.requirements.push(expression);
        self
    }

    /// `nodes` limits their number.
    pub fn limit(mut self, resource: &str, text: &str) -> Self {
        self.0.limits.set(resource, quantity(text));
        self
    }

    pub fn types(mut self, types: Vec<InstanceType>) -> Self {
        self.0.instance_types = types.into_iter().map(Arc::new).collect();
        self
    }

    /// Types that several pools share.
    pub fn shared_types(mut self, types: &Arc<[Arc<InstanceType>]>) -> Self {
        self.0.instance_types = types.clone();
        self
    }
}
