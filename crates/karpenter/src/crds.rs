//! `karpenter crds`.

use std::io::Write;
use std::process::ExitCode;

/// Print the CustomResourceDefinitions
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter crds | kubectl apply --server-side -f -")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    out.write_all(karpenter_api::crds_yaml().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
