//! One type as comma separated cells:
//! `name,arch,maker,MHz,features,vCPUs,MiB,hypervisor,flags,usage,addresses,card,cards,EFA,EBS,disk,GPUs,accelerators,groups`.
//! Lists are joined with `|`, the parts of a device with `:`. Network limits stand in a section of their own.

use std::fmt::Write as _;
use std::sync::Arc;

use super::super::{Accelerator, AcceleratorKind, CapacityClass, EbsOptimization, Gpu, NetworkCard, TypeFacts};
use super::optional;

pub(super) fn write(facts: &TypeFacts, text: &mut String) {
    let _ = write!(
        text,
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        facts.name,
        list(&facts.arch),
        facts.cpu_manufacturer.as_deref().unwrap_or_default(),
        optional(facts.clock_mhz.map(u64::from)),
        list(&facts.cpu_features),
        facts.vcpus,
        facts.memory_mib,
        facts.hypervisor.as_deref().unwrap_or_default(),
        flags(facts),
        facts.usage_classes.iter().map(|class| usage_letter(*class)).collect::<String>(),
        facts.ipv4_per_eni,
        facts.default_network_card,
        joined(facts.network_cards.iter().map(|card| card.max_enis.to_string())),
        facts.efa_max,
        format_args!("{}{}", ebs_letter(facts.ebs_optimized), optional(facts.ebs_max_mbps.map(u64::from))),
        disk(facts),
        joined(
            facts
                .gpus
                .iter()
                .map(|gpu| { format!("{}:{}:{}:{}", gpu.name, gpu.manufacturer, gpu.count, gpu.memory_mib) })
        ),
        joined(facts.accelerators.iter().map(|device| {
            let kind = device.kind.as_str();
            format!("{kind}:{}:{}:{}:{}", device.name, device.manufacturer, device.count, device.cores_per_device)
        })),
        list(&facts.placement_strategies),
    );
}

fn list(items: &[Arc<str>]) -> String {
    joined(items.iter().map(|item| item.to_string()))
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join("|")
}

/// `m` bare metal, `t` encryption in transit, `e`/`x` enclaves or none, `a`/`y` enhanced networking or none.
fn flags(facts: &TypeFacts) -> String {
    let mut flags = String::new();
    flags.extend(facts.bare_metal.then_some('m'));
    flags.extend(facts.encryption_in_transit.then_some('t'));
    flags.extend(facts.nitro_enclaves.map(|yes| if yes { 'e' } else { 'x' }));
    flags.extend(facts.ena.map(|yes| if yes { 'a' } else { 'y' }));
    flags
}

fn usage_letter(class: CapacityClass) -> char {
    match class {
        CapacityClass::OnDemand => 'o',
        CapacityClass::Spot => 's',
        CapacityClass::CapacityBlock => 'b',
    }
}

fn ebs_letter(ebs: EbsOptimization) -> char {
    match ebs {
        EbsOptimization::Default => 'd',
        EbsOptimization::Supported => 's',
        EbsOptimization::Unsupported => 'u',
    }
}

fn disk(facts: &TypeFacts) -> String {
    match (facts.local_disk_gb, facts.local_disk_is_nvme) {
        (0, _) => String::new(),
        (gb, true) => format!("{gb}n"),
        (gb, false) => gb.to_string(),
    }
}

/// `Err` names the cell at fault.
pub(super) fn read(cells: &[&str], texts: &mut impl FnMut(&str) -> Arc<str>) -> Result<TypeFacts, &'static str> {
    let [
        name,
        arch,
        maker,
        clock,
        features,
        vcpus,
        memory,
        hypervisor,
        flags,
        usage,
        ipv4,
        card,
        cards,
        efa,
        ebs,
        disk,
        gpus,
        accelerators,
        groups,
    ] = cells
    else {
        return Err("number of cells");
    };
    let network_cards: Vec<NetworkCard> = split(cards)
        .map(|text| text.parse().map(|max_enis| NetworkCard { max_enis }))
        .collect::<Result<_, _>>()
        .map_err(|_| "cards")?;
    let default_network_card = number::<usize>(card, "card")?;
    if default_network_card >= network_cards.len() {
        return Err("card");
    }
    let (ebs_optimized, ebs_max) = ebs_of(ebs).ok_or("EBS")?;
    let flag = |letter: char| flags.contains(letter);
    let either = |yes: char, no: char| {
        if flag(yes) { Some(true) } else { flag(no).then_some(false) }
    };
    Ok(TypeFacts {
        name: texts(name),
        arch: split(arch).map(&mut *texts).collect(),
        cpu_manufacturer: (!maker.is_empty()).then(|| texts(maker)),
        clock_mhz: maybe(clock, "MHz")?,
        cpu_features: split(features).map(&mut *texts).collect(),
        vcpus: number(vcpus, "vCPUs")?,
        memory_mib: number(memory, "MiB")?,
        hypervisor: (!hypervisor.is_empty()).then(|| texts(hypervisor)),
        bare_metal: flag('m'),
        usage_classes: usage.chars().map(usage_of).collect::<Option<_>>().ok_or("usage")?,
        ipv4_per_eni: number(ipv4, "addresses")?,
        default_network_card,
        network_cards,
        network_mbps: None,
        efa_max: number(efa, "EFA")?,
        ena: either('a', 'y'),
        branch_limits: None,
        encryption_in_transit: flag('t'),
        nitro_enclaves: either('e', 'x'),
        ebs_optimized,
        ebs_max_mbps: maybe(ebs_max, "EBS")?,
        local_disk_gb: maybe(disk.trim_end_matches('n'), "disk")?.unwrap_or(0),
        local_disk_is_nvme: disk.ends_with('n'),
        gpus: split(gpus).map(|text| gpu(text, texts)).collect::<Option<_>>().ok_or("GPUs")?,
        accelerators: split(accelerators)
            .map(|text| accelerator(text, texts))
            .collect::<Option<_>>()
            .ok_or("accelerators")?,
        placement_strategies: split(groups).map(texts).collect(),
    })
}

/// The parts of a list; none in an empty cell.
fn split(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('|').filter(|part| !part.is_empty())
}

fn number<T: std::str::FromStr>(cell: &str, what: &'static str) -> Result<T, &'static str> {
    cell.parse().map_err(|_| what)
}

fn maybe<T: std::str::FromStr>(cell: &str, what: &'static str) -> Result<Option<T>, &'static str> {
    if cell.is_empty() { Ok(None) } else { number(cell, what).map(Some) }
}

fn usage_of(letter: char) -> Option<CapacityClass> {
    match letter {
        'o' => Some(CapacityClass::OnDemand),
        's' => Some(CapacityClass::Spot),
        'b' => Some(CapacityClass::CapacityBlock),
        _ => None,
    }
}

fn ebs_of(cell: &str) -> Option<(EbsOptimization, &str)> {
    let kinds = [EbsOptimization::Default, EbsOptimization::Supported, EbsOptimization::Unsupported];
    kinds.into_iter().find_map(|kind| Some((kind, cell.strip_prefix(ebs_letter(kind))?)))
}

fn gpu(text: &str, texts: &mut impl FnMut(&str) -> Arc<str>) -> Option<Gpu> {
    let parts: Vec<&str> = text.split(':').collect();
    let [name, maker, count, memory] = parts.as_slice() else {
        return None;
    };
    Some(Gpu {
        name: texts(name),
        manufacturer: texts(maker),
        count: count.parse().ok()?,
        memory_mib: memory.parse().ok()?,
    })
}

fn accelerator(text: &str, texts: &mut impl FnMut(&str) -> Arc<str>) -> Option<Accelerator> {
    let parts: Vec<&str> = text.split(':').collect();
    let [kind, name, maker, count, cores] = parts.as_slice() else {
        return None;
    };
    Some(Accelerator {
        kind: AcceleratorKind::parse(kind)?,
        name: texts(name),
        manufacturer: texts(maker),
        count: count.parse().ok()?,
        cores_per_device: cores.parse().ok()?,
    })
}
