//! What a cloud controller does about Nodes: those whose instance is gone are deleted. And, where nobody plays the
//! kubelets in this process, the registration of Nodes for somebody else to play.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_core::Resources;
use karpenter_provider_aws::calls::InstanceState;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::machine::{Machine, MachineEvent};
use crate::region::Region;

/// Nodes of vanished instances are gone within five seconds.
const EVERY: Duration = Duration::from_secs(2);

/// Deletes Nodes whose machine is gone; how many.
pub async fn sweep(region: &Region, client: &kube::Client) -> Result<usize, kube::Error> {
    let gone: Vec<(String, String)> = region.lock().orphaned_nodes.clone().into_iter().collect();
    let nodes = Api::<Node>::all(client.clone());
    let mut deleted = 0;
    for (name, provider_id) in gone {
        let node = nodes.get_opt(&name).await?;
        let ours =
            node.filter(|node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(&provider_id));
        if let Some(node) = ours.filter(|node| node.metadata.deletion_timestamp.is_none()) {
            let preconditions = Preconditions { uid: node.metadata.uid, ..Preconditions::default() };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match nodes.delete(&name, &params).await {
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                other => {
                    other?;
                    deleted += 1;
                }
            }
        }
        region.lock().orphaned_nodes.remove(&name);
    }
    Ok(deleted)
}

/// Sweeps for as long as it is polled.
pub async fn run(region: &Region, client: &kube::Client) {
    loop {
        tokio::time::sleep(EVERY).await;
        if let Err(error) = sweep(region, client).await {
            tracing::warn!(%error, "nodes of vanished instances could not be deleted");
        }
    }
}

/// Registers Nodes for kubelets that somebody else plays. A machine that ends before it has booted never registers;
/// one whose Node cannot be created is lost.
pub async fn register_all(region: &Region, client: &kube::Client, mut machines: UnboundedReceiver<MachineEvent>) {
    let mut booting: JoinSet<()> = JoinSet::new();
    let mut by_name: BTreeMap<String, tokio::task::AbortHandle> = BTreeMap::new();
    while let Some(event) = machines.recv().await {
        while booting.try_join_next().is_some() {}
        match event {
            MachineEvent::Started(machine) => {
                let (region, nodes) = (region.clone(), Api::<Node>::all(client.clone()));
                let name = machine.name.clone();
                let handle = booting.spawn(async move {
                    tokio::time::sleep(machine.boot_delay).await;
                    match nodes.create(&PostParams::default(), &node(&machine)).await {
                        Err(kube::Error::Api(status)) if status.code == 409 => {}
                        Err(error) => {
                            tracing::warn!(node = %machine.name, %error, "a simulated machine cannot register");
                            if let Some(id) = karpenter_provider_aws::instances::instance_id(&machine.provider_id) {
                                region.kill(id, InstanceState::ShuttingDown);
                            }
                        }
                        Ok(_) => {}
                    }
                });
                by_name.insert(name, handle);
            }
            MachineEvent::Stopped { name, .. } => {
                if let Some(handle) = by_name.remove(&name) {
                    handle.abort();
                }
            }
        }
    }
}

/// The Node of a machine whose kubelet is played by kwok.
pub fn node(machine: &Machine) -> Node {
    let amounts = |resources: &Resources| -> BTreeMap<String, Quantity> {
        resources.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))).collect()
    };
    let (mut capacity, mut allocatable) = (amounts(&machine.capacity), amounts(&machine.allocatable));
    capacity.extend(amounts(&machine.devices));
    allocatable.extend(amounts(&machine.devices));
    let taint = |taint: &karpenter_core::Taint| Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    };
    let address = |kind: &str, text: &str| NodeAddress { type_: kind.to_owned(), address: text.to_owned() };
    Node {
        metadata: ObjectMeta {
            name: Some(machine.name.clone()),
            labels: Some(machine.labels.clone()),
            annotations: Some([("kwok.x-k8s.io/node".to_owned(), "fake".to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(machine.provider_id.clone()),
            taints: Some(machine.taints.iter().map(taint).collect()),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(capacity),
            allocatable: Some(allocatable),
            addresses: Some(vec![address("InternalIP", &machine.internal_ip), address("Hostname", &machine.name)]),
            node_info: Some(NodeSystemInfo {
                architecture: machine.architecture.clone(),
                operating_system: machine.operating_system.clone(),
                os_image: machine.os_image.clone(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }),
    }
}
