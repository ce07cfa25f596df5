//! The EC2 catalogue that is built into the program: facts from two packages, made into one dense file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use karpenter_ec2::catalogue::Catalogue;
use karpenter_ec2::catalogue::compact::{self, Compact};

use crate::workspace;

mod go_literal;
mod moto;
mod upstream;

fn file() -> PathBuf {
    workspace::root().join("crates/ec2/data/catalogue.txt")
}

pub(crate) fn make() -> anyhow::Result<()> {
    let scratch = std::env::temp_dir().join(format!("karpenter-catalogue-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let compact = gather(&scratch);
    std::fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    let text = compact::write(&compact?);
    compact::parse(&text).context("the catalogue just made cannot be read back")?;
    std::fs::write(file(), &text).with_context(|| format!("cannot write {}", file().display()))?;
    println!("wrote {} ({} bytes)", file().display(), text.len());
    Ok(())
}

fn gather(scratch: &std::path::Path) -> anyhow::Result<Compact> {
    let described = moto::read(scratch)?;
    let tables = upstream::read()?;
    let mut regions = described.regions;
    for (region, prices) in tables.prices {
        let prices = prices.into_iter().map(|(name, price)| (Arc::from(name), price)).collect();
        regions.entry(region).or_default().on_demand = prices;
    }
    let types = described.types;
    for facts in &types {
        let text = [&facts.name].into_iter().chain(facts.gpus.iter().flat_map(|gpu| [&gpu.name, &gpu.manufacturer]));
        let text = text.chain(facts.accelerators.iter().flat_map(|device| [&device.name, &device.manufacturer]));
        for text in text {
            ensure!(!text.contains([',', '|', ':', '\n']), "{}: {text:?} would break the file", facts.name);
        }
    }
    Ok(Compact {
        as_of: described.as_of.clone(),
        sources: format!(
            "instance types and offerings of {} from moto {}; {} from karpenter-provider-aws {}",
            described.as_of,
            moto::VERSION,
            tables.dates,
            upstream::VERSION
        ),
        catalogue: Catalogue { types, regions, ..Catalogue::default() },
        network: tables.network.into_iter().map(|(name, facts)| (Arc::from(name), facts)).collect::<BTreeMap<_, _>>(),
    })
}

/// Without the registries: the checked-in file is whole, reads back, and is exactly what its facts are written as.
pub(crate) fn check() -> anyhow::Result<()> {
    let path = file();
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let compact = compact::parse(&text).with_context(|| format!("{}", path.display()))?;
    ensure!(compact::write(&compact) == text, "{} is stale: run `cargo xtask catalogue`", path.display());
    println!("{} is consistent, of {}", path.display(), compact.as_of);
    Ok(())
}
