//! The kubelet settings of a node class as they come out on one instance type.

use std::collections::BTreeMap;

use karpenter_core::Quantity;

use crate::capacity;
use crate::catalogue::TypeFacts;
use crate::nodeclass::{MaxPods, NodeClassFacts, Reserved};
use crate::overhead::ReservedAmounts;
use crate::settings::Ec2Settings;

pub(crate) struct Limits {
    pub(crate) pods: i64,
    /// The pods for which the kubelet's memory is reserved.
    pub(crate) pods_for_memory: i64,
    pub(crate) reserved: ReservedAmounts,
}

pub(crate) fn limits(facts: &TypeFacts, class: &NodeClassFacts, settings: &Ec2Settings) -> Limits {
    let max_pods = match &class.kubelet.max_pods {
        Some(MaxPods::Count(count)) => Some(*count),
        Some(MaxPods::Expression(_)) | None => None,
    };
    let pods = capacity::pods(facts, class, settings.reserved_enis, max_pods);
    Limits {
        pods,
        pods_for_memory: if class.ami_family.reserves_memory_by_interfaces() {
            capacity::pods_by_interfaces(facts, 0, class.network_interfaces.as_deref())
        } else {
            pods
        },
        reserved: ReservedAmounts {
            kube: amounts(&class.kubelet.kube_reserved),
            system: amounts(&class.kubelet.system_reserved),
        },
    }
}

fn amounts(given: &BTreeMap<String, Reserved>) -> BTreeMap<String, Quantity> {
    let amount = |(name, reserved): (&String, &Reserved)| match reserved {
        Reserved::Amount(quantity) => Some((name.clone(), *quantity)),
        Reserved::Expression(_) => None,
    };
    given.iter().filter_map(amount).collect()
}
