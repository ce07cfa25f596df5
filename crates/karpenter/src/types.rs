//! `karpenter types`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use karpenter_ec2::listing::{self, Offerings};
use karpenter_manifests::{RawObject, raw_objects, read_sources};
use serde_json::{Value, json};

use crate::bad_input::BadInput;
use crate::catalogue::CatalogueArgs;
use crate::settings::SettingsArgs;

/// List the instance types as the scheduler sees them for a node class
///
/// Labels, capacity, overhead, allocatable and offerings of every type of the region that can be bought. Without a node
/// class: AL2023 with its defaults.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter types --region us-east-1
  karpenter types -f nodeclass.yaml --offerings
  karpenter types -f nodeclass.yaml -o json | jq 'select(.labels[\"karpenter.k8s.aws/instance-family\"] == \"m7g\")'")]
pub(crate) struct Args {
    /// Manifest with an EC2NodeClass; `-` for standard input
    #[arg(short, long, value_name = "PATH")]
    file: Option<PathBuf>,
    #[command(flatten)]
    catalogue: CatalogueArgs,
    /// Show every offering: zone, capacity type, price
    #[arg(long)]
    offerings: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    /// One object a line
    Json,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let env = |name: &str| std::env::var(name).ok();
    let settings = args.settings.resolve(&env).map_err(BadInput)?;
    let market = args.catalogue.open(&env)?;
    let class = match &args.file {
        Some(path) => node_class(path)?,
        None => RawObject::unplaced(json!({"kind": "EC2NodeClass", "spec": {}})),
    };
    let types = market
        .instance_types(&class.object, &settings.ec2)
        .map_err(|faults| BadInput::from_all(faults.into_iter().map(|fault| class.fault(fault))))?;
    let offerings = if args.offerings { Offerings::Shown } else { Offerings::Hidden };
    match args.output {
        Output::Json => {
            for instance_type in &types {
                writeln!(out, "{}", listing::json_line(instance_type, offerings))?;
            }
        }
        Output::Table => out.write_all(listing::table(&types, offerings).as_bytes())?,
    }
    if market.spot_is_assumed() {
        eprintln!("note: spot prices are assumed to be 40 % of on-demand");
    }
    Ok(ExitCode::SUCCESS)
}

/// The first EC2NodeClass of a file, defaults filled in.
fn node_class(path: &PathBuf) -> anyhow::Result<RawObject> {
    let sources = read_sources(std::slice::from_ref(path), &mut io::stdin().lock()).map_err(BadInput::from_all)?;
    let objects = raw_objects(&sources).map_err(BadInput::from_all)?;
    let is_class = |object: &RawObject| object.object.get("kind").and_then(Value::as_str) == Some("EC2NodeClass");
    let Some(mut class) = objects.into_iter().find(is_class) else {
        return Err(BadInput(vec![format!("{}: there is no EC2NodeClass in it", path.display())]).into());
    };
    let unknown = karpenter_api::validation::unknown_fields(karpenter_api::Kind::EC2NodeClass, &class.object);
    if !unknown.is_empty() {
        let fault = |field| class.fault(karpenter_index::Fault { field, message: "unknown field".to_owned() });
        return Err(BadInput::from_all(unknown.into_iter().map(fault)).into());
    }
    karpenter_api::apply_defaults(karpenter_api::Kind::EC2NodeClass, &mut class.object);
    Ok(class)
}
