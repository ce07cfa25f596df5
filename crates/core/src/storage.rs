//! Persistent volumes as far as they decide where a pod can run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pod::NodeTerm;
use crate::requirement::Expression;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// By namespace and name.
    pub claims: BTreeMap<(Arc<str>, Arc<str>), VolumeClaim>,
    pub volumes: BTreeMap<Arc<str>, Volume>,
    pub classes: BTreeMap<Arc<str>, StorageClass>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeClaim {
    pub volume: Option<Arc<str>>,
    /// `None`: absent. Some empty: the user asked for no class.
    pub class: Option<Arc<str>>,
    /// Carries the annotation `pv.kubernetes.io/bind-completed`.
    pub bind_completed: bool,
    pub terminating: bool,
    /// Phase `Lost`.
    pub lost: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub terminating: bool,
    /// Alternatives of `spec.nodeAffinity.required`.
    pub node_affinity: Vec<NodeTerm>,
    /// Local and hostPath volumes do not move with their pod.
    pub is_local: bool,
    /// The CSI driver, `ebs.csi.aws.com` for an in-tree EBS volume.
    pub driver: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    pub provisioner: Arc<str>,
    pub binding: BindingMode,
    /// Alternatives; each entry's expressions are `In`.
    pub allowed_topologies: Vec<Vec<Expression>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingMode {
    Immediate,
    WaitForFirstConsumer,
}

/// The CSI driver that serves an in-tree provisioner's volumes.
pub fn csi_driver(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/azure-file" => "file.csi.azure.com",
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        "kubernetes.io/portworx-volume" => "pxd.portworx.com",
        other => other,
    }
}
