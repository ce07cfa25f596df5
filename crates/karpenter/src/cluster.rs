//! `karpenter cluster`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Node;
use karpenter_apiserver::{ApiServer, Clock as _, Listening, Options, SystemClock, clear_kubeconfig};
use karpenter_cluster::clock::Clock;
use karpenter_cluster::kubelet::Machine;
use karpenter_cluster::{Cluster, Settings, furniture};
use kube::{Api, Client};

/// Start a Kubernetes cluster in this process: API server, scheduler, workload controllers and some nodes
///
/// Needs neither containers nor an account. It listens on 127.0.0.1 only, keeps everything in memory, and ends with
/// Ctrl-C. Pods are scheduled, started and stopped as on a real cluster, but nothing is executed: `sleep 30`, `exit 1`
/// and the like say how long a container runs and how it ends, everything else runs until it is deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter cluster                                    # three nodes; prints the KUBECONFIG to export
  karpenter cluster --nodes 100 --kubeconfig kc.yaml   # kc.yaml is there once the cluster is ready
  karpenter cluster --port 6443 --rbac

  karpenter cluster --kubeconfig kc.yaml &
  until [ -e kc.yaml ]; do sleep 0.1; done
  kubectl --kubeconfig kc.yaml create deployment web --image nginx --replicas 3
  kubectl --kubeconfig kc.yaml rollout status deployment web")]
pub(crate) struct Args {
    /// Write a kubeconfig here once the cluster is ready; a temporary file unless given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Port on 127.0.0.1; a free one unless given
    #[arg(long, value_name = "P", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Number of nodes, each with 4 CPUs and 16Gi, named node-1, node-2, …
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: usize,
    /// Let roles and bindings decide who may do what; otherwise everybody known may do everything
    #[arg(long)]
    rbac: bool,
    /// Decides names, uids, delays and ties
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let outcome = runtime.block_on(live(args, out));
    // Whoever still watches would otherwise be waited for.
    runtime.shutdown_background();
    outcome
}

async fn live(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    // Asked for first, so that an early signal ends us as well as a late one.
    let mut end = End::new()?;
    tokio::select! {
        () = end.asked_for() => Ok(ExitCode::SUCCESS),
        started = start(args) => {
            let running = started?;
            let (url, path) = (running.listening.url(), running.kubeconfig.path());
            writeln!(out, "# Kubernetes with {} nodes on {url}; Ctrl-C ends it", args.nodes)?;
            writeln!(out, "export KUBECONFIG={}", quoted(&path.display().to_string()))?;
            out.flush()?;
            end.asked_for().await;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A cluster that runs until this is dropped.
struct Running {
    listening: Listening,
    kubeconfig: Kubeconfig,
    _cluster: Cluster,
}

async fn start(args: &Args) -> anyhow::Result<Running> {
    if let Some(old) = &args.kubeconfig {
        // Whoever waits for the file must not find the one of a cluster that is gone.
        clear_kubeconfig(old)?;
    }
    let clock = SystemClock;
    let now = clock.now();
    let server = ApiServer::new(Options { clock: Arc::new(clock), seed: args.seed, rbac: args.rbac, ..Options::new() });
    let listening = server.listen(args.port).await?;
    let client = Client::new(server.service(), "default");
    let settings = Settings { seed: args.seed, root_ca: Some(listening.ca_pem.clone()), ..Settings::default() };
    let cluster = Cluster::start(client.clone(), Clock::starting_at(now), settings);
    for n in 1..=args.nodes {
        cluster.handle().add_machine(Machine::new(&format!("node-{n}"), "4", "16Gi")).await?;
    }
    furniture::install(&client).await.context("cannot create what a cluster starts with")?;
    until_ready(&client, args.nodes).await?;
    let kubeconfig = Kubeconfig::write(&listening, args.kubeconfig.as_deref())?;
    Ok(Running { listening, kubeconfig, _cluster: cluster })
}

/// Waits until every node is ready and takes pods.
async fn until_ready(client: &Client, count: usize) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    loop {
        let listed = nodes.list(&kube::api::ListParams::default()).await.context("cannot list nodes")?;
        if listed.items.iter().filter(|node| takes_pods(node)).count() >= count {
            return Ok(());
        }
        // Machines of this cluster boot at once, so this is a matter of a few turns.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn takes_pods(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
    let tainted = node.spec.iter().any(|spec| spec.taints.as_ref().is_some_and(|taints| !taints.is_empty()));
    ready && !tainted
}

/// A kubeconfig on disk. One nobody asked for by name goes away with the cluster.
pub(crate) struct Kubeconfig {
    path: PathBuf,
    temporary: bool,
}

impl Kubeconfig {
    pub(crate) fn write(listening: &Listening, path: Option<&Path>) -> anyhow::Result<Self> {
        // Absolute, so that whoever exports it may change their folder.
        let absolute = match path {
            Some(path) => std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))?,
            None => std::env::temp_dir().join(format!("karpenter-cluster-{}.kubeconfig", std::process::id())),
        };
        listening.write_kubeconfig(&absolute)?;
        Ok(Self { path: absolute, temporary: path.is_none() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if self.temporary {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The signals that end us.
pub(crate) struct End {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl End {
    #[cfg(unix)]
    pub(crate) fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    #[cfg(unix)]
    pub(crate) async fn asked_for(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    pub(crate) async fn asked_for(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_a_shell() {
        for (path, want) in
            [("/tmp/kc.yaml", "/tmp/kc.yaml"), ("/my files/kc", "'/my files/kc'"), ("/it's/$HOME", r"'/it'\''s/$HOME'")]
        {
            assert_eq!(quoted(path), want);
        }
    }
}
