//! Volumes, claims and storage classes.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm};
use k8s_openapi::api::storage::v1 as storage_v1;
use karpenter_core::requirement::{Expression, Operator};
use karpenter_core::storage::{BindingMode, StorageClass, Volume, VolumeClaim};

use super::expressions::node_term;
use super::{Faults, Read, Refused};
use crate::object::Attachment;
use crate::path::Path;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const EBS_DRIVER: &str = "ebs.csi.aws.com";

pub fn volume_claim(object: &PersistentVolumeClaim) -> VolumeClaim {
    let spec = object.spec.as_ref();
    let volume = spec.and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
    let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
    VolumeClaim {
        volume: volume.map(Into::into),
        class: spec.and_then(|spec| spec.storage_class_name.as_deref()).map(Into::into),
        bind_completed: object.metadata.annotations.iter().flatten().any(|(key, _)| key == BIND_COMPLETED),
        terminating: object.metadata.deletion_timestamp.is_some(),
        lost: phase == Some("Lost"),
    }
}

pub fn volume(object: &PersistentVolume) -> Volume {
    let spec = object.spec.clone().unwrap_or_default();
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let csi = spec.csi.as_ref().map(|source| source.driver.as_str());
    let in_tree = spec.aws_elastic_block_store.as_ref().map(|_| EBS_DRIVER);
    Volume {
        terminating: object.metadata.deletion_timestamp.is_some(),
        node_affinity: required.map(|r| r.node_selector_terms.iter().map(node_term).collect()).unwrap_or_default(),
        is_local: spec.local.is_some() || spec.host_path.is_some(),
        driver: csi.or(in_tree).map(Into::into),
    }
}

pub fn attachment(object: &storage_v1::VolumeAttachment) -> Attachment {
    Attachment {
        name: object.metadata.name.as_deref().unwrap_or("").into(),
        node: object.spec.node_name.as_str().into(),
        volume: object.spec.source.persistent_volume_name.as_deref().map(Into::into),
        deleting: object.metadata.deletion_timestamp.is_some(),
    }
}

pub fn storage_class(object: &storage_v1::StorageClass) -> Result<StorageClass, Refused> {
    read_storage_class(object).strict()
}

/// As [`storage_class`], however well it could be read. A binding mode of a later Kubernetes is somebody else's to carry
/// out: what is not bound yet is waited for, and what is bound is where it is.
pub fn read_storage_class(object: &storage_v1::StorageClass) -> Read<StorageClass> {
    let mut faults = Faults::default();
    let binding = match object.volume_binding_mode.as_deref() {
        None | Some("" | "Immediate") => BindingMode::Immediate,
        Some("WaitForFirstConsumer") => BindingMode::WaitForFirstConsumer,
        Some(other) => {
            let message = format!("{other:?} is not one of Immediate, WaitForFirstConsumer");
            faults.careful(&Path::Root.field("volumeBindingMode"), message);
            BindingMode::Immediate
        }
    };
    let class = StorageClass {
        provisioner: object.provisioner.as_str().into(),
        binding,
        allowed_topologies: object.allowed_topologies.iter().flatten().map(topology).collect(),
    };
    faults.read("StorageClass", &object.metadata, class)
}

fn topology(term: &TopologySelectorTerm) -> Vec<Expression> {
    let all = term.match_label_expressions.iter().flatten();
    all.map(|wire| {
        let values: Vec<&str> = wire.values.iter().map(String::as_str).collect();
        Expression::new(&wire.key, Operator::In, &values)
    })
    .collect()
}
