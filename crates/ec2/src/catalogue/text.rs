//! A catalogue from the text of its files: one JSON array of instance types and a few tables.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use karpenter_core::MicroUsd;

use super::rows::for_each_row;
use super::{Catalogue, RegionFacts};
use crate::texts::Texts;

mod records;

pub const INSTANCE_TYPES: &str = "ec2-instance-types.json";
pub const ON_DEMAND_PRICES: &str = "ec2-ondemand-prices.csv";
pub const ON_DEMAND_PRICES_CN: &str = "ec2-ondemand-prices-cn.csv";
pub const OFFERINGS: &str = "ec2-offerings.csv";
pub const ZONES: &str = "ec2-zones.csv";
pub const SPOT_PRICES: &str = "ec2-spot-prices.csv";

/// The contents of the files.
#[derive(Clone, Copy, Debug)]
pub struct CatalogueText<'a> {
    /// What to call the catalogue in messages.
    pub origin: &'a str,
    pub instance_types: &'a str,
    pub on_demand_prices: &'a str,
    /// In yuan, as these regions charge; prices of one region are only ever compared with each other.
    pub on_demand_prices_cn: Option<&'a str>,
    pub offerings: &'a str,
    pub zones: &'a str,
    pub spot_prices: Option<&'a str>,
}

/// Something in a file that cannot be understood, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    pub file: &'static str,
    pub place: Place,
    pub field: Option<&'static str>,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Line(usize),
    /// Position in the array, from 0, and the record's name where it has one.
    Record(usize, Option<String>),
    File,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Header {
        want: String,
        found: String,
    },
    Cells {
        want: usize,
        found: usize,
    },
    Missing,
    NoPrice(String),
    NotOneOf(String, &'static str),
    /// What a JSON parser says.
    Json(String),
    Twice,
    /// `default_network_card` names none of `network_cards`.
    NoSuchCard(usize),
}

impl FileError {
    pub(super) fn at_line(file: &'static str, line: usize, fault: Fault) -> Self {
        Self { file, place: Place::Line(line), field: None, fault }
    }

    pub(super) fn in_field(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file)?;
        match &self.place {
            Place::Line(line) => write!(f, ", line {line}")?,
            Place::Record(index, Some(name)) => write!(f, ", record {index} ({name})")?,
            Place::Record(index, None) => write!(f, ", record {index}")?,
            Place::File => {}
        }
        if let Some(field) = &self.field {
            write!(f, ", {field}")?;
        }
        match &self.fault {
            Fault::Header { want, found } => write!(f, ": want the header {want:?}, found {found:?}"),
            Fault::Cells { want, found } => write!(f, ": want {want} cells, found {found}"),
            Fault::Missing => f.write_str(": must not be empty"),
            Fault::NoPrice(text) => write!(f, ": {text:?} is not a price"),
            Fault::NotOneOf(text, allowed) => write!(f, ": {text:?} is none of {allowed}"),
            Fault::Json(text) => write!(f, ": {text}"),
            Fault::Twice => f.write_str(": stands here for the second time"),
            Fault::NoSuchCard(card) => write!(f, ": there is no network card {card}"),
        }
    }
}

pub fn parse(text: &CatalogueText<'_>) -> Result<Catalogue, FileError> {
    let mut catalogue = Catalogue {
        origin: text.origin.to_owned(),
        types: records::parse(text.instance_types)?,
        regions: BTreeMap::new(),
    };
    let mut names = Texts::default();
    let regions = &mut catalogue.regions;
    let zone_names = zones(text.zones, regions, &mut names)?;
    offerings(text.offerings, &zone_names, regions, &mut names)?;
    on_demand(
        ON_DEMAND_PRICES,
        text.on_demand_prices,
        &["region", "instance_type", "usd_per_hour"],
        regions,
        &mut names,
    )?;
    if let Some(china) = text.on_demand_prices_cn {
        on_demand(ON_DEMAND_PRICES_CN, china, &["region", "instance_type", "cny_per_hour"], regions, &mut names)?;
    }
    if let Some(prices) = text.spot_prices {
        spot(prices, regions, &mut names)?;
    }
    Ok(catalogue)
}

type Regions = BTreeMap<String, RegionFacts>;

fn entry<'a>(regions: &'a mut Regions, name: &str) -> &'a mut RegionFacts {
    if !regions.contains_key(name) {
        regions.insert(name.to_owned(), RegionFacts::default());
    }
    regions.get_mut(name).expect("was inserted if it was missing")
}

/// Fills in the zones and gives, for each region and zone id, the zone's name.
fn zones(
    text: &str,
    regions: &mut Regions,
    names: &mut Texts,
) -> Result<BTreeMap<(String, String), Arc<str>>, FileError> {
    let mut by_id = BTreeMap::new();
    for_each_row(ZONES, text, &["region", "zone", "zone_id"], |row| {
        let (region, zone, id) = (row.text(0)?, names.get(row.text(1)?), names.get(row.text(2)?));
        by_id.insert((region.to_owned(), id.to_string()), zone.clone());
        match entry(regions, region).zones.insert(zone, id) {
            Some(_) => Err(row.fault(1, Fault::Twice)),
            None => Ok(()),
        }
    })?;
    Ok(by_id)
}

fn offerings(
    text: &str,
    zone_names: &BTreeMap<(String, String), Arc<str>>,
    regions: &mut Regions,
    names: &mut Texts,
) -> Result<(), FileError> {
    for_each_row(OFFERINGS, text, &["region", "instance_type", "zone_ids"], |row| {
        let region = row.text(0)?;
        let instance_type = names.get(row.text(1)?);
        let mut zones = std::collections::BTreeSet::new();
        for id in row.text(2)?.split(';') {
            // Zones without a name here, such as local ones the account has not opted into, sell nothing to us.
            zones.extend(zone_names.get(&(region.to_owned(), id.to_owned())).cloned());
        }
        match entry(regions, region).offered.insert(instance_type, Arc::new(zones)) {
            Some(_) => Err(row.fault(1, Fault::Twice)),
            None => Ok(()),
        }
    })
}

fn on_demand(
    file: &'static str,
    text: &str,
    header: &'static [&'static str; 3],
    regions: &mut Regions,
    names: &mut Texts,
) -> Result<(), FileError> {
    for_each_row(file, text, header, |row| {
        let (region, instance_type, price) = (row.text(0)?, names.get(row.text(1)?), row.price(2)?);
        match entry(regions, region).on_demand.insert(instance_type, price) {
            Some(_) => Err(row.fault(1, Fault::Twice)),
            None => Ok(()),
        }
    })
}

/// A region that the file names at all has only the spot prices it lists.
fn spot(text: &str, regions: &mut Regions, names: &mut Texts) -> Result<(), FileError> {
    for_each_row(SPOT_PRICES, text, &["region", "instance_type", "zone", "usd_per_hour"], |row| {
        let (region, instance_type) = (row.text(0)?, names.get(row.text(1)?));
        let (zone, price): (_, MicroUsd) = (names.get(row.text(2)?), row.price(3)?);
        let prices = entry(regions, region).spot.known_mut();
        match prices.entry(instance_type).or_default().insert(zone, price) {
            Some(_) => Err(row.fault(2, Fault::Twice)),
            None => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests;
