//! `karpenter doctor`.

mod account;
mod advice;
mod objects;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use karpenter_controllers::Clock;
use serde_json::json;

use crate::bad_input::BadInput;

/// Say what is wrong with this account or cluster, and what to do about it
///
/// Looks at credentials and permissions, cluster, network, images, queue and prices with the calls that the controller
/// makes, and at the node classes and pools of the cluster in KUBECONFIG. Nothing is changed. Exits with 1 if something
/// keeps nodes from coming.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter doctor --cluster-name shop
  karpenter doctor --cluster-name shop --interruption-queue shop --region eu-west-1 -o json")]
pub(crate) struct Args {
    /// Name of the EKS cluster
    #[arg(long, env = "CLUSTER_NAME", hide_env = true, value_name = "NAME")]
    cluster_name: Option<String>,
    /// AWS region [default: the configured one]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// The queue that the controller is told of interruptions by
    #[arg(long, env = "INTERRUPTION_QUEUE", hide_env = true, value_name = "NAME")]
    interruption_queue: Option<String>,
    /// Prices and instance profiles cannot be asked for
    #[arg(long, env = "ISOLATED_VPC", hide_env = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    isolated_vpc: Option<bool>,
    /// Leave the cluster in KUBECONFIG alone
    #[arg(long)]
    account_only: bool,
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    subject: String,
    verdict: Verdict,
    /// What was seen.
    seen: String,
    /// What to do about it.
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Good,
    /// Nodes come, but something that could be had is not.
    Lacking,
    /// Nodes do not come.
    Broken,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Lacking => "lacking",
            Self::Broken => "BROKEN",
        }
    }
}

impl Finding {
    fn good(subject: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { subject: subject.into(), verdict: Verdict::Good, seen: seen.into(), advice: None }
    }

    fn bad(subject: impl Into<String>, verdict: Verdict, seen: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { subject: subject.into(), verdict, seen: seen.into(), advice: Some(advice.into()) }
    }
}

/// What there is to look at.
struct Patient {
    cluster: String,
    queue: Option<String>,
    isolated_vpc: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let Some(cluster) = args.cluster_name.clone().filter(|name| !name.is_empty()) else {
        return Err(BadInput(vec!["cluster-name: it is missing".to_owned()]).into());
    };
    let patient = Patient {
        cluster,
        queue: args.interruption_queue.clone().filter(|name| !name.is_empty()),
        isolated_vpc: args.isolated_vpc.unwrap_or(false),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let findings = runtime.block_on(async {
        let account = crate::account::connect(args.region.clone()).await?;
        let mut findings = account::examine(&account, &patient, Clock::system().now()).await;
        if !args.account_only {
            findings.extend(objects::examine().await);
        }
        anyhow::Ok(findings)
    })?;
    print(&findings, args.output, out)?;
    let broken = findings.iter().any(|finding| finding.verdict == Verdict::Broken);
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(findings: &[Finding], output: Output, out: &mut dyn Write) -> anyhow::Result<()> {
    if output == Output::Json {
        for finding in findings {
            let verdict = finding.verdict.as_str().to_lowercase();
            let (subject, seen, advice) = (&finding.subject, &finding.seen, &finding.advice);
            writeln!(out, "{}", json!({"subject": subject, "verdict": verdict, "seen": seen, "advice": advice}))?;
        }
        return Ok(());
    }
    let width = findings.iter().map(|finding| finding.subject.chars().count()).max().unwrap_or(0);
    for finding in findings {
        writeln!(out, "{:<8} {:<width$}  {}", finding.verdict.as_str(), finding.subject, finding.seen)?;
        if let Some(advice) = &finding.advice {
            writeln!(out, "{:<8} {:<width$}  ▸ {advice}", "", "")?;
        }
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (broken, lacking) = (count(Verdict::Broken), count(Verdict::Lacking));
    writeln!(out, "{} looked at: {broken} broken, {lacking} lacking", findings.len())?;
    Ok(())
}
