//! `karpenter catalogue refresh`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use karpenter_controllers::Clock;
use karpenter_core::MicroUsd;
use karpenter_ec2::catalogue::{PricesByZone, TypeFacts, builtin};
use karpenter_provider_aws::prices::{self, has_price_list};

use super::written;
use crate::account::{self, Account};

const TYPES_PAGE: u32 = 100;
const OFFERINGS_PAGE: u32 = 1000;

/// Work with catalogues of EC2's instance types
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Refresh(RefreshArgs),
}

/// Write a region's types, offerings and prices from the live API, for --catalog
///
/// Needs ec2:DescribeInstanceTypes, ec2:DescribeInstanceTypeOfferings, ec2:DescribeAvailabilityZones,
/// ec2:DescribeSpotPriceHistory and pricing:GetProducts. Network bandwidth and branch interfaces, which the API does not
/// tell, are those of the built-in catalogue.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter catalogue refresh --region eu-west-1 --output catalogue
  karpenter plan -f manifests --catalog catalogue --region eu-west-1")]
struct RefreshArgs {
    /// AWS region [default: the configured one]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Folder to write to; it is made if it is not there
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let Command::Refresh(args) = &args.command;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let now = Clock::system().now();
    let gathered = runtime.block_on(async {
        let account = account::connect(args.region.clone()).await?;
        gather(&account, now).await
    })?;
    std::fs::create_dir_all(&args.output).with_context(|| format!("cannot make {}", args.output.display()))?;
    for (name, text) in written::files(&gathered, now) {
        let path = args.output.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for note in &gathered.notes {
        eprintln!("note: {note}");
    }
    let (types, priced) = (gathered.types.len(), gathered.on_demand.len());
    writeln!(
        out,
        "{}: {types} types, {priced} on-demand prices, written to {}",
        gathered.region,
        args.output.display()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// What a region sells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Gathered {
    pub(super) region: String,
    /// By name.
    pub(super) types: Vec<TypeFacts>,
    /// Zone ids by name.
    pub(super) zones: BTreeMap<String, String>,
    /// Zone ids by type.
    pub(super) offered: BTreeMap<String, BTreeSet<String>>,
    pub(super) on_demand: BTreeMap<Arc<str>, MicroUsd>,
    /// By zone name.
    pub(super) spot: PricesByZone,
    /// What the reader should know.
    pub(super) notes: Vec<String>,
}

/// Prices can be missing, the rest cannot: without it there is nothing to plan with.
pub(super) async fn gather(account: &Account, now: Timestamp) -> anyhow::Result<Gathered> {
    let aws = &account.aws;
    let mut notes = Vec::new();
    let zones: BTreeMap<String, String> = account.asks.zones().await?.into_iter().collect();
    let mut types = aws.ec2.describe_instance_types(TYPES_PAGE).await?;
    for facts in &mut types {
        let network = builtin::network_facts(&facts.name);
        facts.network_mbps = facts.network_mbps.or(network.baseline_mbps);
        facts.branch_limits = facts.branch_limits.or(network.branch_limits);
    }
    types.sort_by(|a, b| a.name.cmp(&b.name));
    // What is said without a network cannot be planned with.
    types.retain(|facts| facts.default_network_card < facts.network_cards.len());
    let mut offered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut closed: BTreeSet<String> = BTreeSet::new();
    for (instance_type, zone) in aws.ec2.describe_instance_type_offerings(OFFERINGS_PAGE).await? {
        match zones.get(&zone) {
            Some(id) => _ = offered.entry(instance_type).or_default().insert(id.clone()),
            None => _ = closed.insert(zone),
        }
    }
    if !closed.is_empty() {
        let names: Vec<String> = closed.into_iter().collect();
        notes.push(format!("left out, as the account has no access to these zones: {}", names.join(", ")));
    }
    let on_demand = if has_price_list(&aws.region, false) {
        prices::on_demand(aws).await.context("on-demand prices")?
    } else {
        notes.push("the price list does not know this region: these are the built-in on-demand prices".to_owned());
        builtin::initial_on_demand_prices(&aws.region).clone()
    };
    let spot = prices::spot(aws, now).await.unwrap_or_else(|error| {
        notes.push(format!("without spot prices, which are assumed then: {error}"));
        PricesByZone::new()
    });
    Ok(Gathered { region: aws.region.clone(), types, zones, offered, on_demand, spot, notes })
}

#[cfg(test)]
mod tests {
    use karpenter_ec2::catalogue::{SpotPrices, folder};

    use super::*;
    use crate::account::testing;

    /// A folder of its own, gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("karpenter-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_is_read_back_as_it_was() {
        let account = testing::account(&testing::region());
        let now = Timestamp::UNIX_EPOCH;
        let gathered = gather(&account, now).await.unwrap();
        let folder = Folder::new("refresh");
        for (name, text) in written::files(&gathered, now) {
            std::fs::write(folder.0.join(name), text).unwrap();
        }
        let read = folder::load_dir(&folder.0).unwrap();
        assert_eq!(read.types.len(), gathered.types.len());
        for (read, had) in read.types.iter().zip(&gathered.types) {
            assert_eq!(read, had);
        }
        let region = read.region("us-east-1").unwrap();
        assert_eq!(region.on_demand, gathered.on_demand);
        assert_eq!(region.spot, SpotPrices::Known(gathered.spot.clone()));
        let ids = |instance_type: &str| -> BTreeSet<String> {
            region.offered[instance_type].iter().map(|zone| region.zones[zone].to_string()).collect()
        };
        assert_eq!(ids("m5.large"), gathered.offered["m5.large"]);
        assert!(read.for_sale(region).count() > 500);
    }

    #[tokio::test(start_paused = true)]
    async fn spot_prices_may_be_missing() {
        let region = testing::region();
        let target = karpenter_aws_sim::Target::Call { operation: "DescribeSpotPriceHistory", server_fault: false };
        region.script(karpenter_aws_sim::Script::new(target, "UnauthorizedOperation", 1));
        let gathered = gather(&testing::account(&region), Timestamp::UNIX_EPOCH).await.unwrap();
        assert!(gathered.notes[0].contains("UnauthorizedOperation"), "{:?}", gathered.notes);
        let names: Vec<&str> = written::files(&gathered, Timestamp::UNIX_EPOCH).iter().map(|(name, _)| *name).collect();
        assert!(!names.contains(&"ec2-spot-prices.csv"), "{names:?}");
    }
}
