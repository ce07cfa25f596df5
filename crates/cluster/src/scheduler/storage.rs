//! The volumes side of a snapshot.

use crate::key::{Key, annotation};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

#[derive(Clone, Debug, Default)]
pub struct Storage {
    pub claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
    pub volumes: BTreeMap<String, Arc<PersistentVolume>>,
    pub classes: BTreeMap<String, Arc<StorageClass>>,
    pub csi_nodes: BTreeMap<String, Arc<CSINode>>,
    pub csi_drivers: BTreeMap<String, Arc<CSIDriver>>,
    pub attachments: BTreeMap<String, Arc<VolumeAttachment>>,
    pub capacities: BTreeMap<Key, Arc<CSIStorageCapacity>>,
    /// How many placed pods use each claim.
    pub users: BTreeMap<Key, usize>,
}

/// The class a claim asks for: the old annotation before the field.
pub fn class_of(claim: &PersistentVolumeClaim) -> &str {
    annotation(&claim.metadata, "volume.beta.kubernetes.io/storage-class")
        .or_else(|| claim.spec.as_ref()?.storage_class_name.as_deref())
        .unwrap_or_default()
}

pub fn class_of_volume(volume: &PersistentVolume) -> &str {
    annotation(&volume.metadata, "volume.beta.kubernetes.io/storage-class")
        .or_else(|| volume.spec.as_ref()?.storage_class_name.as_deref())
        .unwrap_or_default()
}

pub fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).unwrap_or_default()
}

/// Bound as far as both sides are concerned: the controller has finished its work.
pub fn fully_bound(claim: &PersistentVolumeClaim) -> bool {
    !volume_name(claim).is_empty() && annotation(&claim.metadata, BIND_COMPLETED).is_some()
}

impl Storage {
    /// Whether the claim's volume is chosen together with the pod's node.
    pub fn waits_for_consumer(&self, claim: &PersistentVolumeClaim) -> Option<bool> {
        let class = class_of(claim);
        if class.is_empty() {
            return Some(false);
        }
        let class = self.classes.get(class)?;
        Some(class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"))
    }
}
