//! NodePool `karpenter.sh/v1`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::ResourceList;
use crate::duration::{GoDuration, NillableDuration};
use crate::object::kubernetes_object;
use crate::requirement::NodeSelectorRequirement;

kubernetes_object! {
    /// A pool of nodes to be launched from one template, with its limits and disruption policy.
    NodePool, "karpenter.sh", "v1", "nodepools", ClusterResourceScope, spec: NodePoolSpec, status: NodePoolStatus
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    pub template: NodeClaimTemplate,
    #[serde(default)]
    pub disruption: Disruption,
    /// Ceiling over the capacity of the pool's nodes; absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// Pools with a higher weight are tried first; absent counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Set on static pools: the fixed number of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// The shape of the NodeClaims a pool makes. Everything here but the requirements is part of the drift hash.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeClaimTemplate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    pub spec: NodeClaimTemplateSpec,
}

impl NodeClaimTemplate {
    /// The template's labels, none when absent.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.metadata.as_ref().and_then(|m| m.labels.as_ref()))
    }

    /// The template's annotations, none when absent.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.metadata.as_ref().and_then(|m| m.annotations.as_ref()))
    }
}

fn pairs(map: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (&str, &str)> {
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()))
}

/// Absent and empty maps differ: the drift hash tells them apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    #[serde(default)]
    pub requirements: Vec<NodeSelectorRequirement>,
    pub node_class_ref: NodeClassReference,
    /// Upper bound of a drain; absent means unbounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<GoDuration>,
    #[serde(default = "default_expire_after")]
    pub expire_after: NillableDuration,
}

impl Default for NodeClaimTemplateSpec {
    fn default() -> Self {
        Self {
            taints: None,
            startup_taints: None,
            requirements: Vec::new(),
            node_class_ref: NodeClassReference::default(),
            termination_grace_period: None,
            expire_after: default_expire_after(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeClassReference {
    pub group: String,
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Quiet time without pod changes before a node may be consolidated.
    #[serde(default = "default_consolidate_after")]
    pub consolidate_after: NillableDuration,
    /// One of [`consolidation_policy::ALL`].
    #[serde(default = "default_consolidation_policy")]
    pub consolidation_policy: String,
    #[serde(default = "default_budgets")]
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: default_consolidate_after(),
            consolidation_policy: default_consolidation_policy(),
            budgets: default_budgets(),
        }
    }
}

pub mod consolidation_policy {
    pub const WHEN_EMPTY: &str = "WhenEmpty";
    pub const WHEN_EMPTY_OR_UNDERUTILIZED: &str = "WhenEmptyOrUnderutilized";
    pub const BALANCED: &str = "Balanced";
    pub const ALL: [&str; 3] = [WHEN_EMPTY, WHEN_EMPTY_OR_UNDERUTILIZED, BALANCED];
}

pub mod disruption_reason {
    pub const UNDERUTILIZED: &str = "Underutilized";
    pub const EMPTY: &str = "Empty";
    pub const DRIFTED: &str = "Drifted";
    pub const ALL: [&str; 3] = [UNDERUTILIZED, EMPTY, DRIFTED];
}

/// How many nodes of the pool may be disrupted at once, always or while its schedule is active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Absent means every reason; otherwise of [`disruption_reason::ALL`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<String>>,
    /// A percentage or a count, as text.
    #[serde(default = "default_budget_nodes")]
    pub nodes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<GoDuration>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceList>,
    #[serde(default)]
    pub nodes: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// The schema's defaults, as text: the CRD is written from the same constants.
pub(crate) const DEFAULT_EXPIRE_AFTER: &str = "720h";
pub(crate) const DEFAULT_CONSOLIDATE_AFTER: &str = "0s";
pub(crate) const DEFAULT_BUDGET_NODES: &str = "10%";

pub(crate) fn default_expire_after() -> NillableDuration {
    NillableDuration::parse(DEFAULT_EXPIRE_AFTER).expect("a constant in duration syntax")
}

fn default_consolidate_after() -> NillableDuration {
    NillableDuration::parse(DEFAULT_CONSOLIDATE_AFTER).expect("a constant in duration syntax")
}

fn default_consolidation_policy() -> String {
    consolidation_policy::WHEN_EMPTY_OR_UNDERUTILIZED.to_owned()
}

fn default_budget_nodes() -> String {
    DEFAULT_BUDGET_NODES.to_owned()
}

fn default_budgets() -> Vec<Budget> {
    vec![Budget { reasons: None, nodes: default_budget_nodes(), schedule: None, duration: None }]
}
