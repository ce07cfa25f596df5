//! An instance type as DescribeInstanceTypes answers.

use std::sync::Arc;

use anyhow::Context;
use karpenter_ec2::catalogue::{
    Accelerator, AcceleratorKind, CapacityClass, EbsOptimization, Gpu, NetworkCard, TypeFacts,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Record {
    instance_type: String,
    bare_metal: bool,
    hypervisor: Option<String>,
    supported_virtualization_types: Vec<String>,
    supported_usage_classes: Vec<String>,
    nitro_enclaves_support: Option<String>,
    processor_info: Processor,
    v_cpu_info: Cpus,
    memory_info: Memory,
    network_info: Network,
    ebs_info: Ebs,
    instance_storage_info: Option<Storage>,
    #[serde(default)]
    gpu_info: Gpus,
    #[serde(default)]
    neuron_info: Neurons,
    #[serde(default)]
    inference_accelerator_info: Accelerators,
    #[serde(default)]
    media_accelerator_info: Accelerators,
    #[serde(default)]
    fpga_info: Fpgas,
    placement_group_info: Placement,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Processor {
    manufacturer: Option<String>,
    #[serde(default)]
    supported_architectures: Vec<String>,
    #[serde(default)]
    supported_features: Vec<String>,
    sustained_clock_speed_in_ghz: Option<f64>,
}

#[derive(Deserialize)]
struct Cpus {
    #[serde(rename = "DefaultVCpus")]
    default: u32,
}

#[derive(Deserialize)]
struct Memory {
    #[serde(rename = "SizeInMiB")]
    mib: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Network {
    default_network_card_index: Option<usize>,
    ena_support: Option<String>,
    efa_info: Option<Efa>,
    #[serde(default)]
    encryption_in_transit_supported: bool,
    ipv4_addresses_per_interface: u32,
    network_cards: Vec<Card>,
}

#[derive(Deserialize)]
struct Efa {
    #[serde(rename = "MaximumEfaInterfaces")]
    maximum: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Card {
    network_card_index: usize,
    maximum_network_interfaces: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ebs {
    ebs_optimized_support: String,
    ebs_optimized_info: Option<EbsBandwidth>,
}

#[derive(Deserialize)]
struct EbsBandwidth {
    #[serde(rename = "MaximumBandwidthInMbps")]
    maximum: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Storage {
    #[serde(rename = "TotalSizeInGB")]
    total_gb: Option<u64>,
    nvme_support: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Gpus {
    gpus: Vec<Device>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Neurons {
    neuron_devices: Vec<Device>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Accelerators {
    accelerators: Vec<Device>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Fpgas {
    fpgas: Vec<Device>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Device {
    name: String,
    manufacturer: Option<String>,
    count: u32,
    memory_info: Option<Memory>,
    core_info: Option<Cores>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Cores {
    count: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Placement {
    #[serde(default)]
    supported_strategies: Vec<String>,
}

impl Record {
    /// What the provider asks EC2 for: hardware virtualisation and an architecture that nodes run on.
    pub(super) fn boots_our_images(&self) -> bool {
        let arches = &self.processor_info.supported_architectures;
        self.supported_virtualization_types.iter().any(|kind| kind == "hvm")
            && arches.iter().any(|arch| arch == "x86_64" || arch == "arm64")
    }

    pub(super) fn facts(self) -> anyhow::Result<TypeFacts> {
        let name = self.instance_type.clone();
        self.convert().with_context(|| format!("instance type {name}"))
    }

    fn convert(self) -> anyhow::Result<TypeFacts> {
        let processor = self.processor_info;
        let network = self.network_info;
        let mut cards = network.network_cards;
        cards.sort_by_key(|card| card.network_card_index);
        let storage = self.instance_storage_info.as_ref();
        let usage = |text: &String| CapacityClass::parse(text).with_context(|| format!("usage class {text:?}"));
        let ebs = &self.ebs_info;
        Ok(TypeFacts {
            name: Arc::from(self.instance_type),
            arch: texts(&processor.supported_architectures),
            cpu_manufacturer: processor.manufacturer.map(Arc::from),
            clock_mhz: processor.sustained_clock_speed_in_ghz.map(|ghz| (ghz * 1000.0).round() as u32),
            cpu_features: texts(&processor.supported_features),
            vcpus: self.v_cpu_info.default,
            memory_mib: self.memory_info.mib,
            hypervisor: self.hypervisor.filter(|text| !text.is_empty()).map(Arc::from),
            bare_metal: self.bare_metal,
            usage_classes: self.supported_usage_classes.iter().map(usage).collect::<anyhow::Result<_>>()?,
            ipv4_per_eni: network.ipv4_addresses_per_interface,
            default_network_card: network.default_network_card_index.unwrap_or(0),
            network_cards: cards.iter().map(|card| NetworkCard { max_enis: card.maximum_network_interfaces }).collect(),
            network_mbps: None,
            efa_max: network.efa_info.map_or(0, |efa| efa.maximum),
            ena: network.ena_support.map(|text| text != "unsupported"),
            branch_limits: None,
            encryption_in_transit: network.encryption_in_transit_supported,
            nitro_enclaves: self.nitro_enclaves_support.map(|text| text == "supported"),
            ebs_optimized: EbsOptimization::parse(&ebs.ebs_optimized_support)
                .with_context(|| format!("EBS optimisation {:?}", ebs.ebs_optimized_support))?,
            ebs_max_mbps: ebs.ebs_optimized_info.as_ref().and_then(|info| info.maximum),
            local_disk_gb: storage.and_then(|storage| storage.total_gb).unwrap_or(0),
            local_disk_is_nvme: storage.is_some_and(|storage| storage.nvme_support.as_deref() != Some("unsupported")),
            gpus: self.gpu_info.gpus.into_iter().map(gpu).collect(),
            accelerators: accelerators(
                self.neuron_info,
                self.inference_accelerator_info,
                self.fpga_info,
                self.media_accelerator_info,
            ),
            placement_strategies: texts(&self.placement_group_info.supported_strategies),
        })
    }
}

fn texts(list: &[String]) -> Vec<Arc<str>> {
    list.iter().map(|text| Arc::from(text.as_str())).collect()
}

fn gpu(device: Device) -> Gpu {
    Gpu {
        name: Arc::from(device.name),
        manufacturer: Arc::from(device.manufacturer.unwrap_or_default()),
        count: device.count,
        memory_mib: device.memory_info.map_or(0, |memory| memory.mib),
    }
}

/// Some types are reported as inference accelerators and as neuron devices; they are the latter.
fn accelerators(neuron: Neurons, inference: Accelerators, fpga: Fpgas, media: Accelerators) -> Vec<Accelerator> {
    let inference = if neuron.neuron_devices.is_empty() { inference.accelerators } else { Vec::new() };
    let kinds = [
        (AcceleratorKind::Neuron, neuron.neuron_devices),
        (AcceleratorKind::Inference, inference),
        (AcceleratorKind::Fpga, fpga.fpgas),
        (AcceleratorKind::Media, media.accelerators),
    ];
    let accelerator = |kind, device: Device| Accelerator {
        kind,
        name: Arc::from(device.name),
        manufacturer: Arc::from(device.manufacturer.unwrap_or_else(|| "AWS".to_owned())),
        count: device.count,
        cores_per_device: device.core_info.map_or(0, |cores| cores.count),
    };
    kinds
        .into_iter()
        .flat_map(|(kind, devices)| devices.into_iter().map(move |device| accelerator(kind, device)))
        .collect()
}
