//! The dense form in which a catalogue is built into the program: a few hundred kilobytes of text for what takes
//! megabytes as JSON, parsed in milliseconds, and readable enough to review a change of it.
//!
//! ```text
//! karpenter-ec2-catalogue 1
//! as-of: 2026-10-01
//! sources: …
//! checksum: of everything below this line
//! [regions]   name,zone=id,zone=id,…
//! [types]     one a line, see `type_line`; the last cell says where it is offered
//! [network]   name,baseline Mbps,branch interfaces
//! [prices]    type and on-demand price in millionths for each region of the section's first line
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use karpenter_core::MicroUsd;

use super::{BranchLimits, Catalogue};

mod offers;
mod reader;
mod type_line;

pub use reader::{CompactError, parse};

const MAGIC: &str = "karpenter-ec2-catalogue 1";
const SECTIONS: [&str; 4] = ["[regions]", "[types]", "[network]", "[prices]"];

/// A catalogue, and what is known about the network of types beyond those it describes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compact {
    /// The date of the facts.
    pub as_of: String,
    /// Where each kind of fact is from.
    pub sources: String,
    /// Without the network facts: parsing fills those of its types in from `network`.
    pub catalogue: Catalogue,
    /// By type. Names more types than the catalogue has, for use with types that EC2 itself describes.
    pub network: BTreeMap<Arc<str>, NetworkFacts>,
}

/// What EC2's API does not tell about a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkFacts {
    pub baseline_mbps: Option<u64>,
    pub branch_limits: Option<BranchLimits>,
}

/// The text of a catalogue; the same facts always give the same bytes. Spot prices have no place in it.
pub fn write(compact: &Compact) -> String {
    let body = body(compact);
    format!(
        "{MAGIC}\nas-of: {}\nsources: {}\nchecksum: {:016x}\n{body}",
        compact.as_of,
        compact.sources,
        checksum(&body)
    )
}

fn body(compact: &Compact) -> String {
    let catalogue = &compact.catalogue;
    let mut text = String::new();
    let mut section = SECTIONS.iter();
    let mut begin = |text: &mut String| {
        text.push_str(section.next().expect("as many as are written below"));
        text.push('\n');
    };
    begin(&mut text);
    for (name, region) in catalogue.regions.iter().filter(|(_, region)| !region.zones.is_empty()) {
        text.push_str(name);
        for (zone, id) in &region.zones {
            let _ = write!(text, ",{zone}={id}");
        }
        text.push('\n');
    }
    begin(&mut text);
    for facts in &catalogue.types {
        type_line::write(facts, &mut text);
        text.push(',');
        offers::write(catalogue, &facts.name, &mut text);
        text.push('\n');
    }
    begin(&mut text);
    for (name, facts) in &compact.network {
        let _ = writeln!(text, "{name},{},{}", optional(facts.baseline_mbps), branches(facts.branch_limits));
    }
    begin(&mut text);
    prices(catalogue, &mut text);
    text
}

fn prices(catalogue: &Catalogue, text: &mut String) {
    let priced: Vec<_> = catalogue.regions.iter().filter(|(_, region)| !region.on_demand.is_empty()).collect();
    let mut types: BTreeMap<&str, Vec<Option<MicroUsd>>> = BTreeMap::new();
    text.push_str("type");
    for (column, (name, region)) in priced.iter().enumerate() {
        let _ = write!(text, ",{name}");
        for (instance_type, price) in &region.on_demand {
            types.entry(instance_type).or_insert_with(|| vec![None; priced.len()])[column] = Some(*price);
        }
    }
    text.push('\n');
    for (instance_type, prices) in types {
        text.push_str(instance_type);
        for price in prices {
            let _ = write!(text, ",{}", optional(price.map(|price| price.0)));
        }
        text.push('\n');
    }
}

fn optional(value: Option<u64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// `38`, or `-38` where the number means nothing because the type cannot trunk.
fn branches(limits: Option<BranchLimits>) -> String {
    limits.map_or_else(String::new, |limits| {
        let sign = if limits.trunking { "" } else { "-" };
        format!("{sign}{}", limits.branch_enis)
    })
}

/// FNV-1a: enough to notice an edit by hand or a bad merge.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
