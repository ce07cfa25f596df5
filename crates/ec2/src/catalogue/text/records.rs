//! `ec2-instance-types.json`: an array with one record for each type.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Fault, FileError, INSTANCE_TYPES, Place};
use crate::catalogue::{
    Accelerator, AcceleratorKind, BranchLimits, CapacityClass, EbsOptimization, Gpu, NetworkCard, TypeFacts,
};

/// The fields we use; others may be there. The two that newer catalogues add may be missing.
#[derive(Deserialize)]
struct Record {
    name: Arc<str>,
    arch: Vec<Arc<str>>,
    cpu_manufacturer: Option<Arc<str>>,
    clock_ghz: Option<f64>,
    cpu_features: Vec<Arc<str>>,
    vcpus: u32,
    memory_mib: u64,
    hypervisor: Option<Arc<str>>,
    bare_metal: bool,
    usage_classes: Vec<String>,
    ipv4_per_eni: u32,
    default_network_card: usize,
    network_cards: Vec<CardRecord>,
    network_mbps: Option<u64>,
    efa_max: u32,
    #[serde(default)]
    ena: Option<bool>,
    trunking: Option<bool>,
    branch_enis: Option<u32>,
    encryption_in_transit: bool,
    #[serde(default)]
    nitro_enclaves: Option<bool>,
    ebs_optimized: String,
    ebs_max_mbps: Option<u32>,
    local_disk_gb: u64,
    local_nvme_gb: u64,
    gpus: Vec<GpuRecord>,
    accelerators: Vec<AcceleratorRecord>,
    placement_strategies: Vec<Arc<str>>,
}

#[derive(Deserialize)]
struct CardRecord {
    max_enis: u32,
}

#[derive(Deserialize)]
struct GpuRecord {
    name: Arc<str>,
    manufacturer: Arc<str>,
    count: u32,
    memory_mib: u64,
}

#[derive(Deserialize)]
struct AcceleratorRecord {
    kind: String,
    name: Arc<str>,
    manufacturer: Arc<str>,
    count: u32,
    #[serde(default)]
    cores_per_device: u32,
}

pub(super) fn parse(text: &str) -> Result<Vec<TypeFacts>, FileError> {
    let at = |place| move |field: Option<&'static str>, fault| FileError { file: INSTANCE_TYPES, place, field, fault };
    // In two steps, so that a fault names its record and not a position in a megabyte of text.
    let raw: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|e| at(Place::File)(None, Fault::Json(e.to_string())))?;
    let mut types = Vec::with_capacity(raw.len());
    for (index, text) in raw.iter().enumerate() {
        let record: Record = serde_json::from_str(text.get()).map_err(|e| {
            let place = Place::Record(index, name_of(text.get()));
            at(place)(None, Fault::Json(without_position(&e)))
        })?;
        let place = Place::Record(index, Some(record.name.to_string()));
        types.push(facts(record).map_err(|(field, fault)| at(place)(Some(field), fault))?);
    }
    types.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = types.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let index = types.iter().position(|t| t.name == pair[1].name).unwrap_or_default();
        let place = Place::Record(index + 1, Some(pair[1].name.to_string()));
        return Err(at(place)(Some("name"), Fault::Twice));
    }
    Ok(types)
}

fn name_of(record: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    serde_json::from_str::<Named>(record).ok().map(|named| named.name)
}

/// Within one record the line and column mean nothing to the reader of the file.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

fn facts(record: Record) -> Result<TypeFacts, (&'static str, Fault)> {
    let usage = |text: &String| {
        CapacityClass::parse(text).ok_or_else(|| {
            let allowed = "on-demand, spot, capacity-block";
            ("usage_classes", Fault::NotOneOf(text.clone(), allowed))
        })
    };
    let ebs_optimized = EbsOptimization::parse(&record.ebs_optimized).ok_or_else(|| {
        let allowed = "default, supported, unsupported";
        ("ebs_optimized", Fault::NotOneOf(record.ebs_optimized.clone(), allowed))
    })?;
    if record.default_network_card >= record.network_cards.len() {
        return Err(("default_network_card", Fault::NoSuchCard(record.default_network_card)));
    }
    Ok(TypeFacts {
        usage_classes: record.usage_classes.iter().map(usage).collect::<Result<_, _>>()?,
        accelerators: record.accelerators.into_iter().map(accelerator).collect::<Result<_, _>>()?,
        name: record.name,
        arch: record.arch,
        cpu_manufacturer: record.cpu_manufacturer,
        clock_mhz: record.clock_ghz.map(|ghz| (ghz * 1000.0).round() as u32),
        cpu_features: record.cpu_features,
        vcpus: record.vcpus,
        memory_mib: record.memory_mib,
        hypervisor: record.hypervisor,
        bare_metal: record.bare_metal,
        ipv4_per_eni: record.ipv4_per_eni,
        default_network_card: record.default_network_card,
        network_cards: record.network_cards.iter().map(|card| NetworkCard { max_enis: card.max_enis }).collect(),
        network_mbps: record.network_mbps,
        efa_max: record.efa_max,
        ena: record.ena,
        branch_limits: record
            .trunking
            .map(|trunking| BranchLimits { trunking, branch_enis: record.branch_enis.unwrap_or(0) }),
        encryption_in_transit: record.encryption_in_transit,
        nitro_enclaves: record.nitro_enclaves,
        ebs_optimized,
        ebs_max_mbps: record.ebs_max_mbps,
        local_disk_gb: record.local_disk_gb,
        local_disk_is_nvme: record.local_nvme_gb > 0,
        gpus: record.gpus.into_iter().map(gpu).collect(),
        placement_strategies: record.placement_strategies,
    })
}

fn gpu(record: GpuRecord) -> Gpu {
    Gpu { name: record.name, manufacturer: record.manufacturer, count: record.count, memory_mib: record.memory_mib }
}

fn accelerator(record: AcceleratorRecord) -> Result<Accelerator, (&'static str, Fault)> {
    let kind = AcceleratorKind::parse(&record.kind).ok_or_else(|| {
        let allowed = "neuron, inference, fpga, media";
        ("accelerators.kind", Fault::NotOneOf(record.kind.clone(), allowed))
    })?;
    Ok(Accelerator {
        kind,
        name: record.name,
        manufacturer: record.manufacturer,
        count: record.count,
        cores_per_device: record.cores_per_device,
    })
}
