//! The kinds we read, by what stands in `apiVersion` and `kind`.

/// A kind that matters to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    NodePool,
    NodeClaim,
    NodeOverlay,
    EC2NodeClass,
    Pod,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CsiNode,
    PodDisruptionBudget,
    Namespace,
    PriorityClass,
    RuntimeClass,
    LimitRange,
    Service,
}

/// `apiVersion`, `kind`, and whether objects of the kind live in a namespace.
const TABLE: [(Known, &str, &str, bool); 21] = [
    (Known::NodePool, "karpenter.sh/v1", "NodePool", false),
    (Known::NodeClaim, "karpenter.sh/v1", "NodeClaim", false),
    (Known::NodeOverlay, "karpenter.sh/v1alpha1", "NodeOverlay", false),
    (Known::EC2NodeClass, "karpenter.k8s.aws/v1", "EC2NodeClass", false),
    (Known::Pod, "v1", "Pod", true),
    (Known::Deployment, "apps/v1", "Deployment", true),
    (Known::ReplicaSet, "apps/v1", "ReplicaSet", true),
    (Known::StatefulSet, "apps/v1", "StatefulSet", true),
    (Known::DaemonSet, "apps/v1", "DaemonSet", true),
    (Known::Job, "batch/v1", "Job", true),
    (Known::Node, "v1", "Node", false),
    (Known::PersistentVolume, "v1", "PersistentVolume", false),
    (Known::PersistentVolumeClaim, "v1", "PersistentVolumeClaim", true),
    (Known::StorageClass, "storage.k8s.io/v1", "StorageClass", false),
    (Known::CsiNode, "storage.k8s.io/v1", "CSINode", false),
    (Known::PodDisruptionBudget, "policy/v1", "PodDisruptionBudget", true),
    (Known::Namespace, "v1", "Namespace", false),
    (Known::PriorityClass, "scheduling.k8s.io/v1", "PriorityClass", false),
    (Known::RuntimeClass, "node.k8s.io/v1", "RuntimeClass", false),
    (Known::LimitRange, "v1", "LimitRange", true),
    (Known::Service, "v1", "Service", true),
];

pub(crate) enum Lookup {
    Known(Known),
    /// Ours, but in a version we do not read; the one we do.
    OtherVersion(&'static str),
    Unknown,
}

pub(crate) fn lookup(api_version: &str, kind: &str) -> Lookup {
    let group = |version: &str| version.split_once('/').map_or("", |(group, _)| group).to_owned();
    for (known, version, name, _) in TABLE {
        if name == kind && version == api_version {
            return Lookup::Known(known);
        }
        if name == kind && group(version) == group(api_version) {
            return Lookup::OtherVersion(version);
        }
    }
    Lookup::Unknown
}

impl Known {
    fn row(self) -> &'static (Known, &'static str, &'static str, bool) {
        TABLE.iter().find(|row| row.0 == self).expect("every kind has a row")
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().2
    }

    pub(crate) fn is_namespaced(self) -> bool {
        self.row().3
    }
}
