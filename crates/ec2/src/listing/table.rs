//! The table: a type a line, what it has and what it costs.

use std::collections::BTreeSet;

use karpenter_core::labels::{ARCH, ON_DEMAND, RESERVED, SPOT};
use karpenter_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use karpenter_core::{InstanceType, MicroUsd, Quantity};

use super::Offerings;
use crate::capacity::{AMD_GPU, HABANA_GAUDI, NEURON, NVIDIA_GPU};

/// What a column holds, and so to which side it is aligned.
#[derive(Clone, Copy)]
enum Column {
    Text(&'static str),
    Number(&'static str),
}

const COLUMNS: [Column; 11] = [
    Column::Text("NAME"),
    Column::Text("ARCH"),
    Column::Number("VCPU"),
    Column::Number("CPU"),
    Column::Number("MEMORY"),
    Column::Number("DISK"),
    Column::Number("PODS"),
    Column::Text("DEVICES"),
    Column::Number("ON-DEMAND"),
    Column::Number("SPOT"),
    Column::Text("ZONES"),
];

/// CPU, memory, disk and pods are what is left for pods; a price is the lowest of the zones in which the type can be
/// bought. With offerings, each stands on a line of its own below its type.
pub fn table(types: &[InstanceType], offerings: Offerings) -> String {
    let rows: Vec<[String; 11]> = types.iter().map(row).collect();
    let mut widths = COLUMNS.map(|column| column.title().len());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = line(&COLUMNS.map(|column| column.title().to_owned()), &widths);
    for (row, instance_type) in rows.iter().zip(types) {
        text.push_str(&line(row, &widths));
        if offerings == Offerings::Shown {
            for offering in &instance_type.offerings {
                text.push_str(&offering_line(offering));
            }
        }
    }
    text
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Text(title) | Self::Number(title) => title,
        }
    }
}

fn line(cells: &[String; 11], widths: &[usize; 11]) -> String {
    let padded: Vec<String> = COLUMNS
        .iter()
        .zip(cells)
        .zip(widths)
        .map(|((column, cell), &width)| match column {
            Column::Text(_) => format!("{cell:<width$}"),
            Column::Number(_) => format!("{cell:>width$}"),
        })
        .collect();
    format!("{}\n", padded.join("  ").trim_end())
}

fn row(instance_type: &InstanceType) -> [String; 11] {
    let allocatable = instance_type.allocatable();
    let label = |key: &str| instance_type.requirements.get(key).pick().map_or_else(String::new, |v| v.to_string());
    let bought = || instance_type.offerings.iter().filter(|offering| offering.available);
    let cheapest = |capacity_type: &str| {
        let prices = bought().filter(|offering| offering.capacity_type().as_deref() == Some(capacity_type));
        price(prices.map(|offering| offering.price).min())
    };
    let zones: BTreeSet<_> = bought().filter_map(|offering| offering.zone()).collect();
    [
        instance_type.name.to_string(),
        label(ARCH),
        instance_type.capacity.get(CPU).to_string(),
        allocatable.get(CPU).to_string(),
        gibibytes(allocatable.get(MEMORY)),
        gibibytes(allocatable.get(EPHEMERAL_STORAGE)),
        allocatable.get(PODS).to_string(),
        devices(instance_type),
        cheapest(ON_DEMAND),
        cheapest(SPOT),
        zone_letters(&zones),
    ]
}

fn devices(instance_type: &InstanceType) -> String {
    let names = [(NVIDIA_GPU, "nvidia"), (AMD_GPU, "amd"), (HABANA_GAUDI, "gaudi"), (NEURON, "neuron")];
    let has = |(resource, name): &(&str, &str)| {
        let count = instance_type.capacity.get(resource);
        (!count.is_zero()).then(|| format!("{count} {name}"))
    };
    names.iter().filter_map(has).collect::<Vec<_>>().join(", ")
}

/// The letters alone where all zones are of one region, as nearly always.
fn zone_letters(zones: &BTreeSet<std::sync::Arc<str>>) -> String {
    let stem = |zone: &str| zone[..zone.len().saturating_sub(1)].to_owned();
    let all_ascii = zones.iter().all(|zone| zone.is_ascii() && !zone.is_empty());
    let stems: BTreeSet<String> =
        if all_ascii { zones.iter().map(|zone| stem(zone)).collect() } else { BTreeSet::new() };
    if stems.len() == 1 {
        let letters: String = zones.iter().filter_map(|zone| zone.chars().next_back()).collect();
        return format!("{}{letters}", stems.first().map_or("", String::as_str));
    }
    zones.iter().map(|zone| &**zone).collect::<Vec<_>>().join(",")
}

fn offering_line(offering: &karpenter_core::Offering) -> String {
    let zone = offering.zone().map_or_else(String::new, |zone| zone.to_string());
    let kind = offering.capacity_type().map_or_else(String::new, |kind| kind.to_string());
    let note = match (&offering.reservation, offering.available) {
        (_, false) => "  unavailable".to_owned(),
        (Some(reservation), true) if kind == RESERVED => {
            format!("  {} left of {}", reservation.remaining, reservation.id)
        }
        (_, true) => String::new(),
    };
    format!("    {zone:<15}  {kind:<9}  {:>9}{note}\n", price(Some(offering.price)))
}

fn price(price: Option<MicroUsd>) -> String {
    price.map_or_else(|| "-".to_owned(), |price| price.to_string())
}

fn gibibytes(quantity: Quantity) -> String {
    let bytes = quantity.nanos() as f64 / 1e9;
    format!("{:.1}Gi", bytes / f64::from(1 << 30))
}
