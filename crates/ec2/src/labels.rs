//! The labels AWS adds to the vocabulary.

use karpenter_core::labels::{Vocabulary, ZONE};

/// The domain in which users may use only the keys below.
pub const DOMAIN: &str = "karpenter.k8s.aws";

pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";
pub const HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
pub const ENCRYPTION_IN_TRANSIT: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
pub const NITRO_SANDBOX: &str = "karpenter.k8s.aws/nitro-sandbox";
pub const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
pub const CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
pub const FAMILY: &str = "karpenter.k8s.aws/instance-family";
pub const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
pub const SIZE: &str = "karpenter.k8s.aws/instance-size";
pub const LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
pub const CPU: &str = "karpenter.k8s.aws/instance-cpu";
pub const CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
pub const CPU_CLOCK_MHZ: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
pub const MEMORY: &str = "karpenter.k8s.aws/instance-memory";
pub const EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
pub const NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
pub const GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
pub const GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
pub const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
pub const GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
pub const ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
pub const ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
pub const ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
pub const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";

/// The values [`TENANCY`] may be asked for with.
pub const TENANCIES: [&str; 2] = ["default", "dedicated"];

/// Every key above: an instance type or an offering decides their values.
pub const WELL_KNOWN: [&str; 29] = [
    ZONE_ID,
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
    HYPERVISOR,
    ENCRYPTION_IN_TRANSIT,
    NITRO_SANDBOX,
    CATEGORY,
    CAPABILITY_FLEX,
    FAMILY,
    GENERATION,
    SIZE,
    LOCAL_NVME,
    CPU,
    CPU_MANUFACTURER,
    CPU_CLOCK_MHZ,
    MEMORY,
    EBS_BANDWIDTH,
    NETWORK_BANDWIDTH,
    GPU_NAME,
    GPU_MANUFACTURER,
    GPU_COUNT,
    GPU_MEMORY,
    ACCELERATOR_NAME,
    ACCELERATOR_MANUFACTURER,
    ACCELERATOR_COUNT,
    TENANCY,
];

/// What Kubernetes, Karpenter and AWS define together. The node class label of our nodes is not among the well-known
/// keys: a NodePool that names it in its requirements is not ready, as upstream has it.
pub fn vocabulary() -> Vocabulary {
    let mut words = Vocabulary::kubernetes();
    words.well_known.extend(WELL_KNOWN.map(str::to_owned));
    words.aliases.insert("topology.ebs.csi.aws.com/zone".to_owned(), ZONE.to_owned());
    words.restricted_domains.insert(DOMAIN.to_owned());
    words.reservation_id = Some(CAPACITY_RESERVATION_ID.to_owned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aws_keys_are_known_and_its_domain_is_closed() {
        // covers: AWS-IT-32, API-LB-01
        let words = vocabulary();
        for key in WELL_KNOWN {
            assert!(words.is_well_known(key) && !words.is_restricted(key), "{key}");
        }
        for (key, restricted) in [
            ("karpenter.k8s.aws/instance-pods", true),
            ("karpenter.k8s.aws/ec2nodeclass", true),
            ("sub.karpenter.k8s.aws/x", true),
            ("karpenter.sh/x", true),
            ("notkarpenter.k8s.aws/x", false),
            ("k8s.aws/x", false),
        ] {
            assert_eq!(words.is_restricted(key), restricted, "{key}");
        }
        // covers: AWS-OPS-15
        assert_eq!(words.normalize("topology.ebs.csi.aws.com/zone"), "topology.kubernetes.io/zone");
        assert_eq!(words.reservation_id.as_deref(), Some("karpenter.k8s.aws/capacity-reservation-id"));
    }
}
