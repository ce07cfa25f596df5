//! What operators set that decides placements.

use crate::pod::{NodePolicy, WhenUnsatisfiable};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub preferences: PreferencePolicy,
    pub min_values: MinValuesPolicy,
    /// Feature gate ReservedCapacity.
    pub reserved_capacity: bool,
    /// Pods with device claims are not scheduled at all.
    pub ignore_device_requests: bool,
    /// What kube-scheduler's `defaultConstraints` are set to.
    pub default_spread: Vec<DefaultSpread>,
}

impl Default for Settings {
    /// Upstream's defaults.
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::Strict,
            reserved_capacity: true,
            ignore_device_requests: true,
            default_spread: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferencePolicy {
    Respect,
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValuesPolicy {
    Strict,
    BestEffort,
}

/// A cluster-wide spread constraint; its selector is derived for each pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultSpread {
    pub topology_key: String,
    pub max_skew: i32,
    pub min_domains: Option<i32>,
    pub when: WhenUnsatisfiable,
    pub node_affinity: NodePolicy,
    pub node_taints: NodePolicy,
}
