//! Single changes to one field of one object, as data: what could have let a pod in.

use std::sync::Arc;

use karpenter_core::pod::WhenUnsatisfiable;
use karpenter_core::ports::HostPort;
use karpenter_core::requirement::Expression;
use karpenter_core::storage::{BindingMode, Storage};
use karpenter_core::{Operator, PodShape, Pool, Quantity, Taint, Toleration};

/// One field of one object. Positions are those of the manifest, which the world keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of the pod, or of the workload it was made from.
    Pod(PodChange),
    /// Of a pool, by position in `World::pools`.
    Pool(usize, PoolChange),
    StorageClass(Arc<str>, ClassChange),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodChange {
    /// What the pod as a whole takes from a node, overhead and all containers included.
    Request {
        resource: String,
        from: Quantity,
        to: Quantity,
    },
    /// One more.
    Toleration(Toleration),
    /// Another value, or the entry removed.
    Selector {
        key: String,
        from: String,
        to: Option<String>,
    },
    NoSelector,
    /// Of one expression of the required node affinity.
    AffinityValues {
        term: usize,
        expression: usize,
        from: Vec<Arc<str>>,
        to: Vec<Arc<str>>,
    },
    NoAffinityExpression {
        term: usize,
        expression: usize,
        from: Expression,
    },
    /// One of several alternatives removed.
    NoAffinityTerm {
        term: usize,
    },
    /// The required part of the node affinity removed.
    NoNodeAffinity,
    /// One required term removed.
    NoPodAffinityTerm {
        term: usize,
    },
    /// All required terms removed.
    NoPodAffinity,
    NoPodAntiAffinityTerm {
        term: usize,
    },
    NoPodAntiAffinity,
    MaxSkew {
        constraint: usize,
        from: i32,
        to: i32,
    },
    /// A hard spread constraint turned into a wish.
    Anyway {
        constraint: usize,
    },
    NoSpread,
    NoHostPort {
        port: usize,
        from: HostPort,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolChange {
    /// One value more in `In`, or one less in `NotIn`.
    Values {
        requirement: usize,
        from: Vec<Arc<str>>,
        to: Vec<Arc<str>>,
    },
    NoRequirement {
        requirement: usize,
        from: Expression,
    },
    /// One more.
    Requirement(Expression),
    /// Of the template.
    Label {
        key: String,
        from: String,
        to: Option<String>,
    },
    NoTaint {
        taint: usize,
        from: Taint,
    },
    NoTaints,
    /// Raised, or removed.
    Limit {
        resource: String,
        from: Quantity,
        to: Option<Quantity>,
    },
    NoLimits,
    /// Lowered, or removed.
    MinValues {
        requirement: usize,
        from: u32,
        to: Option<u32>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassChange {
    WaitForFirstConsumer,
    NoAllowedTopologies,
}

impl Change {
    /// How large a change is, so that the nearest can be told: small numbers are near.
    ///
    /// An amount counts by the part of it that has to go (or come): 100, and 900 for all of it. A number moved by one
    /// is 150 and 50 for each further step, one entry more in a list 200, one value replaced 300, a constraint turned
    /// into a wish 350, one entry removed 400, a whole list or map removed 600. What concerns every pod of a pool costs
    /// 50 more than what concerns the pod alone, and a StorageClass, whose fields cannot be changed in place, 300 more.
    pub fn size(&self) -> u32 {
        match self {
            Self::Pod(change) => change.size(),
            Self::Pool(_, change) => 50 + change.size(),
            Self::StorageClass(_, ClassChange::WaitForFirstConsumer) => 300 + REPLACED,
            Self::StorageClass(_, ClassChange::NoAllowedTopologies) => 300 + ALL_REMOVED,
        }
    }

    pub(crate) fn on_storage(&self, storage: &mut Storage) {
        let Self::StorageClass(name, change) = self else { return };
        let Some(class) = storage.classes.get_mut(name) else { return };
        match change {
            ClassChange::WaitForFirstConsumer => class.binding = BindingMode::WaitForFirstConsumer,
            ClassChange::NoAllowedTopologies => class.allowed_topologies.clear(),
        }
    }
}

const STEP: u32 = 50;
const ADDED: u32 = 200;
const REPLACED: u32 = 300;
const SOFTENED: u32 = 350;
const REMOVED: u32 = 400;
const ALL_REMOVED: u32 = 600;

/// 100 and 900 for all of `whole`, more for more than all.
fn amount(part: Quantity, whole: Quantity) -> u32 {
    let whole = whole.nanos().max(1);
    100 + (part.nanos().max(0) * 900 / whole).min(10_000) as u32
}

fn steps(count: u32) -> u32 {
    100 + STEP.saturating_mul(count.min(1000))
}

fn entry(to: Option<&String>) -> u32 {
    if to.is_some() { REPLACED } else { REMOVED }
}

impl PodChange {
    fn size(&self) -> u32 {
        match self {
            Self::Request { from, to, .. } => amount(*from - *to, *from),
            // Tolerating everything is one entry too, but a far step.
            Self::Toleration(toleration) => ADDED + if toleration.key.is_empty() { REPLACED } else { 0 },
            Self::Selector { to, .. } => entry(to.as_ref()),
            Self::AffinityValues { .. } => REPLACED,
            Self::NoAffinityExpression { .. }
            | Self::NoAffinityTerm { .. }
            | Self::NoPodAffinityTerm { .. }
            | Self::NoPodAntiAffinityTerm { .. }
            | Self::NoHostPort { .. } => REMOVED,
            Self::NoSelector
            | Self::NoNodeAffinity
            | Self::NoPodAffinity
            | Self::NoPodAntiAffinity
            | Self::NoSpread => ALL_REMOVED,
            Self::MaxSkew { from, to, .. } => steps(to.abs_diff(*from)),
            Self::Anyway { .. } => SOFTENED,
        }
    }

    pub(crate) fn apply(&self, shape: &mut PodShape) {
        match self {
            Self::Request { resource, to, .. } => shape.requests.set(resource, *to),
            Self::Toleration(toleration) => shape.tolerations.push(toleration.clone()),
            Self::Selector { key, to: Some(to), .. } => drop(shape.node_selector.insert(key.clone(), to.clone())),
            Self::Selector { key, to: None, .. } => drop(shape.node_selector.remove(key)),
            Self::NoSelector => shape.node_selector.clear(),
            Self::AffinityValues { term, expression, to, .. } => {
                shape.required_node_affinity[*term].expressions[*expression].values = to.clone();
            }
            Self::NoAffinityExpression { term, expression, .. } => {
                shape.required_node_affinity[*term].expressions.remove(*expression);
            }
            Self::NoAffinityTerm { term } => drop(shape.required_node_affinity.remove(*term)),
            Self::NoNodeAffinity => shape.required_node_affinity.clear(),
            Self::NoPodAffinityTerm { term } => drop(shape.required_pod_affinity.remove(*term)),
            Self::NoPodAffinity => shape.required_pod_affinity.clear(),
            Self::NoPodAntiAffinityTerm { term } => drop(shape.required_pod_anti_affinity.remove(*term)),
            Self::NoPodAntiAffinity => shape.required_pod_anti_affinity.clear(),
            Self::MaxSkew { constraint, to, .. } => shape.spread[*constraint].max_skew = *to,
            Self::Anyway { constraint } => shape.spread[*constraint].when = WhenUnsatisfiable::ScheduleAnyway,
            Self::NoSpread => shape.spread.clear(),
            Self::NoHostPort { port, .. } => drop(shape.host_ports.remove(*port)),
        }
    }
}

impl PoolChange {
    fn size(&self) -> u32 {
        match self {
            Self::Values { .. } | Self::Requirement(_) => ADDED,
            Self::NoRequirement { .. } | Self::NoTaint { .. } => REMOVED,
            Self::Label { to, .. } => entry(to.as_ref()),
            Self::NoTaints | Self::NoLimits => ALL_REMOVED,
            Self::Limit { from, to: Some(to), .. } => amount(*to - *from, *from),
            Self::Limit { to: None, .. } => REMOVED,
            Self::MinValues { from, to, .. } => steps(from.abs_diff(to.unwrap_or(0))),
        }
    }

    pub(crate) fn apply(&self, pool: &mut Pool) {
        match self {
            Self::Values { requirement, to, .. } => pool.requirements[*requirement].values = to.clone(),
            Self::NoRequirement { requirement, .. } => drop(pool.requirements.remove(*requirement)),
            Self::Requirement(expression) => pool.requirements.push(expression.clone()),
            Self::Label { key, to: Some(to), .. } => drop(pool.labels.insert(key.clone(), to.clone())),
            Self::Label { key, to: None, .. } => drop(pool.labels.remove(key)),
            Self::NoTaint { taint, .. } => drop(pool.taints.remove(*taint)),
            Self::NoTaints => pool.taints.clear(),
            Self::Limit { resource, to: Some(to), .. } => pool.limits.set(resource, *to),
            Self::Limit { resource, to: None, .. } => drop(pool.limits.0.remove(resource)),
            Self::NoLimits => pool.limits.0.clear(),
            Self::MinValues { requirement, to, .. } => pool.requirements[*requirement].min_values = *to,
        }
    }
}

/// A list with one value more, or less where it excludes.
pub(crate) fn with_value(expression: &Expression, value: &Arc<str>) -> Option<Vec<Arc<str>>> {
    let mut values = expression.values.clone();
    match expression.operator {
        Operator::In if !values.contains(value) => values.push(value.clone()),
        Operator::NotIn if values.contains(value) && values.len() > 1 => values.retain(|other| other != value),
        _ => return None,
    }
    Some(values)
}
