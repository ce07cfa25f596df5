//! NodePools, with the instance types their node class can launch.

use std::sync::Arc;

use crate::instance::InstanceType;
use crate::labels::Labels;
use crate::requirement::Expression;
use crate::resources::Resources;
use crate::taints::Taint;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub name: Arc<str>,
    /// Higher is used first; unset is 0.
    pub weight: i32,
    /// Labels of the NodeClaim template as the user wrote them.
    pub labels: Labels,
    /// The label that names the node class, e.g. `karpenter.k8s.aws/ec2nodeclass`, and its value.
    pub node_class_label: (Arc<str>, Arc<str>),
    pub taints: Vec<Taint>,
    pub requirements: Vec<Expression>,
    /// What all its nodes together may have, `nodes` counting nodes. An absent resource is not limited.
    pub limits: Resources,
    /// Every type of the node class, unavailable ones included.
    pub instance_types: Arc<[Arc<InstanceType>]>,
}
