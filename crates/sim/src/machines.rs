//! The machines of a simulated region join a cluster.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use karpenter_aws_sim::store::{Store, StoreError};
use karpenter_aws_sim::{MachineEvent, Region, cloud_controller};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelets {
    /// This process: nodes become ready and pods run.
    Internal,
    /// kwok, or whoever looks after Nodes annotated `kwok.x-k8s.io/node=fake`.
    External,
}

/// Everything that makes a region's machines appear in a cluster somewhere else, until it is dropped.
#[derive(Debug)]
pub struct Joined {
    _tasks: JoinSet<()>,
    _cluster: Option<Cluster>,
}

/// Brings the region to life over a client of its own: what an earlier process left in the namespace is loaded first.
pub async fn join(
    region: &Region,
    client: &Client,
    clock: &Clock,
    namespace: &str,
    kubelets: Kubelets,
) -> Result<Joined, StoreError> {
    let store = Store { client: client.clone(), namespace: namespace.to_owned() };
    let loaded = store.load(region).await?;
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
pub async fn switch_on(mut machines: UnboundedReceiver<MachineEvent>, kubelets: Handle) {
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
