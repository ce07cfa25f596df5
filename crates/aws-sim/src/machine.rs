//! A machine as it is handed over to whoever plays its kubelet: plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_core::{MicroUsd, Resources, Taint};
use karpenter_core::{Quantity, resources};
use karpenter_ec2::catalogue::{RegionFacts, TypeFacts};
use karpenter_ec2::nodeclass::{BlockDevice, EbsVolume, KubeletFacts, MaxPods, NodeClassFacts, Reserved, Threshold};
use karpenter_ec2::{AmiFamily, Circumstances, Ec2Settings, Place, resolve};
use karpenter_provider_aws::calls::{Instance, NewLaunchTemplate};
use serde::{Deserialize, Serialize};

use crate::boot::NodeSettings;
use crate::chance::{between, share};

#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The name its Node gets.
    pub name: String,
    pub provider_id: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Without devices.
    pub capacity: Resources,
    pub allocatable: Resources,
    /// GPUs and the like, which come up later than the node.
    pub devices: Resources,
    pub internal_ip: String,
    pub architecture: String,
    pub operating_system: String,
    pub os_image: String,
    /// From now until the node registers.
    pub boot_delay: Duration,
}

/// What happens to machines.
#[derive(Clone, Debug, PartialEq)]
pub enum MachineEvent {
    /// Switched on.
    Started(Box<Machine>),
    /// Gone without a word: terminated, reclaimed or stopped.
    Stopped { name: String, provider_id: String },
}

/// What of a machine cannot be told from its instance: saved, so that it is the same after a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) labels: BTreeMap<String, String>,
    /// `key=value:Effect`.
    pub(crate) taints: Vec<String>,
    pub(crate) capacity: BTreeMap<String, String>,
    pub(crate) allocatable: BTreeMap<String, String>,
    pub(crate) architecture: String,
    pub(crate) operating_system: String,
    pub(crate) os_image: String,
}

/// Resources that a device plugin announces.
const DEVICES: [&str; 6] = [
    "nvidia.com/gpu",
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
    "vpc.amazonaws.com/efa",
];
/// Of which nobody but the VPC resource controller, which does not run here, would tell the node.
const NOT_ANNOUNCED: [&str; 2] = ["vpc.amazonaws.com/pod-eni", "vpc.amazonaws.com/PrivateIPv4Address"];

/// The share of nominal memory that firmware and kernel keep: 2 to 6 percent, the same for all machines of a type.
fn true_memory(seed: u64, facts: &TypeFacts) -> Quantity {
    let kept = 0.02 + 0.04 * share(seed, &["memory", &facts.name]);
    let kib = (facts.memory_mib as f64 * 1024.0 * (1.0 - kept)) as i64;
    Quantity::from_bytes(kib * 1024)
}

/// What the node will tell of itself.
pub(crate) fn shape(
    seed: u64,
    region: (&str, &RegionFacts),
    facts: &TypeFacts,
    family: AmiFamily,
    template: &NewLaunchTemplate,
    settings: &NodeSettings,
    price: Option<MicroUsd>,
) -> Option<Shape> {
    let class = NodeClassFacts {
        ami_family: family,
        kubelet: kubelet(settings),
        block_devices: template.block_devices.iter().map(block_device).collect(),
        ..NodeClassFacts::default()
    };
    let circumstances = Circumstances {
        discovered_memory: [(facts.name.clone(), true_memory(seed, facts))].into(),
        ..Circumstances::default()
    };
    let place = Place { name: region.0, facts: region.1 };
    let kind = resolve([facts], place, &class, &Ec2Settings::default(), &circumstances).ok()?.pop()?;
    let arch = facts.kubernetes_arch().unwrap_or("amd64");
    let os = if family.is_windows() { "windows" } else { "linux" };
    let mut labels = settings.labels.clone();
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    set("node.kubernetes.io/instance-type", &facts.name);
    set("beta.kubernetes.io/instance-type", &facts.name);
    set("topology.kubernetes.io/region", region.0);
    set("failure-domain.beta.kubernetes.io/region", region.0);
    for (key, value) in [("kubernetes.io/arch", arch), ("kubernetes.io/os", os)] {
        set(key, value);
        set(&format!("beta.{key}"), value);
    }
    if let Some(price) = price {
        set("eks-node-viewer/instance-price", &format!("{:.6}", price.dollars()));
    }
    let text = |resources: &Resources| -> BTreeMap<String, String> {
        let told = resources.iter().filter(|(name, amount)| !amount.is_zero() && !NOT_ANNOUNCED.contains(name));
        let has_efa = template.interfaces.iter().any(|interface| interface.kind.is_some());
        let told = told.filter(|(name, _)| has_efa || *name != "vpc.amazonaws.com/efa");
        told.map(|(name, amount)| (name.to_owned(), amount.to_string())).collect()
    };
    Some(Shape {
        labels,
        taints: settings.taints.iter().map(ToString::to_string).collect(),
        capacity: text(&kind.capacity),
        allocatable: text(&kind.allocatable()),
        architecture: arch.to_owned(),
        operating_system: os.to_owned(),
        os_image: format!("Simulated {}", family.as_str()),
    })
}

fn kubelet(settings: &NodeSettings) -> KubeletFacts {
    let reserved = |given: &BTreeMap<String, String>| {
        let amount = |(name, text): (&String, &String)| Some((name.clone(), Reserved::Amount(text.parse().ok()?)));
        given.iter().filter_map(amount).collect()
    };
    let threshold = |signal: &str| {
        let text = settings.eviction_hard.get(signal)?;
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().map(Threshold::Percent),
            None => text.parse().ok().map(Threshold::Amount),
        }
    };
    KubeletFacts {
        max_pods: settings.max_pods.and_then(|pods| i32::try_from(pods).ok()).map(MaxPods::Count),
        pods_per_core: None,
        kube_reserved: reserved(&settings.kube_reserved),
        system_reserved: reserved(&settings.system_reserved),
        eviction_memory: threshold("memory.available"),
        eviction_nodefs: threshold("nodefs.available"),
    }
}

fn block_device(device: &karpenter_provider_aws::calls::BlockDevice) -> BlockDevice {
    let size =
        |volume: &karpenter_provider_aws::calls::Volume| volume.size_gib.map(|gib| Quantity::from_bytes(gib << 30));
    BlockDevice {
        device_name: device.device_name.clone(),
        root_volume: false,
        ebs: device.volume.as_ref().map(|volume| EbsVolume { size: size(volume) }),
    }
}

impl Shape {
    pub(crate) fn machine(&self, seed: u64, instance: &Instance, boot_delay: Duration) -> Machine {
        let address = between(seed, &["address", &instance.id], 0, 0x00ff_ffff);
        let [_, a, b, c] = (address as u32).to_be_bytes();
        let ip = format!("10.{a}.{b}.{c}");
        let name = format!("ip-10-{a}-{b}-{c}-{}.ec2.internal", &instance.id[instance.id.len().saturating_sub(6)..]);
        let mut labels = self.labels.clone();
        labels.insert("topology.kubernetes.io/zone".to_owned(), instance.zone.clone());
        labels.insert("failure-domain.beta.kubernetes.io/zone".to_owned(), instance.zone.clone());
        labels.insert("kubernetes.io/hostname".to_owned(), name.clone());
        if let Some(zone_id) = &instance.zone_id {
            labels.insert("topology.k8s.aws/zone-id".to_owned(), zone_id.clone());
        }
        let read = |given: &BTreeMap<String, String>, devices: bool| -> Resources {
            let wanted = given.iter().filter(|(name, _)| DEVICES.contains(&name.as_str()) == devices);
            wanted.filter_map(|(name, text)| Some((name.as_str(), text.parse().ok()?))).collect()
        };
        Machine {
            name,
            provider_id: karpenter_provider_aws::instances::provider_id(&instance.zone, &instance.id),
            labels,
            taints: self.taints.iter().filter_map(|text| taint(text)).collect(),
            capacity: read(&self.capacity, false),
            allocatable: read(&self.allocatable, false),
            devices: read(&self.capacity, true),
            internal_ip: ip,
            architecture: self.architecture.clone(),
            operating_system: self.operating_system.clone(),
            os_image: self.os_image.clone(),
            boot_delay,
        }
    }
}

fn taint(text: &str) -> Option<Taint> {
    let (name, effect) = text.rsplit_once(':')?;
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    let effect = karpenter_core::taints::Effect::parse(effect)?;
    Some(Taint { key: key.to_owned(), value: value.to_owned(), effect })
}

/// The pods a machine runs at most; for tests and views.
pub fn pods(machine: &Machine) -> i64 {
    machine.capacity.get(resources::PODS).units()
}
