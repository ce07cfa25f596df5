//! Where a pod's volumes can be reached, and whether they let the pod be scheduled at all.

use std::sync::Arc;

use karpenter_core::labels::{HOSTNAME, Vocabulary};
use karpenter_core::pod::{NodeTerm, Pod};
use karpenter_core::requirement::{Expression, Operator};
use karpenter_core::storage::{BindingMode, Storage, VolumeClaim, csi_driver};
use karpenter_core::{Requirement, Requirements};

const BOUND_BY_ANOTHER: &str = "its StorageClass binds immediately, so somebody else must bind it first";

/// Why a pod's volumes keep it out of a pass.
pub(crate) fn fault(pod: &Pod, storage: &Storage) -> Option<String> {
    pod.claims.iter().find_map(|name| {
        let claim = storage.claims.get(&(pod.namespace.clone(), name.clone()));
        let said = match claim {
            None => "does not exist".to_owned(),
            Some(claim) => claim_fault(claim, storage)?,
        };
        Some(format!("PersistentVolumeClaim {}/{name}: {said}", pod.namespace))
    })
}

fn claim_fault(claim: &VolumeClaim, storage: &Storage) -> Option<String> {
    if claim.terminating {
        return Some("is being deleted".to_owned());
    }
    if claim.lost {
        return Some("has lost its volume".to_owned());
    }
    if let Some(name) = &claim.volume {
        return match storage.volumes.get(name) {
            None => Some(format!("PersistentVolume {name} does not exist")),
            Some(volume) if volume.terminating => Some(format!("PersistentVolume {name} is being deleted")),
            Some(_) if !claim.bind_completed => Some(format!("is not yet bound to PersistentVolume {name}")),
            Some(_) => None,
        };
    }
    let Some(class) = claim.class.as_ref().filter(|class| !class.is_empty()) else {
        return Some("is unbound and names no StorageClass".to_owned());
    };
    match storage.classes.get(class) {
        None => Some(format!("StorageClass {class} does not exist")),
        Some(found) if found.binding == BindingMode::Immediate => Some(format!("is unbound; {BOUND_BY_ANOTHER}")),
        Some(_) => None,
    }
}

/// The CSI driver whose attach limit a claim counts against, if one is known.
pub(crate) fn driver(claim: &VolumeClaim, storage: &Storage) -> Option<Arc<str>> {
    if let Some(name) = &claim.volume {
        return storage.volumes.get(name)?.driver.clone();
    }
    let class = storage.classes.get(claim.class.as_ref()?)?;
    Some(match csi_driver(&class.provisioner) {
        same if same == &*class.provisioner => class.provisioner.clone(),
        translated => Arc::from(translated),
    })
}

/// Alternatives of where the pod's volumes can all be reached; empty where they do not care. Several volumes combine
/// as a cross product without the combinations that exclude each other; if all do, they stay, so that the pod fails
/// with a reason instead of vanishing.
pub(crate) fn alternatives(pod: &Pod, storage: &Storage, words: &Vocabulary) -> Vec<Requirements> {
    let mut combined: Vec<Requirements> = Vec::new();
    for name in pod.claims.iter() {
        let Some(claim) = storage.claims.get(&(pod.namespace.clone(), name.clone())) else {
            continue;
        };
        let terms = claim_alternatives(claim, storage, words);
        if terms.is_empty() {
            continue;
        }
        if combined.is_empty() {
            combined = terms;
            continue;
        }
        let pairs = || combined.iter().flat_map(|left| terms.iter().map(move |right| (left, right)));
        let merge = |(left, right): (&Requirements, &Requirements)| {
            let mut both = left.clone();
            both.add_all(right);
            both
        };
        let agreeing: Vec<_> = pairs().filter(|(left, right)| left.overlaps(right)).map(merge).collect();
        combined = if agreeing.is_empty() { pairs().map(merge).collect() } else { agreeing };
    }
    combined
}

fn claim_alternatives(claim: &VolumeClaim, storage: &Storage, words: &Vocabulary) -> Vec<Requirements> {
    if let Some(name) = &claim.volume {
        let Some(volume) = storage.volumes.get(name) else {
            return Vec::new();
        };
        let term = |term: &NodeTerm| {
            let stays = |e: &&Expression| !(volume.is_local && words.normalize(&e.key) == HOSTNAME);
            (!term.expressions.is_empty())
                .then(|| Requirements::from_expressions(term.expressions.iter().filter(stays), words))
        };
        return volume.node_affinity.iter().filter_map(term).collect();
    }
    let class = claim.class.as_ref().and_then(|class| storage.classes.get(class));
    let topologies = class.into_iter().flat_map(|class| &class.allowed_topologies);
    topologies
        .filter(|expressions| !expressions.is_empty())
        .map(|expressions| {
            let mut set = Requirements::new();
            for expression in expressions {
                let values = Expression { operator: Operator::In, ..expression.clone() };
                set.add(words.normalize(&expression.key), Requirement::from_expression(&values));
            }
            set
        })
        .collect()
}

#[cfg(test)]
mod tests;
