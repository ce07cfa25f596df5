//! `karpenter controller`.

mod connection;
mod real;
mod shift;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use karpenter_controllers::Clock;
use karpenter_provider_aws::{Aws, Settings, startup, version};
use karpenter_runtime::leadership::{Leadership, fence_aws};
use karpenter_runtime::log::{self, Format, Log};
use karpenter_runtime::metrics::Show;
use karpenter_runtime::serve::{self, Profiling, Readiness};
use karpenter_runtime::{Amazon, Autoscaler};
use karpenter_sim::machines;

use crate::account::Account;
use crate::bad_input::BadInput;
use crate::cluster::End;
use crate::settings::controller::{ClientRate, ControllerSettings, ControllerSettingsArgs, Region};
use crate::settings::duration;
use crate::simulated::{self, Fate, Kubelets};
use connection::Connection;

/// What AWS is asked in it has deadlines of its own, which are shorter.
const DISCOVERY: Duration = Duration::from_mins(2);

/// Run the controller against the cluster in KUBECONFIG
///
/// It buys in the AWS account that its credentials lead to: those of the service account (IRSA, Pod Identity), of the
/// machine, of a profile or of the environment; `karpenter doctor` tells whether that will work.
///
/// With --simulate-region it buys in a region that exists only in this process: the very controllers and the very AWS
/// logic, on any cluster, without an account. Every selector by tag or name, every role, profile and alias resolves
/// there. Instances are kept in ConfigMaps and survive a restart.
///
/// The cluster needs our CustomResourceDefinitions; --install-crds brings them. Several replicas agree by a Lease on who
/// works.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter controller --cluster-name shop --interruption-queue shop
  karpenter controller --simulate-region us-east-1 --install-crds
  karpenter controller --simulate-region eu-west-1 --boot-delay 0s --kubelets external   # kwok plays the kubelets
  karpenter controller --simulate-region us-east-1 --faults=7                            # a rough day")]
pub(crate) struct Args {
    /// Buy in a simulated region, made from the built-in catalogue
    #[arg(long, value_name = "REGION")]
    simulate_region: Option<String>,
    /// Decides prices, delays and ids of the simulated region
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// From launch until a node registers, and from its end until a machine is gone [default: drawn for each machine]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    boot_delay: Option<Duration>,
    /// Who plays the kubelets of simulated machines
    #[arg(long, value_name = "WHO", default_value = "internal")]
    kubelets: Kubelets,
    /// A rough day: stock-outs, throttling, dead machines, spot reclaims; from the seed given, or else from --seed
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    faults: Option<Option<u64>>,
    /// Identity of the simulated region, which writes Nodes and its ConfigMaps [default: the controller's own]
    #[arg(long, value_name = "FILE")]
    simulate_kubeconfig: Option<PathBuf>,
    /// Apply our CustomResourceDefinitions first
    #[arg(long)]
    install_crds: bool,
    /// How log lines look
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    log_format: LogFormat,
    #[command(flatten)]
    settings: ControllerSettingsArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    Json,
    Console,
}

pub(crate) fn run(args: &Args, _out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if let Some(region) = &args.simulate_region
        && let Err(error) = karpenter_ec2::catalogue::builtin::catalogue().region(region)
    {
        return Err(BadInput(vec![format!("--simulate-region: {error}")]).into());
    }
    let kind = if args.simulate_region.is_some() { Region::Simulated } else { Region::Real };
    let settings = args.settings.resolve(&|name| std::env::var(name).ok(), kind).map_err(BadInput)?;
    let outputs = log::outputs(&settings.log_output_paths).context("log-output-paths")?;
    let complaints = log::outputs(&settings.log_error_output_paths).context("log-error-output-paths")?;
    let format = match args.log_format {
        LogFormat::Json => Format::Json,
        LogFormat::Console => Format::Console,
    };
    let log = Log::new(settings.log_level, format, Clock::system(), outputs)
        .complaining_to(complaints)
        .with_compat_lines(settings.compat_log_lines);
    log.install().context("cannot start logging")?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // Reconcilers wait more than they work; a second thread answers probes while a plan is made.
    let runtime = builder.worker_threads(2).enable_all().build().context("cannot start threads")?;
    let outcome = runtime.block_on(live(args, &settings));
    // Whoever is still connected would otherwise be waited for.
    runtime.shutdown_background();
    outcome
}

/// The cluster in KUBECONFIG, for a command that asks a few questions.
pub(crate) async fn connect() -> anyhow::Result<kube::Client> {
    Ok(Connection::from_environment(ClientRate { per_second: 50, burst: 100 }).await?.client)
}

/// Answers probes first, then everything else, one thing after the other.
async fn live(args: &Args, settings: &ControllerSettings) -> anyhow::Result<ExitCode> {
    tracing::debug!(version = env!("CARGO_PKG_VERSION"), "discovered karpenter version");
    let mut end = End::new()?;
    let readiness = Readiness::default();
    let _health = serve::health(settings.health_probe_port, readiness.clone()).await?;
    let show = Show { legacy: settings.legacy_metrics };
    let profiling = if settings.profiling { Profiling::On } else { Profiling::Off };
    let _metrics = serve::scrapes(settings.metrics_port, readiness.clone(), show, profiling).await?;
    let started = tokio::select! {
        () = end.asked_for() => return Ok(ExitCode::SUCCESS),
        started = start(args, settings, &readiness) => started?,
    };
    shift::work(started, settings, &readiness, &mut end).await
}

/// Everything that is there before anybody leads.
pub(crate) struct Started {
    connection: Connection,
    clock: Clock,
    leadership: Leadership,
    autoscaler: Autoscaler,
    _webhook: Option<shift::Hook>,
    market: Option<Simulated>,
}

/// A region in this process. Its machines join the cluster once we lead: until then another process plays it, and what
/// that one leaves behind in ConfigMaps is where we go on.
pub(crate) struct Simulated {
    region: karpenter_aws_sim::Region,
    client: kube::Client,
    namespace: String,
    kubelets: machines::Kubelets,
}

impl Simulated {
    pub(crate) async fn join(&self, clock: &Clock) -> anyhow::Result<machines::Joined> {
        let Self { region, client, namespace, kubelets } = self;
        let joined = machines::join(region, client, clock, namespace, *kubelets).await;
        joined.with_context(|| format!("cannot read the region's ConfigMaps in namespace {namespace}"))
    }
}

async fn start(args: &Args, settings: &ControllerSettings, readiness: &Readiness) -> anyhow::Result<Started> {
    let clock = Clock::system();
    let connection = Connection::from_environment(settings.client_rate).await?;
    let of_region = match &args.simulate_kubeconfig {
        Some(file) => Connection::from_file(file).await?.client,
        None => connection.client.clone(),
    };
    // Before everything else: objects that are stored as v1beta1 cannot even be listed without it.
    let webhook = shift::Hook::start(&connection, settings, &clock).await?;
    if args.install_crds {
        connection.install_crds(settings).await?;
    }
    connection.await_crds().await?;
    readiness.has_kinds();
    let mut facts = settings.of_provider();
    let Market { aws, account, simulated } = match &args.simulate_region {
        Some(region) => simulate(args, region, &connection, of_region, &mut facts, &clock).await?,
        None => {
            let account = real::open().await?;
            Market { aws: account.aws.clone(), account: Some(account), simulated: None }
        }
    };
    let name = facts.cluster_name.clone();
    connection::until_answered(DISCOVERY, async || {
        let discovered = startup::discover(&aws, &connection.client, &mut facts, connection.ca_bundle()).await;
        discovered.with_context(|| format!("cannot learn what nodes of the cluster {name} are told"))
    })
    .await?;
    tracing::info!(
        cluster = facts.cluster_name,
        endpoint = facts.cluster_endpoint,
        kubernetes = facts.kubernetes_version,
        region = aws.region,
        simulated = account.is_none(),
        "starting"
    );
    let leadership = match settings.election {
        Some(_) => Leadership::elected(),
        None => Leadership::without_election(),
    };
    let (client, aws) = (connection.fenced(&leadership)?, fence_aws(aws, &leadership));
    let amazon = Amazon::start(client.clone(), &clock, aws, facts).await.context("cannot start the provider")?;
    let autoscaler = Autoscaler::new(client, clock.clone(), &amazon, settings.of_controllers());
    connection.requests.register(&autoscaler.context);
    if let Some(account) = account {
        account.asks.register(&mut autoscaler.context.metrics.plain_registry());
    }
    tracing::debug!(controllers = autoscaler.names().join(", "), "everything that runs");
    Ok(Started { connection, clock, leadership, autoscaler, _webhook: webhook, market: simulated })
}

/// Where nodes are bought.
struct Market {
    aws: Aws,
    /// None is simulated.
    account: Option<Account>,
    simulated: Option<Simulated>,
}

async fn simulate(
    args: &Args,
    region: &str,
    connection: &Connection,
    of_region: kube::Client,
    facts: &mut Settings,
    clock: &Clock,
) -> anyhow::Result<Market> {
    if facts.cluster_endpoint.is_empty() {
        facts.cluster_endpoint = connection.endpoint();
    }
    let version = connection::until_answered(connection::QUESTION, async || {
        let version = version::of_server(&connection.client).await;
        version.map_err(connection::unboxed).context("cannot ask the cluster for its version")
    })
    .await?;
    let fate = Fate { seed: args.seed, faults: simulated::faults(args.faults, args.seed), boot_delay: args.boot_delay };
    let mut options = simulated::options(region, &facts.cluster_name, fate);
    options.cluster_endpoint.clone_from(&facts.cluster_endpoint);
    options.kubernetes_version = version;
    let market = simulated::region(options, clock);
    let simulated = Simulated {
        region: market.clone(),
        client: of_region,
        namespace: connection.namespace(),
        kubelets: args.kubelets.into(),
    };
    Ok(Market { aws: market.aws(), account: None, simulated: Some(simulated) })
}
