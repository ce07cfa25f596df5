//! `karpenter crds`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use karpenter_api::{ConversionService, Kind, convertible_crd, crd, to_yaml};
use karpenter_runtime::webhook;

use crate::controller::connect;

/// Print the CustomResourceDefinitions
///
/// As upstream's, with v1 alone; with --webhook-service also with v1beta1, which the controller converts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter crds | kubectl apply --server-side -f -
  karpenter crds --webhook-service karpenter --namespace kube-system | kubectl apply --server-side -f -
  karpenter crds --retire-v1beta1     # before going back to upstream's definitions")]
pub(crate) struct Args {
    /// Serve v1beta1 as well, converted by the controller behind this Service
    #[arg(long, value_name = "NAME")]
    webhook_service: Option<String>,
    /// Namespace of that Service
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    namespace: String,
    /// Port of that Service
    #[arg(long, value_name = "PORT", default_value_t = 8443)]
    webhook_port: u16,
    /// Print nothing; in the cluster of KUBECONFIG, rewrite what is stored as v1beta1 and then stop serving it
    #[arg(long, conflicts_with = "webhook_service")]
    retire_v1beta1: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.retire_v1beta1 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let rewritten = runtime.block_on(retire())?;
        writeln!(out, "{rewritten} objects rewritten; v1 is the only version, and no webhook is asked any more")?;
        return Ok(ExitCode::SUCCESS);
    }
    let service = args.webhook_service.as_ref().map(|name| ConversionService {
        name: name.clone(),
        namespace: args.namespace.clone(),
        port: args.webhook_port,
        ca_bundle: None,
    });
    for kind in Kind::ALL {
        let definition = service.as_ref().map_or_else(|| crd(kind), |service| convertible_crd(kind, service));
        write!(out, "---\n{}", to_yaml(&definition))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn retire() -> anyhow::Result<usize> {
    let client = connect().await?;
    let rewritten = webhook::migrate(&client).await.context("cannot rewrite objects")?;
    webhook::withdraw(&client).await.context("cannot change the definitions")?;
    Ok(rewritten)
}
