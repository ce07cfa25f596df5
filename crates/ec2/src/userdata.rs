//! User data: what an instance is told at boot, in the words of its AMI family, merged with what the user adds.
//!
//! ```text
//!   claim's labels and taints ─┐
//!   kubelet settings ──────────┼─▶ Bootstrap ─▶ render ─▶ text (base64 is the caller's business)
//!   cluster, user's own text ──┘
//! ```

use std::collections::BTreeMap;

use karpenter_core::Taint;
use karpenter_core::labels::CAPACITY_TYPE;
use karpenter_core::taints::Effect;
use serde_json::{Map, Value};

use crate::family::AmiFamily;
use crate::kubelet::Resolved;

mod al2;
mod bottlerocket;
mod go_duration;
mod kubelet_args;
pub mod mime;
mod nodeadm;
mod quoting;
mod toml_text;
mod windows;
mod yaml;

pub use bottlerocket::{ImageNames, binds_by_default};

/// What every node of the cluster is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterFacts {
    pub name: String,
    pub endpoint: String,
    /// Base64.
    pub ca_bundle: Option<String>,
    /// Of services; nodeadm wants it.
    pub cidr: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Bootstrap<'a> {
    pub family: AmiFamily,
    pub cluster: &'a ClusterFacts,
    /// As [`node_labels`] gives them.
    pub labels: &'a BTreeMap<String, String>,
    /// As [`registration_taints`] gives them.
    pub taints: &'a [Taint],
    /// As [`kubelet_settings`] gives them.
    pub kubelet: &'a Map<String, Value>,
    /// Instance stores become one disk for pods.
    pub raid0: bool,
    /// `spec.userData`.
    pub custom: Option<&'a str>,
    /// See [`binds_by_default`]; means nothing on other families than Bottlerocket.
    pub bottlerocket_binds_by_default: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    /// What was dropped of the user's own text, for an event of the class and the log.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// The user's own text cannot be merged.
    #[error("parsing custom user data: {0}")]
    Custom(String),
    /// The cluster's CIDR is not known (yet).
    #[error("resolving cluster CIDR")]
    NoClusterCidr,
    /// A kubelet setting has a type it cannot have. Validation refuses such node classes.
    #[error("spec.kubelet.{field}: {message}")]
    Kubelet { field: String, message: String },
}

/// EC2 takes 16 KiB; from this size on a warning is due.
pub const WARN_SIZE: usize = 14_745;
/// EC2's limit before base64.
pub const SIZE_LIMIT: usize = 16_384;

pub fn render(bootstrap: &Bootstrap<'_>) -> Result<Rendered, UserDataError> {
    let plain = |text| Rendered { text, notes: Vec::new() };
    match bootstrap.family {
        AmiFamily::Al2 => al2::render(bootstrap),
        AmiFamily::Al2023 => nodeadm::render(bootstrap),
        AmiFamily::Bottlerocket => bottlerocket::render(bootstrap),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            windows::render(bootstrap).map(plain)
        }
        AmiFamily::Custom => Ok(plain(bootstrap.custom.unwrap_or_default().to_owned())),
    }
}

/// Nodes may not put labels of these domains on themselves; the control plane refuses such a node.
const RESTRICTED_LABEL_DOMAINS: [&str; 3] = ["node-restriction.kubernetes.io", "kubernetes.io", "k8s.io"];
const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// The labels a kubelet registers with: the claim's, without those that nodes may not set themselves.
pub fn node_labels(
    claim: &BTreeMap<String, String>,
    capacity_type: &str,
    family: AmiFamily,
) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> =
        claim.iter().filter(|(key, _)| !is_restricted(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    labels.insert(CAPACITY_TYPE.to_owned(), capacity_type.to_owned());
    if family != AmiFamily::Custom {
        // The kubelet registers with the taints itself, so that no pod slips in before the controller has seen the node.
        labels.insert(DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
    }
    labels
}

fn is_restricted(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let below =
        |restricted: &str| domain.strip_suffix(restricted).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    RESTRICTED_LABEL_DOMAINS.into_iter().any(below)
}

/// Taints, startup taints, and the one that keeps pods off until the controller has taken the node over.
pub fn registration_taints(taints: &[Taint], startup: &[Taint]) -> Vec<Taint> {
    let unregistered = Taint { key: UNREGISTERED.to_owned(), value: String::new(), effect: Effect::NoExecute };
    let mut all: Vec<Taint> = taints.iter().chain(startup).cloned().collect();
    if !all.iter().any(|taint| taint.key == unregistered.key && taint.effect == unregistered.effect) {
        all.push(unregistered);
    }
    all
}

/// The kubelet settings that reach a node: the user's, with a concrete `maxPods`, the cluster's DNS address where the
/// user gave none, and without expressions, whose text means nothing to a kubelet.
pub fn kubelet_settings(
    user: &Map<String, Value>,
    max_pods: i64,
    dns: Option<&str>,
    resolved: &Resolved,
) -> Map<String, Value> {
    let mut settings = user.clone();
    if !settings.get("maxPods").is_some_and(Value::is_number) {
        settings.insert("maxPods".to_owned(), Value::from(max_pods));
    }
    let no_dns = settings.get("clusterDNS").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if let Some(dns) = dns.filter(|_| no_dns) {
        settings.insert("clusterDNS".to_owned(), Value::from(vec![dns]));
    }
    for (field, known) in [("kubeReserved", &resolved.kube_reserved), ("systemReserved", &resolved.system_reserved)] {
        let Some(Value::Object(amounts)) = settings.get_mut(field) else { continue };
        let had = amounts.len();
        // The text of a formula means nothing to a kubelet: it is replaced by what came of it, or left out.
        amounts.retain(|name, amount| {
            if amount.as_str().is_none_or(|text| text.parse::<karpenter_core::Quantity>().is_ok()) {
                return true;
            }
            let value = known.get(name).map(|quantity| Value::from(quantity.to_string()));
            value.map(|value| *amount = value).is_some()
        });
        if had > 0 && amounts.is_empty() {
            settings.remove(field);
        }
    }
    settings
}

/// MIME user data is recognised by its first header.
fn looks_like_mime(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
}

fn custom_text<'a>(bootstrap: &Bootstrap<'a>) -> Option<&'a str> {
    bootstrap.custom.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
