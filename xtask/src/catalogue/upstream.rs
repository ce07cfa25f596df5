//! Facts that EC2's API does not tell, from the tables published with karpenter-provider-aws: prices, network
//! bandwidths, branch interfaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use karpenter_core::MicroUsd;
use karpenter_ec2::catalogue::BranchLimits;
use karpenter_ec2::catalogue::compact::NetworkFacts;

use super::go_literal;
use crate::workspace;

pub(super) const VERSION: &str = "v1.14.1";
const MODULE: &str = "github.com/aws/karpenter-provider-aws";

/// File, variable. Each is a map of regions.
const PRICES: [(&str, &str); 3] = [
    ("pkg/providers/pricing/zz_generated.pricing_aws.go", "InitialOnDemandPricesAWS"),
    ("pkg/providers/pricing/zz_generated.pricing_aws_us_gov.go", "InitialOnDemandPricesUSGov"),
    ("pkg/providers/pricing/zz_generated.pricing_aws_cn.go", "InitialOnDemandPricesCN"),
];
const BANDWIDTHS: (&str, &str) =
    ("pkg/providers/instancetype/zz_generated.bandwidth.go", "InstanceTypeBandwidthMegabits");
const LIMITS: (&str, &str) = ("pkg/providers/instancetype/zz_generated.vpclimits.go", "Limits");

pub(super) struct Tables {
    pub(super) prices: BTreeMap<String, BTreeMap<String, MicroUsd>>,
    pub(super) network: BTreeMap<String, NetworkFacts>,
    /// What is of which date, for the header.
    pub(super) dates: String,
}

pub(super) fn read() -> anyhow::Result<Tables> {
    let module = download()?;
    let mut dates = Vec::new();
    let mut prices = BTreeMap::new();
    for (file, variable) in PRICES {
        let source = source(&module, file)?;
        let date = date(&source).with_context(|| format!("{file} has no date"))?;
        let regions = prices_of(&source, variable).with_context(|| format!("cannot read {file}"))?;
        let names: Vec<&str> = regions.keys().map(String::as_str).collect();
        dates.push(format!("prices of {} of {date}", names.join(" and ")));
        prices.extend(regions);
    }
    let mut network: BTreeMap<String, NetworkFacts> = BTreeMap::new();
    let limits = source(&module, LIMITS.0)?;
    dates.push(format!("network limits of {}", date(&limits).context("the limits have no date")?));
    for (name, limits) in limits_of(&limits).with_context(|| format!("cannot read {}", LIMITS.0))? {
        network.entry(name).or_default().branch_limits = Some(limits);
    }
    let bandwidths = source(&module, BANDWIDTHS.0)?;
    for (name, mbps) in bandwidths_of(&bandwidths).with_context(|| format!("cannot read {}", BANDWIDTHS.0))? {
        network.entry(name).or_default().baseline_mbps = Some(mbps);
    }
    ensure!(network.len() > 1000, "only {} types have network facts", network.len());
    Ok(Tables { prices, network, dates: dates.join(", ") })
}

/// The folder of the module, fetched if it is not there yet.
fn download() -> anyhow::Result<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Module {
        #[serde(rename = "Dir")]
        folder: PathBuf,
    }
    let version = format!("{MODULE}@{VERSION}");
    let answer = workspace::output_of(Command::new("go").args(["mod", "download", "-json", &version]))?;
    let module: Module = serde_json::from_slice(&answer).context("cannot read what go says about the module")?;
    Ok(module.folder)
}

fn source(module: &Path, file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(module.join(file)).with_context(|| format!("{MODULE} {VERSION} has no {file}"))
}

/// The day in the comment `generated at 2026-05-18T17:08:55Z`.
fn date(source: &str) -> Option<&str> {
    let after = source.split_once("generated at ")?.1;
    after.split_once('T').map(|(day, _)| day).filter(|day| day.len() == "2026-05-18".len())
}

fn prices_of(source: &str, variable: &str) -> anyhow::Result<BTreeMap<String, BTreeMap<String, MicroUsd>>> {
    let mut regions = BTreeMap::new();
    for (region, list) in go_literal::variable(source, variable)?.entries()? {
        let mut prices = BTreeMap::new();
        for (name, price) in list.entries()? {
            let price: f64 = price.number().with_context(|| name.to_owned())?;
            let price = MicroUsd::from_dollars(price).with_context(|| format!("{name}: {price} is no price"))?;
            prices.insert(name.to_owned(), price);
        }
        ensure!(prices.len() > 100, "{region} has only {} prices", prices.len());
        regions.insert(region.to_owned(), prices);
    }
    Ok(regions)
}

fn bandwidths_of(source: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let table = go_literal::variable(source, BANDWIDTHS.1)?;
    let entry = |(name, mbps): (&str, &go_literal::Value)| Ok((name.to_owned(), mbps.number()?));
    table.entries()?.into_iter().map(entry).collect()
}

fn limits_of(source: &str) -> anyhow::Result<BTreeMap<String, BranchLimits>> {
    let table = go_literal::variable(source, LIMITS.1)?;
    let entry = |(name, limits): (&str, &go_literal::Value)| {
        let limits = BranchLimits {
            trunking: limits.field("IsTrunkingCompatible")?.truth()?,
            branch_enis: limits.field("BranchInterface")?.number()?,
        };
        Ok((name.to_owned(), limits))
    };
    table.entries()?.into_iter().map(entry).collect()
}
