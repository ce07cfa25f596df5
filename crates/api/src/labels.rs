//! Names that are part of the API: domains, labels, annotations, taints, finalizers and tags.

/// Domain of the provider-neutral kinds and names.
pub const GROUP: &str = "karpenter.sh";
/// Domain of the AWS kinds and names.
pub const AWS_GROUP: &str = "karpenter.k8s.aws";

// Labels.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const REGISTERED: &str = "karpenter.sh/registered";
pub const INITIALIZED: &str = "karpenter.sh/initialized";
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ARCH: &str = "kubernetes.io/arch";
pub const OS: &str = "kubernetes.io/os";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

// Annotations.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
pub const EC2NODECLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
pub const EC2NODECLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
pub const CAPACITY_BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
pub const CAPACITY_BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
pub const CAPACITY_BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";
pub const INSTANCE_TAGGED: &str = "karpenter.k8s.aws/tagged";
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
pub const COMPATIBILITY_PROVIDER: &str = "compatibility.karpenter.sh/provider";

// Taints and finalizers.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";
pub const EC2NODECLASS_TERMINATION_FINALIZER: &str = "karpenter.k8s.aws/termination";

// Tags on EC2 objects that users may not set themselves.
pub const NODECLAIM_TAG: &str = "karpenter.sh/nodeclaim";
pub const EKS_CLUSTER_NAME_TAG: &str = "eks:eks-cluster-name";
