//! The kubelet settings of a node class as they come out on one instance type.
//!
//! `maxPods` and what is reserved may be formulas over the type ([`expression`]). There is one way from setting to value,
//! [`resolve`]: what the scheduler counts on and what a launch template tells the node are the same.

pub mod expression;

use std::collections::BTreeMap;

use karpenter_core::Quantity;

use crate::capacity;
use crate::catalogue::TypeFacts;
use crate::nodeclass::{KubeletFacts, MaxPods, NodeClassFacts, Reserved};
use crate::overhead::ReservedAmounts;
use crate::settings::Ec2Settings;
use expression::{ExpressionError, Formulas, Machine};
pub use karpenter_structural::cel::Formula;

/// What the settings of a class come to on a type, formulas evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resolved {
    pub max_pods: Option<i32>,
    pub kube_reserved: BTreeMap<String, Quantity>,
    pub system_reserved: BTreeMap<String, Quantity>,
}

/// Without the gate a formula counts as not set, and what is written as an amount stays in force.
pub fn resolve(
    facts: &TypeFacts,
    class: &NodeClassFacts,
    settings: &Ec2Settings,
    formulas: &Formulas,
) -> Result<Resolved, ExpressionError> {
    let on = settings.kubelet_expressions;
    let default_pods = capacity::default_pods(facts, class, settings.reserved_enis);
    let mut machine = Machine::new(facts, default_pods);
    let max_pods = match &class.kubelet.max_pods {
        Some(MaxPods::Count(count)) => Some(*count),
        Some(MaxPods::Expression(source)) if on => Some(machine.max_pods(source, formulas)?),
        Some(MaxPods::Expression(_)) | None => None,
    };
    // What is reserved may depend on how many pods there will be.
    machine.max_pods = max_pods.map_or(default_pods, i64::from);
    let amounts = |field: &'static str, given: &BTreeMap<String, Reserved>| {
        let mut amounts = BTreeMap::new();
        for (name, reserved) in given {
            match reserved {
                Reserved::Amount(quantity) => amounts.insert(name.clone(), *quantity),
                Reserved::Expression(source) if on => {
                    amounts.insert(name.clone(), machine.reserved(field, name, source, formulas)?)
                }
                Reserved::Expression(_) => None,
            };
        }
        Ok(amounts)
    };
    let KubeletFacts { kube_reserved, system_reserved, .. } = &class.kubelet;
    Ok(Resolved {
        max_pods,
        kube_reserved: amounts("kubeReserved", kube_reserved)?,
        system_reserved: amounts("systemReserved", system_reserved)?,
    })
}

pub(crate) struct Limits {
    pub(crate) pods: i64,
    /// The pods for which the kubelet's memory is reserved.
    pub(crate) pods_for_memory: i64,
    pub(crate) reserved: ReservedAmounts,
}

pub(crate) fn limits(
    facts: &TypeFacts,
    class: &NodeClassFacts,
    settings: &Ec2Settings,
    formulas: &Formulas,
) -> Result<Limits, ExpressionError> {
    let resolved = resolve(facts, class, settings, formulas)?;
    let pods = capacity::pods(facts, class, settings.reserved_enis, resolved.max_pods);
    Ok(Limits {
        pods,
        pods_for_memory: if class.ami_family.reserves_memory_by_interfaces() {
            capacity::pods_by_interfaces(facts, 0, class.network_interfaces.as_deref())
        } else {
            pods
        },
        reserved: ReservedAmounts { kube: resolved.kube_reserved, system: resolved.system_reserved },
    })
}

#[cfg(test)]
mod tests;
