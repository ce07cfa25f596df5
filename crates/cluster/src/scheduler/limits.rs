//! How many volumes of a driver a node can attach, as its CSINode says.

use super::node::NodeInfo;
use super::pod::PodInfo;
use super::reject::{Plugin, Reject};
use super::snapshot::Snapshot;
use super::storage::{Storage, class_of, volume_name};
use super::volumes::ByDriver;
use crate::key::{Key, annotation};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::CSINode;
use std::collections::BTreeMap;

const TOO_MANY: &str = "node(s) exceed max volume count";
const EBS_IN_TREE: &str = "kubernetes.io/aws-ebs";
const EBS_CSI: &str = "ebs.csi.aws.com";

/// Unique volume to the driver that attaches it.
type Attachable = BTreeMap<(String, String), String>;

pub fn filter(snapshot: &Snapshot, pod: &PodInfo, node: &NodeInfo) -> Result<(), Reject> {
    let storage = &snapshot.storage;
    let Some(csi_node) = storage.csi_nodes.get(&*node.name) else {
        return Ok(());
    };
    let limits = limits_of(csi_node);
    if limits.is_empty() {
        return Ok(());
    }
    let mut new = Attachable::new();
    collect(storage, pod, csi_node, &mut new);
    if new.is_empty() {
        return Ok(());
    }
    let mut attached = Attachable::new();
    if node.with_claims > 0 {
        node.pods.iter().for_each(|r| collect(storage, &r.pod, csi_node, &mut attached));
    }
    new.retain(|volume, _| !attached.contains_key(volume));
    for attachment in storage.attachments.values().filter(|a| a.spec.node_name == *node.name) {
        let volume = attachment.spec.source.persistent_volume_name.as_ref().and_then(|n| storage.volumes.get(n));
        if let Some((driver, handle)) = volume.and_then(|v| csi_source(v, csi_node)) {
            attached.insert((driver.clone(), handle), driver);
        }
    }
    let (have, more) = (count(&attached), count(&new));
    let over = |(driver, count): (&String, &usize)| {
        limits.get(driver).is_some_and(|limit| have.get(driver).copied().unwrap_or(0) + count > *limit)
    };
    if more.iter().any(over) { Err(Reject::resolvable(Plugin::VolumeLimits, TOO_MANY)) } else { Ok(()) }
}

fn count(volumes: &Attachable) -> ByDriver {
    let mut counts = ByDriver::new();
    volumes.values().for_each(|driver| *counts.entry(driver.clone()).or_default() += 1);
    counts
}

fn limits_of(csi_node: &CSINode) -> BTreeMap<String, usize> {
    let drivers = csi_node.spec.drivers.iter();
    drivers
        .filter_map(|d| {
            let limit = d.allocatable.as_ref()?.count?;
            Some((d.name.clone(), usize::try_from(limit).unwrap_or(0)))
        })
        .collect()
}

fn collect(storage: &Storage, pod: &PodInfo, csi_node: &CSINode, into: &mut Attachable) {
    for claim in &pod.claims {
        let key = pod.key.sibling(&claim.name);
        if let Some((driver, handle)) = driver_of(storage, &key, csi_node) {
            into.insert((driver.clone(), handle), driver);
        }
    }
}

/// A claim without a volume counts by its class: it will be a volume of that driver soon.
fn driver_of(storage: &Storage, key: &Key, csi_node: &CSINode) -> Option<(String, String)> {
    let claim = storage.claims.get(key)?;
    if let Some(volume) = storage.volumes.get(volume_name(claim)) {
        return csi_source(volume, csi_node);
    }
    let class = storage.classes.get(class_of(claim))?;
    let driver = match class.provisioner.as_str() {
        EBS_IN_TREE if migrated(csi_node) => EBS_CSI,
        EBS_IN_TREE => return None,
        other => other,
    };
    Some((driver.into(), format!("claim {key}")))
}

fn csi_source(volume: &PersistentVolume, csi_node: &CSINode) -> Option<(String, String)> {
    let spec = volume.spec.as_ref()?;
    if let Some(csi) = &spec.csi {
        return Some((csi.driver.clone(), csi.volume_handle.clone()));
    }
    let disk = spec.aws_elastic_block_store.as_ref().filter(|_| migrated(csi_node))?;
    Some((EBS_CSI.into(), disk.volume_id.clone()))
}

fn migrated(csi_node: &CSINode) -> bool {
    let plugins = annotation(&csi_node.metadata, "storage.alpha.kubernetes.io/migrated-plugins").unwrap_or_default();
    plugins.split(',').any(|p| p == EBS_IN_TREE)
}
