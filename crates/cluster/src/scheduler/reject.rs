//! Why a node, or every node, cannot take a pod, and how kube-scheduler words it.

use std::collections::BTreeMap;

/// The checks in the order they run. A pod that waits remembers which ones turned it away, so that only a change one of
/// them cares about wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResources,
    VolumeRestrictions,
    VolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
}

/// A set of plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plugins(u16);

impl Plugins {
    pub fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u16;
    }

    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u16) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has_bit(self, bit: usize) -> bool {
        self.0 & (1 << bit) != 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    pub plugin: Plugin,
    pub reasons: Reasons,
    /// Not even evicting every other pod would help.
    pub unresolvable: bool,
}

/// Most nodes are turned down for one well-known reason, so that case costs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reasons {
    One(&'static str),
    Many(Vec<String>),
}

impl Reasons {
    fn count(&self, into: &mut BTreeMap<String, usize>, times: usize) {
        let mut note = |text: &str| match into.get_mut(text) {
            Some(count) => *count += times,
            None => {
                into.insert(text.to_owned(), times);
            }
        };
        match self {
            Self::One(text) => note(text),
            Self::Many(texts) => texts.iter().for_each(|t| note(t)),
        }
    }
}

impl Reject {
    pub fn resolvable(plugin: Plugin, reason: &'static str) -> Self {
        Self { plugin, reasons: Reasons::One(reason), unresolvable: false }
    }

    pub fn for_good(plugin: Plugin, reason: &'static str) -> Self {
        Self { plugin, reasons: Reasons::One(reason), unresolvable: true }
    }

    pub fn worded(plugin: Plugin, reasons: Vec<String>, unresolvable: bool) -> Self {
        Self { plugin, reasons: Reasons::Many(reasons), unresolvable }
    }
}

/// The answer for each node that was looked at, by its slot in the snapshot.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    pub nodes: Vec<(usize, Reject)>,
    /// Set when no node needed to be looked at.
    pub everywhere: Option<Reject>,
    /// What is said of nodes that were never candidates.
    pub absent: Option<String>,
    pub plugins: Plugins,
}

impl Diagnosis {
    pub fn note(&mut self, slot: usize, reject: Reject) {
        self.plugins.insert(reject.plugin);
        self.nodes.push((slot, reject));
    }

    pub fn reject_of(&self, slot: usize) -> Option<&Reject> {
        self.nodes.iter().find(|(s, _)| *s == slot).map(|(_, r)| r)
    }

    /// "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: …"
    pub fn message(&self, all_nodes: usize, after_filters: &str) -> String {
        let mut text = format!("0/{all_nodes} nodes are available:");
        if let Some(reject) = &self.everywhere {
            let reasons = match &reject.reasons {
                Reasons::One(text) => (*text).to_owned(),
                Reasons::Many(texts) => texts.join(", "),
            };
            text.push_str(&format!(" {reasons}."));
        } else {
            text.push_str(&self.histogram(all_nodes));
        }
        if !after_filters.is_empty() {
            text.push_str(&format!(" {after_filters}"));
        }
        text
    }

    fn histogram(&self, all_nodes: usize) -> String {
        let mut counts = BTreeMap::new();
        for (_, reject) in &self.nodes {
            reject.reasons.count(&mut counts, 1);
        }
        if let Some(absent) = self.absent.as_ref().filter(|_| self.nodes.len() < all_nodes) {
            *counts.entry(absent.clone()).or_default() += all_nodes - self.nodes.len();
        }
        let mut parts: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        if parts.is_empty() { String::new() } else { format!(" {}.", parts.join(", ")) }
    }
}
