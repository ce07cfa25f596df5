//! Where a type is offered, in a character or two for each region: the zones as bits, six to a character.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{Catalogue, RegionFacts, ZoneNames};

/// `.` for no zone; it keeps the many empty places easy to see.
const DIGITS: &[u8; 64] = b".123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0";
const BITS: usize = 6;

fn width(region: &RegionFacts) -> usize {
    region.zones.len().div_ceil(BITS)
}

pub(super) fn write(catalogue: &Catalogue, instance_type: &str, text: &mut String) {
    for region in catalogue.regions.values() {
        let offered = region.offered.get(instance_type);
        let zones: Vec<&Arc<str>> = region.zones.keys().collect();
        for six in zones.chunks(BITS) {
            let is_offered = |zone: &&Arc<str>| offered.is_some_and(|zones| zones.contains(*zone));
            let bits = six.iter().enumerate().filter(|(_, zone)| is_offered(zone)).map(|(bit, _)| 1 << bit);
            text.push(char::from(DIGITS[bits.sum::<usize>()]));
        }
    }
}

/// Reads cells of this form into regions whose zones are known. Types of a region share the sets of their zones.
pub(super) struct Reader {
    regions: Vec<Column>,
}

struct Column {
    name: String,
    width: usize,
    zones: Vec<Arc<str>>,
    sets: BTreeMap<Vec<u8>, ZoneNames>,
    offered: BTreeMap<Arc<str>, ZoneNames>,
}

impl Reader {
    pub(super) fn new(regions: &BTreeMap<String, RegionFacts>) -> Self {
        let column = |(name, region): (&String, &RegionFacts)| Column {
            name: name.clone(),
            width: width(region),
            zones: region.zones.keys().cloned().collect(),
            sets: BTreeMap::new(),
            offered: BTreeMap::new(),
        };
        Self { regions: regions.iter().map(column).collect() }
    }

    /// `None` where the cell is not as long as the zones want it or has a character that is no digit of ours.
    pub(super) fn read(&mut self, instance_type: &Arc<str>, cell: &str) -> Option<()> {
        let mut rest = cell.as_bytes();
        for column in &mut self.regions {
            let (here, after) = rest.split_at_checked(column.width)?;
            rest = after;
            if here.iter().all(|digit| *digit == DIGITS[0]) {
                continue;
            }
            let zones = match column.sets.get(here) {
                Some(known) => known.clone(),
                None => {
                    let zones = decode(here, &column.zones)?;
                    column.sets.insert(here.to_vec(), zones.clone());
                    zones
                }
            };
            column.offered.insert(instance_type.clone(), zones);
        }
        rest.is_empty().then_some(())
    }

    pub(super) fn finish(self, regions: &mut BTreeMap<String, RegionFacts>) {
        for column in self.regions {
            if let Some(region) = regions.get_mut(&column.name) {
                region.offered = column.offered;
            }
        }
    }
}

fn decode(digits: &[u8], zones: &[Arc<str>]) -> Option<ZoneNames> {
    let mut found = std::collections::BTreeSet::new();
    for (digit, six) in digits.iter().zip(zones.chunks(BITS)) {
        let bits = DIGITS.iter().position(|known| known == digit)?;
        if bits >> six.len() != 0 {
            return None;
        }
        found.extend(six.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, zone)| zone.clone()));
    }
    Some(Arc::new(found))
}
