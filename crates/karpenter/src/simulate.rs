//! `karpenter simulate`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use karpenter_controllers::Clock;
use karpenter_runtime::log::{self, Format, Log, Threshold};
use karpenter_sim::Season;

/// Live through a week of a cluster's life in some minutes, with everything going wrong that can
///
/// A cluster, a simulated AWS region and the very controllers that run on EKS, in virtual time. Deployments are scaled
/// four times a day, node classes, pools and prices change; the region refuses, throttles, forgets answers and takes
/// machines back; the API server fails, connections go silent, objects cannot be read, and the controllers die, lose
/// their lease and come back. What must not be is told: leaked instances, lost or stuck pods, evictions and disruptions
/// against a budget, instances terminated with pods on them, claims without an instance, plans and commands that break
/// a rule. The same seed gives the same history to the byte.
///
/// Ends with status 0, or 1 if anything of that happened, or if something came too seldom to have been tried.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter simulate                     # a week
  karpenter simulate --days 1 --seed 7   # another day
  karpenter simulate --calm -o json      # nothing goes wrong")]
pub(crate) struct Args {
    /// Decides everything that is left to chance
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// How long
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=365))]
    days: u32,
    /// How many deployments
    #[arg(long, value_name = "N", default_value_t = 200)]
    deployments: usize,
    /// Nothing goes wrong
    #[arg(long)]
    calm: bool,
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
    /// Append the controllers' log lines to this file, at the simulated time
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Json,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let season = Season { seed: args.seed, days: args.days, deployments: args.deployments, faults: !args.calm };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().context("cannot start the simulation")?;
    let report = runtime.block_on(async {
        args.log.as_deref().map_or(Ok(()), keep_log)?;
        karpenter_sim::run(season).await.context("cannot start the simulation")
    })?;
    match args.output {
        Some(Output::Json) => writeln!(out, "{}", report.json())?,
        None => writeln!(out, "{}", report.text())?,
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn keep_log(file: &Path) -> anyhow::Result<()> {
    let outputs = log::outputs(&file.display().to_string()).context("--log")?;
    let log = Log::new(Threshold::Debug, Format::Json, Clock::starting_at(Season::start()), outputs);
    log.install().context("cannot start logging")
}
