//! One instance type, as EC2 describes it.

use std::sync::Arc;

/// What decides how a node of this type is labelled, sized and sold. Numbers are as EC2 reports them; an `Option` is
/// `None` where the source does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFacts {
    pub name: Arc<str>,
    /// In EC2's order, which matters: the first one decides whether memory is reserved as on Graviton.
    pub arch: Vec<Arc<str>>,
    pub cpu_manufacturer: Option<Arc<str>>,
    /// Sustained clock speed, rounded to a whole MHz.
    pub clock_mhz: Option<u32>,
    pub cpu_features: Vec<Arc<str>>,
    pub vcpus: u32,
    /// Nominal; the operating system sees less.
    pub memory_mib: u64,
    /// `nitro` or `xen`; `None` for bare metal.
    pub hypervisor: Option<Arc<str>>,
    pub bare_metal: bool,
    pub usage_classes: Vec<CapacityClass>,
    /// Addresses for each interface, the primary one included.
    pub ipv4_per_eni: u32,
    pub default_network_card: usize,
    pub network_cards: Vec<NetworkCard>,
    /// Documented baseline bandwidth.
    pub network_mbps: Option<u64>,
    pub efa_max: u32,
    /// Whether enhanced networking is there at all; unknown counts as yes.
    pub ena: Option<bool>,
    /// `None`: the VPC resource controller does not list the type.
    pub branch_limits: Option<BranchLimits>,
    pub encryption_in_transit: bool,
    pub nitro_enclaves: Option<bool>,
    pub ebs_optimized: EbsOptimization,
    pub ebs_max_mbps: Option<u32>,
    /// Instance store in GB (10^9 bytes); 0: none.
    pub local_disk_gb: u64,
    /// Whether the instance store is reached over NVMe.
    pub local_disk_is_nvme: bool,
    pub gpus: Vec<Gpu>,
    pub accelerators: Vec<Accelerator>,
    pub placement_strategies: Vec<Arc<str>>,
}

/// How EC2 sells a type. Capacity blocks are bought ahead and reach us as reservations only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapacityClass {
    OnDemand,
    Spot,
    CapacityBlock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkCard {
    pub max_enis: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchLimits {
    pub trunking: bool,
    pub branch_enis: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EbsOptimization {
    Default,
    /// Must be asked for.
    Supported,
    Unsupported,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub name: Arc<str>,
    pub manufacturer: Arc<str>,
    /// 0 for a fraction of a GPU.
    pub count: u32,
    /// Of each.
    pub memory_mib: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    pub kind: AcceleratorKind,
    pub name: Arc<str>,
    pub manufacturer: Arc<str>,
    pub count: u32,
    /// 0 where the kind has no such notion.
    pub cores_per_device: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceleratorKind {
    Neuron,
    Inference,
    Fpga,
    Media,
}

impl TypeFacts {
    /// The architecture as Kubernetes spells it: that of the first one EC2 lists which Kubernetes nodes run on.
    pub fn kubernetes_arch(&self) -> Option<&'static str> {
        self.arch.iter().find_map(|arch| match &**arch {
            "x86_64" => Some("amd64"),
            "arm64" => Some("arm64"),
            _ => None,
        })
    }

    pub fn runs_kubernetes(&self) -> bool {
        self.kubernetes_arch().is_some()
    }

    pub fn neuron_devices(&self) -> impl Iterator<Item = &Accelerator> {
        self.of_kind(AcceleratorKind::Neuron)
    }

    pub fn inference_devices(&self) -> impl Iterator<Item = &Accelerator> {
        self.of_kind(AcceleratorKind::Inference)
    }

    fn of_kind(&self, kind: AcceleratorKind) -> impl Iterator<Item = &Accelerator> {
        self.accelerators.iter().filter(move |device| device.kind == kind)
    }
}

impl CapacityClass {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "on-demand" => Some(Self::OnDemand),
            "spot" => Some(Self::Spot),
            "capacity-block" => Some(Self::CapacityBlock),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::CapacityBlock => "capacity-block",
        }
    }
}

impl EbsOptimization {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "default" => Some(Self::Default),
            "supported" => Some(Self::Supported),
            "unsupported" => Some(Self::Unsupported),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Supported => "supported",
            Self::Unsupported => "unsupported",
        }
    }
}

impl AcceleratorKind {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "neuron" => Some(Self::Neuron),
            "inference" => Some(Self::Inference),
            "fpga" => Some(Self::Fpga),
            "media" => Some(Self::Media),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Neuron => "neuron",
            Self::Inference => "inference",
            Self::Fpga => "fpga",
            Self::Media => "media",
        }
    }
}
