//! `karpenter plan`.

mod consolidate;
mod json;
mod miss;
mod order;
mod table;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use karpenter_controllers::provisioning::claim;
use karpenter_core::World;
use karpenter_core::plan::Plan;
use karpenter_disruption::Proposal;
use karpenter_manifests::{Input, Loaded, Options, load, read_input};

use crate::bad_input::BadInput;
use crate::catalogue::{CatalogueArgs, Market};
use crate::settings::SettingsArgs;
use crate::terminal::{Color, Style};

/// Show what would be launched for these manifests, at what price, and why
///
/// Needs neither a cluster nor an AWS account. Reads NodePools, EC2NodeClasses, workloads, pods, nodes and volumes, in YAML
/// or JSON, as files, folders or a whole `kubectl get -A -o yaml` dump. A pod with spec.nodeName is running there; workloads
/// are expanded to pods unless their pods are in the input. What manifests leave open is filled in as an API server and
/// a healthy cluster would.
///
/// Status 0: a plan was made, maybe with pods left over. 2: the input cannot be used; every fault is told, and nothing is
/// planned. 3: pods are left over, with --fail-on-unschedulable.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter plan -f examples/shop
  kubectl get nodepools,ec2nodeclasses,nodes,nodeclaims,pods,pv,pvc,sc,ds -A -o yaml | karpenter plan -f -
  karpenter plan -f world.yaml -o json | jq .pricePerHour
  karpenter plan -f world.yaml -o yaml          # the NodeClaims that would be created
  PREFERENCE_POLICY=Ignore karpenter plan -f world.yaml --fail-on-unschedulable")]
pub(crate) struct Args {
    /// Files or folders of manifests; `-` for standard input
    #[arg(short, long, value_name = "PATH", num_args = 1.., required = true)]
    file: Vec<PathBuf>,
    #[command(flatten)]
    catalogue: CatalogueArgs,
    /// The time in the plan, so that plans are reproducible
    #[arg(long, value_name = "TIME", default_value = "2026-01-02T00:00:00Z")]
    now: Timestamp,
    /// Also show what disruption would change: commands, moves, and why each other node stays
    #[arg(long)]
    consolidate: bool,
    /// Add solveMillis, the time from snapshot and pods to plan
    #[arg(long)]
    timings: bool,
    /// Exit with status 3 if a pod is left over
    #[arg(long)]
    fail_on_unschedulable: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    /// Whether the table is in colour
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Color,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs
    Json,
    /// The NodeClaims that would be created
    Yaml,
}

const LEFT_OVER: u8 = 3;

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let env = |name: &str| std::env::var(name).ok();
    let settings = args.settings.resolve(&env).map_err(BadInput)?;
    let Input { sources, notes: skipped } =
        read_input(&args.file, &mut io::stdin().lock()).map_err(BadInput::from_all)?;
    // Said first: it may be why the rest looks as it does.
    for note in skipped {
        eprintln!("note: {note}");
    }
    let market = args.catalogue.open(&env)?;
    let loaded = load(
        sources,
        Options {
            now: args.now,
            settings: settings.core,
            vocabulary: std::sync::Arc::new(karpenter_ec2::vocabulary()),
            overlays: settings.gates.node_overlay,
            instance_types: &mut |class| market.shared_types(class, &settings.ec2),
        },
    )
    .map_err(BadInput::from_all)?;
    let (plan, took) = timed(&loaded.world);
    let mut plan = order::in_order(&loaded.world, plan);
    miss::fill_in(&loaded, &mut plan);
    let proposal = args.consolidate.then(|| consolidate::proposal(&loaded, &settings.disruption));
    print(args, &loaded, &market, (&plan, proposal.as_ref()), took, out)?;
    out.flush()?;
    notes(args, &loaded, &market, &plan);
    let left_over = !json::unschedulable(&loaded.world, &plan).is_empty();
    Ok(ExitCode::from(if args.fail_on_unschedulable && left_over { LEFT_OVER } else { 0 }))
}

fn print(
    args: &Args,
    loaded: &Loaded,
    market: &Market,
    (plan, proposal): (&Plan, Option<&Proposal>),
    took: Duration,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let took = args.timings.then_some(took);
    match args.output {
        Output::Json => {
            let document = json::document(&loaded.world, plan, proposal, took);
            serde_json::to_writer_pretty(&mut *out, &document).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        Output::Yaml => {
            let bought = proposal.iter().flat_map(|proposal| &proposal.commands);
            let bought = bought.flat_map(|command| &command.replacements).map(|replacement| &replacement.node);
            for node in plan.new_nodes.iter().chain(bought) {
                let (pool, object) = (&loaded.world.pools[node.pool], &loaded.node_pools[node.pool]);
                let claim = serde_json::to_value(claim::node_claim(pool, object, node))?;
                write!(out, "---\n{}", karpenter_api::to_yaml(&claim))?;
            }
        }
        Output::Table => {
            let style = Style::of_stdout(args.color, &|name| std::env::var(name).ok());
            let view = table::View { style, spot_is_assumed: market.spot_is_assumed(), took };
            out.write_all(table::render(&loaded.world, plan, view).as_bytes())?;
            if let Some(proposal) = proposal {
                let text = consolidate::table::render(&loaded.world, &plan.new_nodes, proposal, style);
                out.write_all(text.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// What programs should not have to parse goes to standard error.
fn notes(args: &Args, loaded: &Loaded, market: &Market, plan: &Plan) {
    for note in &loaded.notes {
        eprintln!("note: {note}");
    }
    if args.output != Output::Table && market.spot_is_assumed() && table::buys_spot(plan) {
        eprintln!("note: spot prices are assumed to be 40 % of on-demand");
    }
}

#[expect(clippy::disallowed_methods, reason = "the time it took is for people to read; no decision depends on it")]
fn timed(world: &World) -> (Plan, Duration) {
    let start = Instant::now();
    let mut plan = karpenter_scheduling::solve(world);
    plan.ignored.extend(karpenter_scheduling::refused_bystanders(world));
    (plan, start.elapsed())
}
