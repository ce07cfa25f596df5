//! A machine, as a cloud hands it over.

use crate::selector::Labels;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Machine {
    /// The name its node gets.
    pub name: String,
    pub provider_id: String,
    pub labels: Labels,
    pub annotations: BTreeMap<String, String>,
    /// Taints the kubelet registers with.
    pub taints: Vec<Taint>,
    pub capacity: BTreeMap<String, Quantity>,
    pub allocatable: BTreeMap<String, Quantity>,
    /// Extended resources that appear in capacity and allocatable only after `device_delay`.
    pub devices: BTreeMap<String, Quantity>,
    pub internal_ip: String,
    pub architecture: String,
    pub operating_system: String,
    pub os_image: String,
    pub kubelet_version: String,
    /// From power on until the node registers.
    pub boot_delay: Duration,
    /// From registration until the node is ready.
    pub ready_delay: Duration,
    /// From registration until devices are there.
    pub device_delay: Duration,
    /// Storage drivers that register on the node, `csi_delay` after it does.
    pub csi_drivers: Vec<CsiDriver>,
    pub csi_delay: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriver {
    pub name: String,
    /// How many volumes it can attach; unlimited if not given.
    pub limit: Option<i32>,
    pub topology_keys: Vec<String>,
}

impl Machine {
    /// A plain Linux machine of the given size that is ready at once.
    pub fn new(name: &str, cpu: &str, memory: &str) -> Self {
        let resources = || {
            [("cpu", cpu), ("memory", memory), ("ephemeral-storage", "100Gi"), ("pods", "110")]
                .map(|(k, v)| (k.to_owned(), Quantity(v.to_owned())))
                .into()
        };
        let labels = [
            ("kubernetes.io/hostname", name),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
        ];
        let n = crate::chance::draw(0, &[name]);
        Self {
            name: name.into(),
            provider_id: String::new(),
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            capacity: resources(),
            allocatable: resources(),
            devices: BTreeMap::new(),
            internal_ip: format!("10.{}.{}.{}", n & 127, (n >> 8) & 255, 1 + ((n >> 16) % 254)),
            architecture: "amd64".into(),
            operating_system: "linux".into(),
            os_image: "Simulated Linux".into(),
            kubelet_version: "v1.36.3".into(),
            boot_delay: Duration::ZERO,
            ready_delay: Duration::ZERO,
            device_delay: Duration::ZERO,
            csi_drivers: Vec::new(),
            csi_delay: Duration::ZERO,
        }
    }
}
