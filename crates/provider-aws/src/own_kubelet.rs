//! Kubelet settings that a pool brings along from v1beta1: they go before those of its node class, so that two pools with
//! one class keep their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::conversion::KUBELET;
use karpenter_api::ec2nodeclass::KubeletConfiguration;
use karpenter_api::validation::kubelet;
use karpenter_api::{EC2NodeClass, NodeClaim, NodePool, labels};
use karpenter_ec2::Ec2Settings;
use serde_json::Value;

use crate::fnv::fnv1_64;

type Annotations = Option<BTreeMap<String, String>>;

/// The class as somebody with these annotations wants it; or what is wrong with them. Nobody has checked the text when
/// it was written, and it ends up in what machines run at boot.
pub(crate) fn effective(
    class: &Arc<EC2NodeClass>,
    annotations: &Annotations,
    settings: &Ec2Settings,
) -> Result<Arc<EC2NodeClass>, String> {
    let Some(kubelet) = own(annotations)? else { return Ok(class.clone()) };
    let mut faults: Vec<String> = kubelet::validate(&kubelet).iter().map(ToString::to_string).collect();
    if kubelet::has_expressions(&kubelet) && !settings.kubelet_expressions {
        faults.push("kubelet expressions need the feature gate NodeClassCEL".to_owned());
    }
    if !faults.is_empty() {
        return Err(format!("the annotation {KUBELET} is not usable: {}", faults.join("; ")));
    }
    let mut changed = EC2NodeClass::clone(class);
    changed.spec.kubelet = Some(kubelet);
    Ok(Arc::new(changed))
}

fn own(annotations: &Annotations) -> Result<Option<KubeletConfiguration>, String> {
    let Some(text) = annotations.as_ref().and_then(|all| all.get(KUBELET)) else { return Ok(None) };
    let unreadable = |why: String| format!("the annotation {KUBELET} is not usable: {why}");
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(Some(map)),
        Ok(Value::Null) => Ok(None),
        Ok(_) => Err(unreadable("it is not a JSON object".to_owned())),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// What a new machine is marked with, if its claim has settings of its own.
pub(crate) fn mark(claim: &NodeClaim) -> Option<(String, String)> {
    let kubelet = own(&claim.metadata.annotations).ok()??;
    Some((labels::KUBELET_DRIFT_HASH.to_owned(), hash(Some(&kubelet))))
}

/// Whether the pool's settings are no longer those the machine was launched with.
pub(crate) fn drifted(claim: &NodeClaim, pool: &NodePool, class: &EC2NodeClass) -> bool {
    let marked = claim.metadata.annotations.as_ref().and_then(|all| all.get(labels::KUBELET_DRIFT_HASH));
    // Nothing can be launched with settings that cannot be used, so nothing is replaced for them either.
    let Ok(of_pool) = own(&pool.metadata.annotations) else { return false };
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
