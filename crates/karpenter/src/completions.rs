//! `karpenter completions`.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// Print a completion script for your shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  source <(karpenter completions bash)
  karpenter completions zsh > \"${fpath[1]}/_karpenter\"
  karpenter completions fish | source")]
pub(crate) struct Args {
    shell: Shell,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    // The generator panics where writing fails, so it writes to memory and we write to the pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "karpenter", &mut script);
    out.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
