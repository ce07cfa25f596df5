//! An instance as a machine: what is certain of it, and what its type and node class add.

use std::collections::BTreeMap;

use karpenter_api::{EC2NodeClass, labels};
use karpenter_core::labels::{CAPACITY_TYPE, ZONE};
use karpenter_core::{InstanceType, Resources};
use karpenter_ec2::labels as aws_labels;
use karpenter_provider::Machine;

use crate::calls::{Instance, InstanceState, PlacementGroup};
use crate::instances::provider_id;
use crate::launch::template::EFA;

/// What holds of an instance whatever else is known.
pub(super) fn describe(
    instance: &Instance,
    kind: Option<&InstanceType>,
    class: Option<&EC2NodeClass>,
    bought: &str,
) -> Machine {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let (mut capacity, mut allocatable) = (Resources::new(), Resources::new());
    if let Some(kind) = kind {
        let reservation_keys = [
            aws_labels::CAPACITY_RESERVATION_ID,
            aws_labels::CAPACITY_RESERVATION_TYPE,
            aws_labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
        ];
        for (key, requirement) in kind.requirements.iter().filter(|(key, _)| !reservation_keys.contains(key)) {
            if let (false, 1, Some(value)) = (requirement.open, requirement.values.len(), requirement.values.first()) {
                found.insert(key.to_owned(), value.to_string());
            }
        }
        let real = |resources: Resources| {
            let mut real = resources.without_zeros();
            if instance.efa_interfaces == 0 {
                real.0.remove(EFA);
            }
            real
        };
        (capacity, allocatable) = (real(kind.capacity.clone()), real(kind.allocatable()));
    }
    found.insert(ZONE.to_owned(), instance.zone.clone());
    let subnets = class.and_then(|class| class.status.as_ref()?.subnets.as_ref());
    let here = subnets.into_iter().flatten().find(|subnet| subnet.zone == instance.zone);
    if let Some(zone_id) = here.and_then(|subnet| subnet.zone_id.clone()).filter(|id| !id.is_empty()) {
        found.insert(aws_labels::ZONE_ID.to_owned(), zone_id);
    }
    found.insert(CAPACITY_TYPE.to_owned(), bought.to_owned());
    let tenancy = instance.tenancy.clone().filter(|tenancy| !tenancy.is_empty());
    found.insert(aws_labels::TENANCY.to_owned(), tenancy.unwrap_or_else(|| "default".to_owned()));
    let tag = |key: &str| instance.tags.get(key).cloned();
    if let Some(pool) = tag(labels::NODEPOOL) {
        found.insert(labels::NODEPOOL.to_owned(), pool);
    }
    Machine {
        provider_id: provider_id(&instance.zone, &instance.id),
        image_id: instance.image_id.clone(),
        labels: found,
        annotations: BTreeMap::new(),
        capacity,
        allocatable,
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        capacity_type: bought.to_owned(),
        launched_at: instance.launched_at,
        deleting: matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated),
        node_claim: tag(labels::NODECLAIM_TAG),
        node_pool: tag(labels::NODEPOOL),
        node_class: tag(labels::EC2_NODE_CLASS),
        cluster: tag(labels::EKS_CLUSTER_NAME_TAG),
    }
}

pub(super) fn group_labels(machine: &mut Machine, group: &PlacementGroup, partition: Option<u32>) {
    machine.labels.insert(aws_labels::PLACEMENT_GROUP_ID.to_owned(), group.id.clone());
    if group.strategy == "partition" {
        let partition = partition.map(|partition| partition.to_string()).unwrap_or_default();
        machine.labels.insert(aws_labels::PLACEMENT_GROUP_PARTITION.to_owned(), partition);
    }
}
