//! Volumes: which claims a pod brings, where they can be used, and what must be bound for it.

use super::node::NodeInfo;
use super::pod::PodInfo;
use super::reject::{Plugin, Reject};
use super::snapshot::Snapshot;
use super::storage::{NO_PROVISIONER, SELECTED_NODE, Storage, class_of, class_of_volume, fully_bound, volume_name};
use crate::key::{annotation, name, uid};
use crate::quantity::nanos;
use crate::selector::{Labels, Selector, selector_matches, topology_allowed};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const NO_SPACE: &str = "node(s) did not have enough free storage";
const NO_SUCH_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const NO_ZONE: &str = "node(s) had no available volume zone";
const NO_DISK: &str = "node(s) had no available disk";
const IN_USE: &str =
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";

/// Zone and region labels on volumes, from before volumes had node affinity.
const TOPOLOGY_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// What a pod's volumes mean for every node.
#[derive(Clone, Debug, Default)]
pub struct VolumeState {
    bound: Vec<Arc<PersistentVolumeClaim>>,
    delayed: Vec<Arc<PersistentVolumeClaim>>,
    topologies: Vec<(String, BTreeSet<String>)>,
    single_pod_claims: BTreeSet<String>,
    /// Pods that use one of the claims only one pod may use.
    conflicts: i64,
    has_disks: bool,
}

/// What placing the pod on a node would bind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodVolumes {
    pub bindings: Vec<(Arc<PersistentVolume>, Arc<PersistentVolumeClaim>)>,
    pub provisions: Vec<Arc<PersistentVolumeClaim>>,
}

impl VolumeState {
    /// `None` for pods without volumes that matter.
    pub fn new(snapshot: &Snapshot, pod: &PodInfo) -> Result<Option<Self>, Reject> {
        let has_disks = pod.spec().is_some_and(|s| s.volumes.iter().flatten().any(is_disk));
        if pod.claims.is_empty() && !has_disks {
            return Ok(None);
        }
        let storage = &snapshot.storage;
        let mut state = Self { has_disks, ..Self::default() };
        for claim in pod.claims.iter().filter(|c| !c.ephemeral) {
            let key = pod.key.sibling(&claim.name);
            let Some(found) = storage.claims.get(&key) else {
                return Err(for_good(
                    Plugin::VolumeRestrictions,
                    format!("persistentvolumeclaim \"{}\" not found", claim.name),
                ));
            };
            if access_modes(found).any(|m| m == "ReadWriteOncePod") {
                state.conflicts += i64::from(storage.users.contains_key(&key));
                state.single_pod_claims.insert(claim.name.clone());
            }
        }
        state.sort_claims(storage, pod)?;
        state.topologies = topologies(storage, pod)?;
        Ok(Some(state))
    }

    fn sort_claims(&mut self, storage: &Storage, pod: &PodInfo) -> Result<(), Reject> {
        for claim in &pod.claims {
            let name = &claim.name;
            let fail = |text: String| Err(for_good(Plugin::VolumeBinding, text));
            let Some(found) = storage.claims.get(&pod.key.sibling(name)) else {
                return fail(if claim.ephemeral {
                    format!("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\"")
                } else {
                    format!("persistentvolumeclaim \"{name}\" not found")
                });
            };
            let phase = found.status.as_ref().and_then(|s| s.phase.as_deref());
            if phase == Some("Lost") {
                let volume = volume_name(found);
                return fail(format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
                ));
            }
            if found.metadata.deletion_timestamp.is_some() {
                return fail(format!("persistentvolumeclaim \"{name}\" is being deleted"));
            }
            let owned = found
                .metadata
                .owner_references
                .iter()
                .flatten()
                .any(|o| o.uid == pod.uid && o.controller == Some(true));
            if claim.ephemeral && !owned {
                return fail(format!(
                    "PVC {}/{name} was not created for pod {} (pod is not owner)",
                    pod.key.namespace, pod.key
                ));
            }
        }
        let mut immediate = false;
        for claim in &pod.claims {
            let Some(found) = storage.claims.get(&pod.key.sibling(&claim.name)) else {
                continue;
            };
            if fully_bound(found) {
                self.bound.push(found.clone());
                continue;
            }
            match storage.waits_for_consumer(found) {
                Some(true) if volume_name(found).is_empty() => self.delayed.push(found.clone()),
                // A class that does not exist yet cannot ask to wait.
                Some(_) | None => immediate = true,
            }
        }
        if immediate {
            return Err(for_good(Plugin::VolumeBinding, "pod has unbound immediate PersistentVolumeClaims".into()));
        }
        Ok(())
    }

    pub fn update(&mut self, pod: &PodInfo, other: &PodInfo, by: i64) {
        let shared = |c: &&super::pod::ClaimRef| !c.ephemeral && self.single_pod_claims.contains(&c.name);
        if pod.key.namespace == other.key.namespace {
            self.conflicts += by * other.claims.iter().filter(shared).count() as i64;
        }
    }

    pub fn filter(&self, snapshot: &Snapshot, pod: &PodInfo, node: &NodeInfo) -> Result<PodVolumes, Reject> {
        if self.has_disks && disk_conflict(pod, node) {
            return Err(Reject::resolvable(Plugin::VolumeRestrictions, NO_DISK));
        }
        if self.conflicts > 0 {
            return Err(Reject::resolvable(Plugin::VolumeRestrictions, IN_USE));
        }
        super::limits::filter(snapshot, pod, node)?;
        let volumes = self.find(&snapshot.storage, node)?;
        self.zones(node)?;
        Ok(volumes)
    }

    fn find(&self, storage: &Storage, node: &NodeInfo) -> Result<PodVolumes, Reject> {
        let fail = |reason| Err(Reject::for_good(Plugin::VolumeBinding, reason));
        for claim in &self.bound {
            let Some(volume) = storage.volumes.get(volume_name(claim)) else {
                return fail(NO_SUCH_VOLUME);
            };
            if !usable_from(volume, node) {
                return fail(NODE_CONFLICT);
            }
        }
        let mut found = PodVolumes::default();
        let mut to_match = Vec::new();
        for claim in &self.delayed {
            match annotation(&claim.metadata, SELECTED_NODE) {
                Some(selected) if selected != &*node.name => return fail(BIND_CONFLICT),
                Some(_) => found.provisions.push(claim.clone()),
                None => to_match.push(claim.clone()),
            }
        }
        to_match.sort_by_key(|claim| requested(claim));
        let mut taken = BTreeSet::new();
        for claim in to_match {
            match matching_volume(storage, &claim, Some(node), &taken) {
                Some(volume) => {
                    taken.insert(name(&volume.metadata).to_owned());
                    found.bindings.push((volume, claim));
                }
                None => found.provisions.push(claim),
            }
        }
        for claim in &found.provisions {
            let class = storage.classes.get(class_of(claim));
            let Some(class) = class.filter(|c| !c.provisioner.is_empty() && c.provisioner != NO_PROVISIONER) else {
                return fail(BIND_CONFLICT);
            };
            if !topology_allowed(class.allowed_topologies.as_ref(), &node.labels) {
                return fail(BIND_CONFLICT);
            }
            if !has_capacity(storage, &class.provisioner, name(&class.metadata), claim, node) {
                return fail(NO_SPACE);
            }
        }
        Ok(found)
    }

    fn zones(&self, node: &NodeInfo) -> Result<(), Reject> {
        if !TOPOLOGY_LABELS.iter().any(|label| node.labels.contains_key(*label)) {
            return Ok(());
        }
        for (key, values) in &self.topologies {
            let current = key.replace("failure-domain.beta.kubernetes.io/", "topology.kubernetes.io/");
            let value = node.labels.get(key).or_else(|| node.labels.get(&current));
            if !value.is_some_and(|v| values.contains(v)) {
                return Err(Reject::for_good(Plugin::VolumeZone, NO_ZONE));
            }
        }
        Ok(())
    }
}

fn for_good(plugin: Plugin, text: String) -> Reject {
    Reject::worded(plugin, vec![text], true)
}

fn topologies(storage: &Storage, pod: &PodInfo) -> Result<Vec<(String, BTreeSet<String>)>, Reject> {
    let mut out = Vec::new();
    for claim in pod.claims.iter().filter(|c| !c.ephemeral) {
        let Some(found) = storage.claims.get(&pod.key.sibling(&claim.name)) else {
            continue;
        };
        let volume = volume_name(found);
        if volume.is_empty() {
            continue; // Anything but waiting for a consumer has been turned down already.
        }
        let Some(volume) = storage.volumes.get(volume) else {
            return Err(for_good(Plugin::VolumeZone, format!("persistentvolume \"{volume}\" not found")));
        };
        for label in TOPOLOGY_LABELS {
            if let Some(value) = volume.metadata.labels.as_ref().and_then(|l| l.get(label)) {
                out.push((label.to_owned(), value.split("__").map(str::to_owned).collect()));
            }
        }
    }
    Ok(out)
}

fn access_modes(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &String> {
    claim.spec.iter().flat_map(|s| s.access_modes.iter().flatten())
}

/// Bytes a claim asks for.
pub fn requested(claim: &PersistentVolumeClaim) -> i64 {
    let requests = claim.spec.as_ref().and_then(|s| s.resources.as_ref()).and_then(|r| r.requests.as_ref());
    requests.and_then(|r| r.get("storage")).map_or(0, |q| nanos(q).value())
}

fn capacity_of(volume: &PersistentVolume) -> i64 {
    let capacity = volume.spec.as_ref().and_then(|s| s.capacity.as_ref()).and_then(|c| c.get("storage"));
    capacity.map_or(0, |q| nanos(q).value())
}

pub fn usable_from(volume: &PersistentVolume, node: &NodeInfo) -> bool {
    let affinity = volume.spec.as_ref().and_then(|s| s.node_affinity.as_ref()).and_then(|a| a.required.as_ref());
    affinity.is_none_or(|required| selector_matches(required, &node.name, &node.labels))
}

/// Whether a volume is reserved for a claim, by name or by uid.
pub fn reserved_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(reference) = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref()) else {
        return false;
    };
    reference.name == claim.metadata.name
        && reference.namespace == claim.metadata.namespace
        && reference.uid.as_deref().is_none_or(|u| u.is_empty() || u == uid(&claim.metadata))
}

/// The smallest existing volume that serves the claim, from the node if one is given; a volume reserved for it first.
pub fn matching_volume(
    storage: &Storage,
    claim: &PersistentVolumeClaim,
    node: Option<&NodeInfo>,
    taken: &BTreeSet<String>,
) -> Option<Arc<PersistentVolume>> {
    let spec = claim.spec.as_ref()?;
    let class = class_of(claim);
    let delayed = storage.waits_for_consumer(claim).unwrap_or(false);
    let selector = spec.selector.as_ref().map(|s| Selector::new(Some(s)));
    let wanted = requested(claim);
    let mut best: Option<&Arc<PersistentVolume>> = None;
    for (volume_name, volume) in &storage.volumes {
        let Some(volume_spec) = &volume.spec else { continue };
        if class_of_volume(volume) != class || taken.contains(volume_name) {
            continue;
        }
        let mine = reserved_for(volume, claim);
        let modes = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".into());
        if (volume_spec.claim_ref.is_some() && !mine)
            || capacity_of(volume) < wanted
            || modes(&volume_spec.volume_mode) != modes(&spec.volume_mode)
            || volume_spec.volume_attributes_class_name.as_deref().unwrap_or_default()
                != spec.volume_attributes_class_name.as_deref().unwrap_or_default()
            || volume.metadata.deletion_timestamp.is_some()
        {
            continue;
        }
        let usable = node.is_none_or(|n| usable_from(volume, n));
        if mine {
            return usable.then(|| volume.clone());
        }
        if node.is_none() && delayed {
            continue;
        }
        let available = volume.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Available");
        static NONE: Labels = Labels::new();
        let labels = volume.metadata.labels.as_ref().unwrap_or(&NONE);
        let have: Vec<&String> = volume_spec.access_modes.iter().flatten().collect();
        if available
            && usable
            && selector.as_ref().is_none_or(|s| s.matches(labels))
            && access_modes(claim).all(|m| have.contains(&m))
            && best.is_none_or(|b| capacity_of(volume) < capacity_of(b))
        {
            best = Some(volume);
        }
    }
    best.cloned()
}

/// Drivers that publish their free capacity are believed; others are assumed to have enough.
fn has_capacity(storage: &Storage, driver: &str, class: &str, claim: &PersistentVolumeClaim, node: &NodeInfo) -> bool {
    let published = storage.csi_drivers.get(driver).is_some_and(|d| d.spec.storage_capacity == Some(true));
    let wanted = requested(claim);
    let enough = |c: &Arc<k8s_openapi::api::storage::v1::CSIStorageCapacity>| {
        let limit = c.maximum_volume_size.as_ref().or(c.capacity.as_ref()).map(|q| nanos(q).value());
        c.storage_class_name == class
            && limit.is_some_and(|l| l >= wanted)
            && c.node_topology.as_ref().is_some_and(|t| Selector::new(Some(t)).matches(&node.labels))
    };
    wanted == 0 || !published || storage.capacities.values().any(enough)
}

fn is_disk(volume: &Volume) -> bool {
    volume.gce_persistent_disk.is_some()
        || volume.aws_elastic_block_store.is_some()
        || volume.rbd.is_some()
        || volume.iscsi.is_some()
}

fn disk_conflict(pod: &PodInfo, node: &NodeInfo) -> bool {
    let disks = |p: &PodInfo| p.spec().and_then(|s| s.volumes.clone()).unwrap_or_default();
    let own = disks(pod);
    node.pods.iter().any(|r| disks(&r.pod).iter().any(|theirs| own.iter().any(|ours| same_disk(ours, theirs))))
}

fn same_disk(a: &Volume, b: &Volume) -> bool {
    if let (Some(a), Some(b)) = (&a.gce_persistent_disk, &b.gce_persistent_disk) {
        return a.pd_name == b.pd_name && !(a.read_only == Some(true) && b.read_only == Some(true));
    }
    if let (Some(a), Some(b)) = (&a.aws_elastic_block_store, &b.aws_elastic_block_store) {
        return a.volume_id == b.volume_id;
    }
    if let (Some(a), Some(b)) = (&a.iscsi, &b.iscsi) {
        return a.iqn == b.iqn && !(a.read_only == Some(true) && b.read_only == Some(true));
    }
    if let (Some(a), Some(b)) = (&a.rbd, &b.rbd) {
        let pool = |p: &Option<String>| p.clone().unwrap_or_else(|| "rbd".into());
        return a.monitors.iter().any(|m| b.monitors.contains(m))
            && pool(&a.pool) == pool(&b.pool)
            && a.image == b.image
            && !(a.read_only == Some(true) && b.read_only == Some(true));
    }
    false
}

/// Counts of volumes by driver, for attach limits.
pub type ByDriver = BTreeMap<String, usize>;
