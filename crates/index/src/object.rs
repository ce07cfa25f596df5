//! Objects as they come from a watch, and what is kept of those that are kept whole.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use karpenter_api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use karpenter_core::pod::WhenUnsatisfiable;
use karpenter_core::selector::Selector;
use serde::Deserialize;

use crate::kind::Kind;
use crate::reduce::Reading;

/// A watched object, decoded and not yet reduced.
#[derive(Clone, Debug)]
pub enum Object {
    Namespace(Box<Namespace>),
    StorageClass(Box<StorageClass>),
    PersistentVolume(Box<PersistentVolume>),
    PersistentVolumeClaim(Box<PersistentVolumeClaim>),
    CSINode(Box<CSINode>),
    VolumeAttachment(Box<VolumeAttachment>),
    Service(Box<Service>),
    ReplicationController(Box<ReplicationController>),
    ReplicaSet(Box<ReplicaSet>),
    StatefulSet(Box<StatefulSet>),
    DaemonSet(Box<DaemonSet>),
    PodDisruptionBudget(Box<PodDisruptionBudget>),
    PodTemplate(Box<PodTemplate>),
    CapacityBuffer(Box<CapacityBuffer>),
    NodeClass(Box<NodeClass>),
    NodeOverlay(Box<NodeOverlay>),
    NodePool(Box<NodePool>),
    NodeClaim(Box<NodeClaim>),
    Node(Box<Node>),
    Pod(Box<Pod>),
}

/// What is the same for the node classes of all providers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NodeClass {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub status: NodeClassStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NodeClassStatus {
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl NodeClass {
    pub fn condition(&self, name: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == name)
    }
}

/// What is kept of a pod: what places it, and what its end looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedPod {
    pub pod: karpenter_core::Pod,
    /// `metadata.deletionTimestamp`, which the grace period is part of.
    pub deletion: Option<Timestamp>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace_seconds: Option<i64>,
    /// `controller.kubernetes.io/pod-deletion-cost` as it is written.
    pub deletion_cost: Option<Arc<str>>,
    pub priority_class: Option<Arc<str>>,
    /// What its containers may use at most, where they say so.
    pub limits: Arc<karpenter_core::Resources>,
    pub reading: Reading,
}

impl TrackedPod {
    /// Whether what the pod needs is known, so that another place for it can be looked for; if not, why.
    pub fn unknown_needs(&self) -> Option<String> {
        if let Reading::Partial(refused) = &self.reading {
            return Some(refused.to_string());
        }
        let shape = &self.pod.shape;
        let operator = shape.required_node_affinity.iter().find_map(|term| term.unknown_operator.as_deref());
        if let Some(operator) = operator {
            return Some(format!("unsupported operator in {operator:?}"));
        }
        let terms = shape.required_pod_affinity.iter().chain(&shape.required_pod_anti_affinity);
        let spread = shape.spread.iter().filter(|spread| spread.when == WhenUnsatisfiable::DoNotSchedule);
        let mut selectors = terms.map(|term| &term.selector).chain(spread.map(|spread| &spread.selector)).flatten();
        selectors.any(Selector::is_invalid).then(|| "unsupported operator in a label selector".to_owned())
    }

    /// A pod without a node is not planned for by guess: what is bought for it might never do.
    pub(crate) fn can_be_planned(&self) -> bool {
        self.pod.node.is_some() || !matches!(self.reading, Reading::Partial(_))
    }

    /// It may be running, and what it needs is not known: it stays where it is.
    pub(crate) fn pins_its_node(&self) -> bool {
        !self.pod.is_terminal() && self.unknown_needs().is_some()
    }
}

/// A volume held by a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub name: Arc<str>,
    pub node: Arc<str>,
    /// The PersistentVolume; inline volumes have none.
    pub volume: Option<Arc<str>>,
    pub deleting: bool,
}

impl Object {
    /// Reads an object of a kind.
    pub fn decode(kind: Kind, json: &str) -> serde_json::Result<Self> {
        Ok(match kind {
            Kind::Namespace => Self::Namespace(serde_json::from_str(json)?),
            Kind::StorageClass => Self::StorageClass(serde_json::from_str(json)?),
            Kind::PersistentVolume => Self::PersistentVolume(serde_json::from_str(json)?),
            Kind::PersistentVolumeClaim => Self::PersistentVolumeClaim(serde_json::from_str(json)?),
            Kind::CSINode => Self::CSINode(serde_json::from_str(json)?),
            Kind::VolumeAttachment => Self::VolumeAttachment(serde_json::from_str(json)?),
            Kind::Service => Self::Service(serde_json::from_str(json)?),
            Kind::ReplicationController => Self::ReplicationController(serde_json::from_str(json)?),
            Kind::ReplicaSet => Self::ReplicaSet(serde_json::from_str(json)?),
            Kind::StatefulSet => Self::StatefulSet(serde_json::from_str(json)?),
            Kind::DaemonSet => Self::DaemonSet(serde_json::from_str(json)?),
            Kind::PodDisruptionBudget => Self::PodDisruptionBudget(serde_json::from_str(json)?),
            Kind::PodTemplate => Self::PodTemplate(serde_json::from_str(json)?),
            Kind::CapacityBuffer => Self::CapacityBuffer(serde_json::from_str(json)?),
            Kind::NodeClass => Self::NodeClass(serde_json::from_str(json)?),
            Kind::NodeOverlay => Self::NodeOverlay(serde_json::from_str(json)?),
            Kind::NodePool => Self::NodePool(serde_json::from_str(json)?),
            Kind::NodeClaim => Self::NodeClaim(serde_json::from_str(json)?),
            Kind::Node => Self::Node(serde_json::from_str(json)?),
            Kind::Pod => Self::Pod(serde_json::from_str(json)?),
        })
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Namespace(_) => Kind::Namespace,
            Self::StorageClass(_) => Kind::StorageClass,
            Self::PersistentVolume(_) => Kind::PersistentVolume,
            Self::PersistentVolumeClaim(_) => Kind::PersistentVolumeClaim,
            Self::CSINode(_) => Kind::CSINode,
            Self::VolumeAttachment(_) => Kind::VolumeAttachment,
            Self::Service(_) => Kind::Service,
            Self::ReplicationController(_) => Kind::ReplicationController,
            Self::ReplicaSet(_) => Kind::ReplicaSet,
            Self::StatefulSet(_) => Kind::StatefulSet,
            Self::DaemonSet(_) => Kind::DaemonSet,
            Self::PodDisruptionBudget(_) => Kind::PodDisruptionBudget,
            Self::PodTemplate(_) => Kind::PodTemplate,
            Self::CapacityBuffer(_) => Kind::CapacityBuffer,
            Self::NodeClass(_) => Kind::NodeClass,
            Self::NodeOverlay(_) => Kind::NodeOverlay,
            Self::NodePool(_) => Kind::NodePool,
            Self::NodeClaim(_) => Kind::NodeClaim,
            Self::Node(_) => Kind::Node,
            Self::Pod(_) => Kind::Pod,
        }
    }

    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Namespace(object) => &object.metadata,
            Self::StorageClass(object) => &object.metadata,
            Self::PersistentVolume(object) => &object.metadata,
            Self::PersistentVolumeClaim(object) => &object.metadata,
            Self::CSINode(object) => &object.metadata,
            Self::VolumeAttachment(object) => &object.metadata,
            Self::Service(object) => &object.metadata,
            Self::ReplicationController(object) => &object.metadata,
            Self::ReplicaSet(object) => &object.metadata,
            Self::StatefulSet(object) => &object.metadata,
            Self::DaemonSet(object) => &object.metadata,
            Self::PodDisruptionBudget(object) => &object.metadata,
            Self::PodTemplate(object) => &object.metadata,
            Self::CapacityBuffer(object) => &object.metadata,
            Self::NodeClass(object) => &object.metadata,
            Self::NodeOverlay(object) => &object.metadata,
            Self::NodePool(object) => &object.metadata,
            Self::NodeClaim(object) => &object.metadata,
            Self::Node(object) => &object.metadata,
            Self::Pod(object) => &object.metadata,
        }
    }
}

macro_rules! into_object {
    ($($kind:ident),*) => {
        $(impl From<$kind> for Object {
            fn from(object: $kind) -> Self {
                Self::$kind(Box::new(object))
            }
        })*
    };
}
into_object!(
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
    Pod
);
