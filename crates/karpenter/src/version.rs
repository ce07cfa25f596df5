//! `karpenter version`.

use std::io::Write;
use std::process::ExitCode;

use karpenter_runtime::log::COMMIT;
use serde_json::json;

/// Print the version
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter version
  karpenter version -o json | jq -r .version")]
pub(crate) struct Args {
    /// json: one object, with the commit and the kinds' API versions
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Json,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    match args.output {
        None => writeln!(out, "karpenter {version}")?,
        Some(Output::Json) => {
            let kinds =
                karpenter_api::Kind::ALL.iter().map(|kind| (kind.as_str().to_owned(), json!(kind.api_version())));
            let kinds: serde_json::Map<String, serde_json::Value> = kinds.collect();
            writeln!(
                out,
                "{}",
                json!({"version": version, "commit": COMMIT, "aws": cfg!(feature = "aws"), "kinds": kinds})
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
