//! Instance types for people and for other programs: a JSON object a line, or a table.

use std::collections::BTreeMap;

use karpenter_core::quantity::Format;
use karpenter_core::{InstanceType, MicroUsd, Operator, Quantity, Resources};
use serde::Serialize;

pub use table::table;

mod table;

/// Whether the offerings, twelve lines' worth of a type, are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offerings {
    Shown,
    Hidden,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    requirements: BTreeMap<&'a str, Vec<&'a str>>,
    capacity: BTreeMap<&'a str, String>,
    overhead: OverheadLine<'a>,
    allocatable: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offerings: Option<Vec<OfferingLine>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OverheadLine<'a> {
    kube_reserved: BTreeMap<&'a str, String>,
    system_reserved: BTreeMap<&'a str, String>,
    eviction_threshold: BTreeMap<&'a str, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfferingLine {
    zone: String,
    capacity_type: String,
    price_per_hour: serde_json::Number,
    available: bool,
}

/// One type as one line of JSON: requirements with a single value are `labels`, those with several `requirements`;
/// quantities are canonical, zeros left out.
pub fn json_line(instance_type: &InstanceType, offerings: Offerings) -> String {
    let mut labels = BTreeMap::new();
    let mut requirements = BTreeMap::new();
    for (key, requirement) in instance_type.requirements.iter() {
        if requirement.operator() != Operator::In {
            continue;
        }
        let values: Vec<&str> = requirement.values.iter().map(|value| &**value).collect();
        match values.as_slice() {
            [value] => {
                labels.insert(key, *value);
            }
            _ => {
                requirements.insert(key, values);
            }
        }
    }
    let overhead = &instance_type.overhead;
    let allocatable = instance_type.allocatable();
    let line = Line {
        name: &instance_type.name,
        labels,
        requirements,
        capacity: quantities(&instance_type.capacity),
        overhead: OverheadLine {
            kube_reserved: quantities(&overhead.kube_reserved),
            system_reserved: quantities(&overhead.system_reserved),
            eviction_threshold: quantities(&overhead.eviction_threshold),
        },
        allocatable: quantities(&allocatable).into_iter().map(|(name, text)| (name.to_owned(), text)).collect(),
        offerings: match offerings {
            Offerings::Shown => Some(offering_lines(instance_type)),
            Offerings::Hidden => None,
        },
    };
    serde_json::to_string(&line).expect("maps with text keys and finite numbers are JSON")
}

fn offering_lines(instance_type: &InstanceType) -> Vec<OfferingLine> {
    let text = |label: Option<std::sync::Arc<str>>| label.map_or_else(String::new, |text| text.to_string());
    let line = |offering: &karpenter_core::Offering| OfferingLine {
        zone: text(offering.zone()),
        capacity_type: text(offering.capacity_type()),
        price_per_hour: dollars(offering.price),
        available: offering.available,
    };
    instance_type.offerings.iter().map(line).collect()
}

/// Whole dollars without a fraction, as most writers of JSON have it; some readers tell 2 from 2.0.
fn dollars(price: MicroUsd) -> serde_json::Number {
    let whole = price.0.is_multiple_of(1_000_000).then(|| (price.0 / 1_000_000).into());
    whole.or_else(|| serde_json::Number::from_f64(price.dollars())).expect("a price is finite")
}

fn quantities(list: &Resources) -> BTreeMap<&str, String> {
    list.iter()
        .filter(|(_, quantity)| !quantity.is_zero())
        .map(|(name, quantity)| (name, canonical(quantity).to_string()))
        .collect()
}

/// Exponents are for machines: what was written as `1e9` prints with a suffix.
fn canonical(quantity: Quantity) -> Quantity {
    match quantity.format() {
        Format::DecimalExponent => Quantity::from_bytes(quantity.units()),
        Format::DecimalSi | Format::BinarySi => quantity,
    }
}

#[cfg(test)]
mod tests;
