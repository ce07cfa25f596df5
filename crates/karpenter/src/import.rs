//! `karpenter import cluster-definition`.

mod definition;
mod translate;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use karpenter_manifests::read_sources;

use crate::bad_input::BadInput;
use crate::convert::{Output, write_all};
use translate::Surroundings;

/// Translate other tools' documents into manifests
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    ClusterDefinition(ClusterDefinition),
}

/// Turn the node pools of a cluster definition into NodePools and EC2NodeClasses
///
/// Reads `karpenter.node_pools`, at the top or below `spec`; other parts of the document are somebody else's. Nothing is
/// written unless all of it can be translated.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter import cluster-definition -f cluster.yaml --cluster-name production | kubectl apply -f -")]
pub(crate) struct ClusterDefinition {
    /// The document; `-` for standard input
    #[arg(short, long, value_name = "PATH", default_value = "-")]
    file: PathBuf,
    /// Name of the cluster: the value of the discovery tag
    #[arg(long, value_name = "NAME", env = "CLUSTER_NAME")]
    cluster_name: String,
    /// IAM role of the nodes [default: KarpenterNodeRole-<cluster name>]
    #[arg(long, value_name = "NAME")]
    node_role: Option<String>,
    /// Image of the nodes
    #[arg(long, value_name = "ALIAS", default_value = "al2023@latest")]
    ami_alias: String,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let What::ClusterDefinition(args) = &args.what;
    let sources =
        read_sources(std::slice::from_ref(&args.file), &mut io::stdin().lock()).map_err(BadInput::from_all)?;
    let surroundings = Surroundings {
        cluster: args.cluster_name.clone(),
        role: args.node_role.clone().unwrap_or_else(|| format!("KarpenterNodeRole-{}", args.cluster_name)),
        alias: args.ami_alias.clone(),
    };
    let mut objects = Vec::new();
    let mut notes = Vec::new();
    for source in &sources {
        let told = |faults: Vec<String>| BadInput(faults.iter().map(|f| format!("{}: {f}", source.name)).collect());
        let text = std::str::from_utf8(&source.bytes).map_err(|_| told(vec!["it is not UTF-8".to_owned()]))?;
        let pools = definition::read(text).map_err(told)?;
        let (made, noted) = translate::manifests(&pools, &surroundings).map_err(told)?;
        objects.extend(made);
        notes.extend(noted);
    }
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    write_all(&objects, args.output, out)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
