//! Where volumes can be reached, and which driver attaches them.

use std::sync::Arc;

use karpenter_core::labels::HOSTNAME;
use karpenter_core::requirement::Expression;
use karpenter_core::storage::VolumeClaim;
use karpenter_core::{Pod, World};

use crate::labels::{self, Labelled};

/// Alternatives, each a conjunction. Empty: reachable from everywhere.
type Alternatives<'w> = Vec<Vec<&'w Expression>>;

fn claim<'w>(world: &'w World, pod: &Pod, name: &Arc<str>) -> Option<&'w VolumeClaim> {
    world.storage.claims.get(&(pod.namespace.clone(), name.clone()))
}

fn alternatives<'w>(world: &'w World, claim: &'w VolumeClaim) -> Alternatives<'w> {
    if let Some(name) = &claim.volume {
        let Some(volume) = world.storage.volumes.get(name) else { return Vec::new() };
        // A local volume does not move with its pod, so the host it is on cannot be asked for.
        let counts = |expression: &&Expression| !(volume.is_local && &*expression.key == HOSTNAME);
        let terms = volume.node_affinity.iter().filter(|term| !term.expressions.is_empty());
        return terms.map(|term| term.expressions.iter().filter(counts).collect()).collect();
    }
    let class = claim.class.as_ref().and_then(|name| world.storage.classes.get(name));
    let terms = class.iter().flat_map(|class| &class.allowed_topologies).filter(|term| !term.is_empty());
    terms.map(|term| term.iter().collect()).collect()
}

/// The first claim of the pod whose volume cannot be reached from a node with these labels.
pub(crate) fn out_of_reach<'p>(world: &World, pod: &'p Pod, on: &impl Labelled) -> Option<&'p str> {
    let unreachable = |name: &&Arc<str>| {
        let Some(claim) = claim(world, pod, name) else { return false };
        let terms = alternatives(world, claim);
        let all_hold = |term: &Vec<&Expression>| term.iter().all(|e| labels::holds(&world.vocabulary, e, on));
        !terms.is_empty() && !terms.iter().any(all_hold)
    };
    pod.claims.iter().find(unreachable).map(|name| &**name)
}

/// Keys that decide from where the pod's volumes can be reached.
pub(crate) fn keys<'w>(world: &'w World, pod: &Pod) -> Vec<&'w str> {
    let claims = pod.claims.iter().filter_map(|name| claim(world, pod, name));
    claims.flat_map(|claim| alternatives(world, claim)).flatten().map(|expression| &*expression.key).collect()
}

/// The driver that attaches a claim's volume, where one is known.
pub(crate) fn driver<'w>(world: &'w World, pod: &Pod, name: &Arc<str>) -> Option<&'w str> {
    let claim = claim(world, pod, name)?;
    if let Some(volume) = &claim.volume {
        return world.storage.volumes.get(volume)?.driver.as_deref();
    }
    let class = world.storage.classes.get(claim.class.as_ref()?)?;
    Some(match &*class.provisioner {
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/azure-file" => "file.csi.azure.com",
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        "kubernetes.io/portworx-volume" => "pxd.portworx.com",
        other => other,
    })
}

/// Why the pod's claims forbid scheduling it at all.
pub(crate) fn invalid(world: &World, pod: &Pod) -> Option<String> {
    use karpenter_core::storage::BindingMode::Immediate;
    let fault = |name: &Arc<str>| {
        let Some(claim) = claim(world, pod, name) else { return Some("does not exist") };
        if claim.terminating || claim.lost {
            return Some("is deleted or lost");
        }
        if let Some(volume) = &claim.volume {
            return match world.storage.volumes.get(volume) {
                None => Some("names a volume that does not exist"),
                Some(volume) if volume.terminating => Some("names a volume that is being deleted"),
                Some(_) if !claim.bind_completed => Some("is not fully bound"),
                Some(_) => None,
            };
        }
        let class = claim.class.as_ref().and_then(|class| world.storage.classes.get(class));
        match class {
            None => Some("has no storage class that exists"),
            Some(class) if class.binding == Immediate => Some("waits for somebody else to bind it"),
            Some(_) => None,
        }
    };
    let named = |name: &Arc<str>| fault(name).map(|fault| format!("claim {name} {fault}"));
    pod.claims.iter().find_map(named)
}
