//! Kubelet settings that a pool brings along from v1beta1: they go before those of its node class, so that two pools with
//! one class keep their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::conversion::KUBELET;
use karpenter_api::ec2nodeclass::KubeletConfiguration;
use karpenter_api::{EC2NodeClass, NodeClaim, NodePool, labels};
use serde_json::Value;

use crate::fnv::fnv1_64;

type Annotations = Option<BTreeMap<String, String>>;

/// The class as somebody with these annotations wants it. A text that cannot be read counts as none.
pub(crate) fn effective(class: &Arc<EC2NodeClass>, annotations: &Annotations) -> Arc<EC2NodeClass> {
    match own(annotations) {
        Some(kubelet) => {
            let mut changed = EC2NodeClass::clone(class);
            changed.spec.kubelet = Some(kubelet);
            Arc::new(changed)
        }
        None => class.clone(),
    }
}

fn own(annotations: &Annotations) -> Option<KubeletConfiguration> {
    match serde_json::from_str(annotations.as_ref()?.get(KUBELET)?) {
        Ok(Value::Object(map)) => Some(map),
        _ => None,
    }
}

/// What a new machine is marked with, if its claim has settings of its own.
pub(crate) fn mark(claim: &NodeClaim) -> Option<(String, String)> {
    let kubelet = own(&claim.metadata.annotations)?;
    Some((labels::KUBELET_DRIFT_HASH.to_owned(), hash(Some(&kubelet))))
}

/// Whether the pool's settings are no longer those the machine was launched with.
pub(crate) fn drifted(claim: &NodeClaim, pool: &NodePool, class: &EC2NodeClass) -> bool {
    let marked = claim.metadata.annotations.as_ref().and_then(|all| all.get(labels::KUBELET_DRIFT_HASH));
    let of_pool = own(&pool.metadata.annotations);
    let now = hash(of_pool.as_ref().or(class.spec.kubelet.as_ref()));
    match marked {
        Some(marked) => *marked != now,
        // Launched with the class's own, whose changes the class's hash tells.
        None => of_pool.is_some() && now != hash(class.spec.kubelet.as_ref()),
    }
}

/// Of the settings, in whatever order they are written.
fn hash(kubelet: Option<&KubeletConfiguration>) -> String {
    let mut sorted = Value::Object(kubelet.cloned().unwrap_or_default());
    sorted.sort_all_objects();
    fnv1_64(sorted.to_string().as_bytes()).to_string()
}
