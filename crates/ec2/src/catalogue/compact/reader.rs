//! Reading the dense form.

use karpenter_core::MicroUsd;

use super::{BranchLimits, Compact, MAGIC, NetworkFacts, SECTIONS, checksum, offers, type_line};
use crate::catalogue::RegionFacts;
use crate::texts::Texts;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompactError {
    #[error("the first line is not {MAGIC:?}")]
    Magic,
    #[error("header line {0:?} is missing")]
    Header(&'static str),
    #[error("the checksum is {found:016x}, the header says {want:016x}: the file was changed by hand")]
    Checksum { want: u64, found: u64 },
    #[error("section {0} is missing")]
    Section(&'static str),
    #[error("section {section}, {line:?}: cannot read {cell}")]
    Line { section: &'static str, line: String, cell: &'static str },
}

pub fn parse(text: &str) -> Result<Compact, CompactError> {
    let (magic, rest) = text.split_once('\n').unwrap_or((text, ""));
    if magic != MAGIC {
        return Err(CompactError::Magic);
    }
    let (as_of, rest) = header(rest, "as-of")?;
    let (sources, rest) = header(rest, "sources")?;
    let (sum, body) = header(rest, "checksum")?;
    let want = u64::from_str_radix(sum, 16).map_err(|_| CompactError::Header("checksum"))?;
    let found = checksum(body);
    if want != found {
        return Err(CompactError::Checksum { want, found });
    }
    let mut compact = Compact { as_of: as_of.to_owned(), sources: sources.to_owned(), ..Compact::default() };
    compact.catalogue.origin = format!("the built-in one, of {as_of}");
    let [regions, types, network, prices] = sections(body)?;
    let mut texts = Texts::default();
    read_regions(regions, &mut compact, &mut texts)?;
    read_network(network, &mut compact, &mut texts)?;
    read_types(types, &mut compact, &mut texts)?;
    read_prices(prices, &mut compact, &mut texts)?;
    Ok(compact)
}

fn header<'a>(text: &'a str, name: &'static str) -> Result<(&'a str, &'a str), CompactError> {
    let (line, rest) = text.split_once('\n').ok_or(CompactError::Header(name))?;
    let value = line.strip_prefix(name).and_then(|line| line.strip_prefix(": "));
    Ok((value.ok_or(CompactError::Header(name))?, rest))
}

/// The text of each section, in order.
fn sections(body: &str) -> Result<[&str; 4], CompactError> {
    let mut found = [""; 4];
    let mut rest = body;
    for (index, section) in SECTIONS.into_iter().enumerate() {
        let missing = CompactError::Section(section);
        let start = rest.strip_prefix(section).and_then(|rest| rest.strip_prefix('\n')).ok_or(missing)?;
        let end = match SECTIONS.get(index + 1) {
            Some(next) => start.find(next).ok_or(CompactError::Section(next))?,
            None => start.len(),
        };
        (found[index], rest) = start.split_at(end);
    }
    Ok(found)
}

fn bad(section: usize, line: &str, cell: &'static str) -> CompactError {
    CompactError::Line { section: SECTIONS[section], line: line.to_owned(), cell }
}

fn read_regions(text: &str, compact: &mut Compact, texts: &mut Texts) -> Result<(), CompactError> {
    for line in text.lines() {
        let mut cells = line.split(',');
        let name = cells.next().unwrap_or_default();
        let mut region = RegionFacts::default();
        for cell in cells {
            let (zone, id) = cell.split_once('=').ok_or_else(|| bad(0, line, "a zone"))?;
            region.zones.insert(texts.get(zone), texts.get(id));
        }
        compact.catalogue.regions.insert(name.to_owned(), region);
    }
    Ok(())
}

fn read_network(text: &str, compact: &mut Compact, texts: &mut Texts) -> Result<(), CompactError> {
    for line in text.lines() {
        let cells: Vec<&str> = line.split(',').collect();
        let [name, mbps, branches] = cells.as_slice() else {
            return Err(bad(2, line, "number of cells"));
        };
        let number = |text: &str| text.parse().map_err(|_| bad(2, line, "Mbps"));
        let branch_limits = match *branches {
            "" => None,
            text => Some(BranchLimits {
                trunking: !text.starts_with('-'),
                branch_enis: text.trim_start_matches('-').parse().map_err(|_| bad(2, line, "branch interfaces"))?,
            }),
        };
        let facts =
            NetworkFacts { baseline_mbps: if mbps.is_empty() { None } else { Some(number(mbps)?) }, branch_limits };
        compact.network.insert(texts.get(name), facts);
    }
    Ok(())
}

fn read_types(text: &str, compact: &mut Compact, texts: &mut Texts) -> Result<(), CompactError> {
    let mut offers = offers::Reader::new(&compact.catalogue.regions);
    for line in text.lines() {
        let cells: Vec<&str> = line.split(',').collect();
        let (offered, cells) = cells.split_last().ok_or_else(|| bad(1, line, "number of cells"))?;
        let mut facts = type_line::read(cells, &mut |text| texts.get(text)).map_err(|cell| bad(1, line, cell))?;
        if let Some(network) = compact.network.get(&facts.name) {
            facts.network_mbps = network.baseline_mbps;
            facts.branch_limits = network.branch_limits;
        }
        offers.read(&facts.name, offered).ok_or_else(|| bad(1, line, "zones"))?;
        compact.catalogue.types.push(facts);
    }
    if !compact.catalogue.types.is_sorted_by(|a, b| a.name < b.name) {
        return Err(CompactError::Section("[types]"));
    }
    offers.finish(&mut compact.catalogue.regions);
    Ok(())
}

fn read_prices(text: &str, compact: &mut Compact, texts: &mut Texts) -> Result<(), CompactError> {
    let mut lines = text.lines();
    let regions: Vec<&str> = lines.next().unwrap_or_default().split(',').skip(1).collect();
    let mut columns = vec![std::collections::BTreeMap::new(); regions.len()];
    for line in lines {
        let mut cells = line.split(',');
        let name = texts.get(cells.next().unwrap_or_default());
        for column in &mut columns {
            match cells.next() {
                None => return Err(bad(3, line, "number of cells")),
                Some("") => {}
                Some(cell) => {
                    let micro = cell.parse().map_err(|_| bad(3, line, "a price"))?;
                    column.insert(name.clone(), MicroUsd(micro));
                }
            }
        }
    }
    for (name, prices) in regions.into_iter().zip(columns) {
        compact.catalogue.regions.entry(name.to_owned()).or_default().on_demand = prices;
    }
    Ok(())
}
