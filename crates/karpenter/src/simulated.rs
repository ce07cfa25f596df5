//! A simulated region whose machines join a cluster.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use karpenter_aws_sim::store::Store;
use karpenter_aws_sim::{Capacity, MachineEvent, Options, Rates, Region, Span, cloud_controller};
use karpenter_cluster::kubelet::Machine;
use karpenter_cluster::{Cluster, Handle, Parts, Settings, clock};
use karpenter_controllers::Clock;
use karpenter_core::Resources;
use kube::Client;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

/// From registration until the node is ready: network plugin and first status report.
const READY_DELAY: Duration = Duration::from_secs(3);
/// From registration until a device plugin has told of its devices.
const DEVICE_DELAY: Duration = Duration::from_secs(8);

/// Who plays the kubelets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kubelets {
    /// This process: nodes become ready and pods run
    Internal,
    /// kwok, or whoever looks after Nodes annotated kwok.x-k8s.io/node=fake
    External,
}

/// What chance does to a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub(crate) seed: u64,
    /// A rough day, from this seed.
    pub(crate) faults: Option<u64>,
    /// Drawn for each machine unless given.
    pub(crate) boot_delay: Option<Duration>,
}

/// A region on paper.
pub(crate) fn options(region: &str, cluster: &str, fate: Fate) -> Options {
    let mut options = Options::new(region, fate.faults.unwrap_or(fate.seed), cluster);
    if let Some(delay) = fate.boot_delay {
        options.boot = Span::exactly(delay);
    }
    if fate.faults.is_some() {
        options.rates = Rates::ROUGH;
    } else {
        // On a good day whatever is asked for is there.
        options.capacity = Capacity::Unlimited;
    }
    options
}

pub(crate) fn region(options: Options, clock: &Clock) -> Region {
    let now = clock.clone();
    Region::new(options, std::sync::Arc::new(move || now.now()))
}

/// Everything that makes a region's machines appear in a cluster somewhere else, until it is dropped.
pub(crate) struct Joined {
    _tasks: JoinSet<()>,
    _cluster: Option<Cluster>,
}

/// Brings the region to life over a client of its own: what an earlier process left is loaded first.
pub(crate) async fn join(
    region: &Region,
    client: &Client,
    clock: &Clock,
    namespace: &str,
    kubelets: Kubelets,
) -> anyhow::Result<Joined> {
    let store = Store { client: client.clone(), namespace: namespace.to_owned() };
    let loaded = store.load(region).await;
    let loaded = loaded.with_context(|| format!("cannot read the region's ConfigMaps in namespace {namespace}"))?;
    if loaded > 0 {
        tracing::info!(instances = loaded, "the simulated region goes on where it was left");
    }
    let machines = region.machines();
    let mut tasks = JoinSet::new();
    let ours = || (region.clone(), client.clone());
    let cluster = match kubelets {
        Kubelets::Internal => {
            let parts = Parts { kubelets: true, ..Parts::NONE };
            let settings = Settings { seed: region.options().seed, parts, ..Settings::default() };
            let cluster = Cluster::start(client.clone(), clock::Clock::starting_at(clock.now()), settings);
            tasks.spawn(switch_on(machines, cluster.handle().clone()));
            Some(cluster)
        }
        Kubelets::External => {
            let (region, client) = ours();
            tasks.spawn(async move { cloud_controller::register_all(&region, &client, machines).await });
            None
        }
    };
    let (of_store, of_agenda, (of_sweep, client)) = (region.clone(), region.clone(), ours());
    tasks.spawn(async move { store.run(&of_store).await });
    tasks.spawn(async move { of_agenda.run().await });
    tasks.spawn(async move { cloud_controller::run(&of_sweep, &client).await });
    Ok(Joined { _tasks: tasks, _cluster: cluster })
}

/// Hands machines over to the kubelets of a cluster in this process.
pub(crate) async fn switch_on(mut machines: UnboundedReceiver<MachineEvent>, kubelets: Handle) {
    while let Some(event) = machines.recv().await {
        let told = match event {
            MachineEvent::Started(machine) => kubelets.add_machine(computer(&machine)).await,
            MachineEvent::Stopped { name, .. } => kubelets.remove_machine(&name).await,
        };
        if told.is_err() {
            return;
        }
    }
}

fn computer(machine: &karpenter_aws_sim::Machine) -> Machine {
    let amounts = |resources: &Resources| {
        resources.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))).collect()
    };
    let taint = |taint: &karpenter_core::Taint| karpenter_api::Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    };
    Machine {
        provider_id: machine.provider_id.clone(),
        labels: machine.labels.clone(),
        taints: machine.taints.iter().map(taint).collect(),
        capacity: amounts(&machine.capacity),
        allocatable: amounts(&machine.allocatable),
        devices: amounts(&machine.devices),
        internal_ip: machine.internal_ip.clone(),
        architecture: machine.architecture.clone(),
        operating_system: machine.operating_system.clone(),
        os_image: machine.os_image.clone(),
        boot_delay: machine.boot_delay,
        ready_delay: READY_DELAY,
        device_delay: DEVICE_DELAY,
        ..Machine::new(&machine.name, "0", "0")
    }
}

/// `--faults` and `--faults=SEED`: without a seed of its own, faults follow from the region's.
pub(crate) fn faults(given: Option<Option<u64>>, seed: u64) -> Option<u64> {
    given.map(|own| own.unwrap_or(seed))
}
