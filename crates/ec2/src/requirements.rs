//! The labels a node of a type can have, as requirements.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::labels::{
    ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, REGION, RESERVED, SPOT, WINDOWS_BUILD, ZONE,
};
use karpenter_core::{Requirement, Requirements};

use crate::catalogue::{CapacityClass, EbsOptimization, TypeFacts};
use crate::labels;
use crate::nodeclass::{CapacityReservation, NodeClassFacts, PlacementGroup, PlacementStrategy};
use crate::texts::Texts;
use crate::zones::Zones;

/// A type's requirements in the making. A label that does not apply is there too, as one that does not exist: the
/// type decides it, so a pod that asks for it cannot have the type.
struct Draft<'t> {
    texts: &'t mut Texts,
    requirements: Requirements,
}

impl Draft<'_> {
    fn set(&mut self, key: &str, requirement: Arc<Requirement>) {
        let key = self.texts.get(key);
        self.requirements.0.insert(key, requirement);
    }

    fn one(&mut self, key: &str, value: &str) {
        let requirement = self.texts.one(value);
        self.set(key, requirement);
    }

    fn maybe(&mut self, key: &str, value: Option<impl AsRef<str>>) {
        match value {
            Some(value) => self.one(key, value.as_ref()),
            None => {
                let absent = self.texts.absent();
                self.set(key, absent);
            }
        }
    }

    fn any_of<'a>(&mut self, key: &str, values: impl IntoIterator<Item = &'a str>) {
        let requirement = self.texts.one_of(values);
        self.set(key, requirement);
    }
}

pub(crate) fn requirements(
    facts: &TypeFacts,
    region: &str,
    class: &NodeClassFacts,
    zones: &Zones,
    offered: &BTreeSet<Arc<str>>,
    texts: &mut Texts,
) -> Requirements {
    let reservations: Vec<&CapacityReservation> =
        class.capacity_reservations.iter().filter(|r| r.instance_type == facts.name).collect();
    let mut draft = Draft { texts, requirements: Requirements::new() };
    draft.one(INSTANCE_TYPE, &facts.name);
    draft.maybe(ARCH, facts.kubernetes_arch());
    draft.any_of(OS, operating_system(facts, class));
    draft.maybe(WINDOWS_BUILD, class.ami_family.windows_build());
    draft.one(REGION, region);
    place(&mut draft, zones, offered);
    let classes = facts.usage_classes.iter().filter_map(|class| capacity_type(*class));
    draft.any_of(CAPACITY_TYPE, classes.chain((!reservations.is_empty()).then_some(RESERVED)));
    draft.any_of(labels::TENANCY, labels::TENANCIES);
    name_parts(&mut draft, &facts.name);
    processor_and_memory(&mut draft, facts);
    network_and_disks(&mut draft, facts);
    devices(&mut draft, facts);
    reserved(&mut draft, &reservations);
    if let Some(group) = &class.placement_group {
        placement(&mut draft, group);
    }
    draft.requirements.0.shrink_to_fit();
    draft.requirements
}

/// The capacity type label of an offering; capacity blocks are offered as reservations only.
pub(crate) fn capacity_type(class: CapacityClass) -> Option<&'static str> {
    match class {
        CapacityClass::OnDemand => Some(ON_DEMAND),
        CapacityClass::Spot => Some(SPOT),
        CapacityClass::CapacityBlock => None,
    }
}

/// Windows has no images for arm64: such a type has no operating system to offer and matches nothing.
fn operating_system(facts: &TypeFacts, class: &NodeClassFacts) -> Option<&'static str> {
    match (class.ami_family.is_windows(), facts.kubernetes_arch()) {
        (false, _) => Some("linux"),
        (true, Some("amd64")) => Some("windows"),
        (true, _) => None,
    }
}

/// Zones that both sell the type and hold a subnet of the node class.
fn place(draft: &mut Draft<'_>, zones: &Zones, offered: &BTreeSet<Arc<str>>) {
    let usable: Vec<_> = zones.with_subnets.iter().filter(|(zone, _)| offered.contains(*zone)).collect();
    draft.any_of(ZONE, usable.iter().map(|(zone, _)| &***zone));
    let ids: Vec<&str> = usable.iter().filter_map(|(_, zone)| zone.id.as_deref()).collect();
    if !ids.is_empty() {
        draft.any_of(labels::ZONE_ID, ids);
    }
}

/// `u-6tb1.metal`: category u, generation 1, family u-6tb1, size metal.
fn name_parts(draft: &mut Draft<'_>, name: &str) {
    let (category, generation) = category_and_generation(name).unzip();
    draft.maybe(labels::CATEGORY, category);
    draft.maybe(labels::GENERATION, generation);
    let family = name.split('.').next().unwrap_or(name);
    let parts = name.split_once('.').filter(|(_, size)| !size.contains('.'));
    draft.maybe(labels::FAMILY, parts.map(|(family, _)| family));
    draft.maybe(labels::SIZE, parts.map(|(_, size)| size));
    draft.one(labels::CAPABILITY_FLEX, if family.contains("-flex") { "true" } else { "false" });
}

/// Letters, an optional size in terabytes as in `-6tb`, digits, anything, a dot.
fn category_and_generation(name: &str) -> Option<(&str, &str)> {
    let (category, rest) = split_while(name, |c| c.is_ascii_lowercase())?;
    let after_size = rest.strip_prefix('-').and_then(|rest| {
        let (_, rest) = split_while(rest, |c| c.is_ascii_digit())?;
        rest.strip_prefix("tb")
    });
    let (generation, rest) = split_while(after_size.unwrap_or(rest), |c| c.is_ascii_digit())?;
    rest.contains('.').then_some((category, generation))
}

/// The non-empty beginning for which `wanted` holds, and the rest.
fn split_while(text: &str, wanted: impl Fn(char) -> bool) -> Option<(&str, &str)> {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn processor_and_memory(draft: &mut Draft<'_>, facts: &TypeFacts) {
    draft.one(labels::CPU, &facts.vcpus.to_string());
    draft.one(labels::MEMORY, &facts.memory_mib.to_string());
    let manufacturer = facts.cpu_manufacturer.as_deref().unwrap_or_default();
    draft.one(labels::CPU_MANUFACTURER, &dashed(manufacturer));
    draft.one(labels::CPU_CLOCK_MHZ, &facts.clock_mhz.unwrap_or(0).to_string());
    draft.one(labels::HYPERVISOR, facts.hypervisor.as_deref().unwrap_or_default());
    draft.maybe(labels::NITRO_SANDBOX, facts.nitro_enclaves.map(truth));
}

fn network_and_disks(draft: &mut Draft<'_>, facts: &TypeFacts) {
    draft.one(labels::ENCRYPTION_IN_TRANSIT, truth(facts.encryption_in_transit));
    draft.maybe(labels::NETWORK_BANDWIDTH, facts.network_mbps.map(|mbps| mbps.to_string()));
    let by_default = facts.ebs_optimized == EbsOptimization::Default;
    let ebs = facts.ebs_max_mbps.filter(|_| by_default);
    draft.maybe(labels::EBS_BANDWIDTH, ebs.map(|mbps| mbps.to_string()));
    let nvme = (facts.local_disk_gb > 0 && facts.local_disk_is_nvme).then_some(facts.local_disk_gb);
    draft.maybe(labels::LOCAL_NVME, nvme.map(|gb| gb.to_string()));
}

/// A label holds one value, so only a type with a single kind of device has it.
fn devices(draft: &mut Draft<'_>, facts: &TypeFacts) {
    let gpu = match facts.gpus.as_slice() {
        [gpu] => Some(gpu),
        _ => None,
    };
    draft.maybe(labels::GPU_NAME, gpu.map(|gpu| dashed(&gpu.name)));
    draft.maybe(labels::GPU_MANUFACTURER, gpu.map(|gpu| dashed(&gpu.manufacturer)));
    draft.maybe(labels::GPU_COUNT, gpu.map(|gpu| gpu.count.to_string()));
    draft.maybe(labels::GPU_MEMORY, gpu.map(|gpu| gpu.memory_mib.to_string()));

    let neuron: Vec<_> = facts.neuron_devices().collect();
    let inference: Vec<_> = facts.inference_devices().collect();
    let accelerator = match (neuron.as_slice(), inference.as_slice()) {
        ([device], _) => Some((*device, "aws".to_owned())),
        ([], [device]) => Some((*device, dashed(&device.manufacturer))),
        _ => None,
    };
    draft.maybe(labels::ACCELERATOR_NAME, accelerator.as_ref().map(|(device, _)| dashed(&device.name)));
    draft.maybe(labels::ACCELERATOR_MANUFACTURER, accelerator.as_ref().map(|(_, maker)| maker));
    draft.maybe(labels::ACCELERATOR_COUNT, accelerator.as_ref().map(|(device, _)| device.count.to_string()));
}

fn reserved(draft: &mut Draft<'_>, reservations: &[&CapacityReservation]) {
    draft.any_of(labels::CAPACITY_RESERVATION_ID, reservations.iter().map(|r| &*r.id));
    draft.any_of(labels::CAPACITY_RESERVATION_TYPE, reservations.iter().map(|r| r.kind.as_str()));
    draft.any_of(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, reservations.iter().map(|r| truth(r.interruptible)));
}

/// Partitions are topology domains, so the scheduler must be able to see them all.
fn placement(draft: &mut Draft<'_>, group: &PlacementGroup) {
    draft.one(labels::PLACEMENT_GROUP_ID, &group.id);
    if let PlacementStrategy::Partition { count: count @ 1.. } = group.strategy {
        let partitions: Vec<String> = (1..=count).map(|n| n.to_string()).collect();
        draft.any_of(labels::PLACEMENT_GROUP_PARTITION, partitions.iter().map(String::as_str));
    }
}

pub(crate) fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// `NVIDIA` → `nvidia`, `Radeon Pro V520` → `radeon-pro-v520`.
fn dashed(text: &str) -> String {
    text.replace(' ', "-").to_lowercase()
}

#[cfg(test)]
mod tests;
