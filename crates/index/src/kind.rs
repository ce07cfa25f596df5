//! The kinds that decisions are made from.

use karpenter_core::settings::Settings;

/// What is watched. The order is that in which news are taken in: what others refer to comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Namespace,
    StorageClass,
    PersistentVolume,
    PersistentVolumeClaim,
    CSINode,
    VolumeAttachment,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    PodDisruptionBudget,
    PodTemplate,
    CapacityBuffer,
    NodeClass,
    NodeOverlay,
    NodePool,
    NodeClaim,
    Node,
    Pod,
}

/// What is only watched where somebody asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub node_overlays: bool,
    pub capacity_buffers: bool,
}

/// The one kind of node class the configured provider serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClassKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

impl NodeClassKind {
    /// The label that nodes of such a class carry, e.g. `karpenter.k8s.aws/ec2nodeclass`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_lowercase())
    }

    /// Whether a reference is to a class of this kind.
    pub fn is_kind_of(&self, reference: &karpenter_api::nodepool::NodeClassReference) -> bool {
        reference.group == self.group && reference.kind == self.kind
    }
}

impl Kind {
    pub const ALL: [Self; 20] = [
        Self::Namespace,
        Self::StorageClass,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::CSINode,
        Self::VolumeAttachment,
        Self::Service,
        Self::ReplicationController,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::PodDisruptionBudget,
        Self::PodTemplate,
        Self::CapacityBuffer,
        Self::NodeClass,
        Self::NodeOverlay,
        Self::NodePool,
        Self::NodeClaim,
        Self::Node,
        Self::Pod,
    ];

    /// What has to be watched under these settings: workloads and services are only asked for how their pods should
    /// spread by default, and many a cluster does not let us see them; overlays and buffers only where they are in force.
    pub fn needed(settings: &Settings, features: Features) -> Vec<Self> {
        let defaults = !settings.default_spread.is_empty();
        let is_needed = |kind: &Self| match kind {
            Self::NodeOverlay => features.node_overlays,
            Self::PodTemplate | Self::CapacityBuffer => features.capacity_buffers,
            _ => defaults || !kind.is_optional(),
        };
        Self::ALL.into_iter().filter(is_needed).collect()
    }

    /// Without it everything else still works.
    pub fn is_optional(self) -> bool {
        match self {
            Self::Service
            | Self::ReplicationController
            | Self::ReplicaSet
            | Self::StatefulSet
            | Self::PodTemplate
            | Self::CapacityBuffer
            | Self::NodeOverlay => true,
            Self::Namespace
            | Self::StorageClass
            | Self::PersistentVolume
            | Self::PersistentVolumeClaim
            | Self::CSINode
            | Self::VolumeAttachment
            | Self::DaemonSet
            | Self::PodDisruptionBudget
            | Self::NodeClass
            | Self::NodePool
            | Self::NodeClaim
            | Self::Node
            | Self::Pod => false,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::StorageClass => "StorageClass",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::CSINode => "CSINode",
            Self::VolumeAttachment => "VolumeAttachment",
            Self::Service => "Service",
            Self::ReplicationController => "ReplicationController",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::PodTemplate => "PodTemplate",
            Self::CapacityBuffer => "CapacityBuffer",
            Self::NodeClass => "NodeClass",
            Self::NodeOverlay => "NodeOverlay",
            Self::NodePool => "NodePool",
            Self::NodeClaim => "NodeClaim",
            Self::Node => "Node",
            Self::Pod => "Pod",
        }
    }

    /// Where all objects of the kind are listed.
    pub fn path(self, class: &NodeClassKind) -> String {
        match self {
            Self::Namespace => "/api/v1/namespaces".to_owned(),
            Self::StorageClass => "/apis/storage.k8s.io/v1/storageclasses".to_owned(),
            Self::PersistentVolume => "/api/v1/persistentvolumes".to_owned(),
            Self::PersistentVolumeClaim => "/api/v1/persistentvolumeclaims".to_owned(),
            Self::CSINode => "/apis/storage.k8s.io/v1/csinodes".to_owned(),
            Self::VolumeAttachment => "/apis/storage.k8s.io/v1/volumeattachments".to_owned(),
            Self::Service => "/api/v1/services".to_owned(),
            Self::ReplicationController => "/api/v1/replicationcontrollers".to_owned(),
            Self::ReplicaSet => "/apis/apps/v1/replicasets".to_owned(),
            Self::StatefulSet => "/apis/apps/v1/statefulsets".to_owned(),
            Self::DaemonSet => "/apis/apps/v1/daemonsets".to_owned(),
            Self::PodDisruptionBudget => "/apis/policy/v1/poddisruptionbudgets".to_owned(),
            Self::PodTemplate => "/api/v1/podtemplates".to_owned(),
            Self::CapacityBuffer => "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers".to_owned(),
            Self::NodeClass => format!("/apis/{}/{}/{}", class.group, class.version, class.plural),
            Self::NodeOverlay => "/apis/karpenter.sh/v1alpha1/nodeoverlays".to_owned(),
            Self::NodePool => "/apis/karpenter.sh/v1/nodepools".to_owned(),
            Self::NodeClaim => "/apis/karpenter.sh/v1/nodeclaims".to_owned(),
            Self::Node => "/api/v1/nodes".to_owned(),
            Self::Pod => "/api/v1/pods".to_owned(),
        }
    }
}
