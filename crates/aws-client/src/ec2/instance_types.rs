//! Instance types as the catalogue has them.

use std::sync::Arc;

use aws_sdk_ec2::types;
use karpenter_ec2::catalogue::{
    Accelerator, AcceleratorKind, CapacityClass, EbsOptimization, Gpu, NetworkCard, TypeFacts,
};

use crate::plain::count;

fn shared(text: Option<&str>) -> Arc<str> {
    text.unwrap_or_default().into()
}

fn wide(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// None for a type without a name.
pub(super) fn facts(found: &types::InstanceTypeInfo) -> Option<TypeFacts> {
    let processor = found.processor_info();
    let network = found.network_info();
    let storage = found.instance_storage_info();
    let ebs = found.ebs_info();
    let arch = processor.map(types::ProcessorInfo::supported_architectures).unwrap_or_default();
    let features = processor.map(types::ProcessorInfo::supported_features).unwrap_or_default();
    let strategies = found.placement_group_info().map(|info| info.supported_strategies()).unwrap_or_default();
    let ghz = processor.and_then(types::ProcessorInfo::sustained_clock_speed_in_ghz);
    let bare_metal = found.bare_metal().unwrap_or(false);
    Some(TypeFacts {
        name: found.instance_type()?.as_str().into(),
        arch: arch.iter().map(|arch| arch.as_str().into()).collect(),
        cpu_manufacturer: processor.and_then(types::ProcessorInfo::manufacturer).map(Into::into),
        clock_mhz: ghz.filter(|ghz| *ghz > 0.0).map(|ghz| (ghz * 1000.0).round() as u32),
        cpu_features: features.iter().map(|feature| feature.as_str().into()).collect(),
        vcpus: count(found.v_cpu_info().and_then(types::VCpuInfo::default_v_cpus)),
        memory_mib: wide(found.memory_info().and_then(types::MemoryInfo::size_in_mib)),
        hypervisor: found.hypervisor().filter(|_| !bare_metal).map(|hypervisor| hypervisor.as_str().into()),
        bare_metal,
        usage_classes: found
            .supported_usage_classes()
            .iter()
            .filter_map(|class| CapacityClass::parse(class.as_str()))
            .collect(),
        ipv4_per_eni: count(network.and_then(types::NetworkInfo::ipv4_addresses_per_interface)),
        default_network_card: count(network.and_then(types::NetworkInfo::default_network_card_index)) as usize,
        network_cards: network.map(cards).unwrap_or_default(),
        network_mbps: None,
        efa_max: network
            .filter(|network| network.efa_supported().unwrap_or(false))
            .map_or(0, |network| count(network.efa_info().and_then(types::EfaInfo::maximum_efa_interfaces))),
        ena: network
            .and_then(types::NetworkInfo::ena_support)
            .map(|support| *support != types::EnaSupport::Unsupported),
        branch_limits: None,
        encryption_in_transit: network.and_then(types::NetworkInfo::encryption_in_transit_supported).unwrap_or(false),
        nitro_enclaves: found.nitro_enclaves_support().map(|support| support.as_str() == "supported"),
        ebs_optimized: ebs
            .and_then(types::EbsInfo::ebs_optimized_support)
            .and_then(|support| EbsOptimization::parse(support.as_str()))
            .unwrap_or(EbsOptimization::Unsupported),
        ebs_max_mbps: ebs
            .and_then(types::EbsInfo::ebs_optimized_info)
            .and_then(|info| u32::try_from(info.maximum_bandwidth_in_mbps()?).ok()),
        local_disk_gb: wide(storage.and_then(types::InstanceStorageInfo::total_size_in_gb)),
        local_disk_is_nvme: storage
            .and_then(types::InstanceStorageInfo::nvme_support)
            .is_some_and(|support| support.as_str() != "unsupported"),
        gpus: found.gpu_info().map(gpus).unwrap_or_default(),
        accelerators: accelerators(found),
        placement_strategies: strategies.iter().map(|strategy| strategy.as_str().into()).collect(),
    })
}

/// In card order.
fn cards(network: &types::NetworkInfo) -> Vec<NetworkCard> {
    let mut all: Vec<&types::NetworkCardInfo> = network.network_cards().iter().collect();
    all.sort_by_key(|card| card.network_card_index());
    all.into_iter().map(|card| NetworkCard { max_enis: count(card.maximum_network_interfaces()) }).collect()
}

fn gpus(info: &types::GpuInfo) -> Vec<Gpu> {
    let memory = |device: &types::GpuDeviceInfo| count(device.memory_info().and_then(|memory| memory.size_in_mib()));
    let one = |device: &types::GpuDeviceInfo| Gpu {
        name: shared(device.name()),
        manufacturer: shared(device.manufacturer()),
        count: count(device.count()),
        memory_mib: memory(device).into(),
    };
    info.gpus().iter().map(one).collect()
}

/// Inferentia is reported twice, as inference devices and as neuron devices with their cores; it counts once, as the
/// latter. Neuron devices come without a maker.
fn accelerators(found: &types::InstanceTypeInfo) -> Vec<Accelerator> {
    let device = |kind, name: Option<&str>, manufacturer: Option<&str>, number: Option<i32>, cores: u32| Accelerator {
        kind,
        name: shared(name),
        manufacturer: shared(manufacturer),
        count: count(number),
        cores_per_device: cores,
    };
    let mut all = Vec::new();
    for one in found.neuron_info().map(|info| info.neuron_devices()).unwrap_or_default() {
        let cores = count(one.core_info().and_then(|info| info.count()));
        all.push(device(AcceleratorKind::Neuron, one.name(), Some("AWS"), one.count(), cores));
    }
    if all.is_empty() {
        for one in found.inference_accelerator_info().map(|info| info.accelerators()).unwrap_or_default() {
            all.push(device(AcceleratorKind::Inference, one.name(), one.manufacturer(), one.count(), 0));
        }
    }
    for one in found.fpga_info().map(|info| info.fpgas()).unwrap_or_default() {
        all.push(device(AcceleratorKind::Fpga, one.name(), one.manufacturer(), one.count(), 0));
    }
    for one in found.media_accelerator_info().map(|info| info.accelerators()).unwrap_or_default() {
        all.push(device(AcceleratorKind::Media, one.name(), one.manufacturer(), one.count(), 0));
    }
    all
}
