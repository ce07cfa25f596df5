//! Topology spread, hard and soft.

use super::node::NodeInfo;
use super::pod::{PodInfo, Spread};
use super::reject::{Plugin, Reject};
use super::snapshot::Snapshot;
use crate::selector::{Labels, Selector};
use std::collections::BTreeMap;

const SKEWED: &str = "node(s) didn't match pod topology spread constraints";
const NO_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Per hard constraint, the pods counted in each domain.
#[derive(Clone, Debug, Default)]
pub struct SpreadState {
    domains: Vec<BTreeMap<String, i64>>,
    /// The least count of any domain, per constraint; kept because it is asked for every node.
    least: Vec<i64>,
}

/// With no domain at all the minimum is "infinite", so nothing is skewed against it.
fn least_of(constraint: &Spread, domains: &BTreeMap<String, i64>) -> i64 {
    let too_few = (domains.len() as i64) < constraint.min_domains;
    if too_few { 0 } else { domains.values().min().copied().unwrap_or(i64::from(i32::MAX)) }
}

fn counts_node(constraint: &Spread, pod: &PodInfo, node: &NodeInfo) -> bool {
    (!constraint.honor_affinity || pod.demand.matches(&node.name, &node.labels))
        && (!constraint.honor_taints || pod.untolerated(&node.taints).is_none())
}

fn has_all_keys(constraints: &[Spread], labels: &Labels) -> bool {
    constraints.iter().all(|c| labels.contains_key(&c.topology_key))
}

/// Which classes a selector counts. A selector that selects everything counts, by upstream's definition, nothing.
fn counted(snapshot: &Snapshot, namespace: &str, selector: &Selector) -> Vec<bool> {
    if selector.is_empty() {
        return snapshot.classes.evaluate(|_, _| false);
    }
    snapshot.classes.evaluate(|of, labels| of == namespace && selector.matches(labels))
}

fn count(node: &NodeInfo, classes: &[bool]) -> i64 {
    node.classes.iter().filter(|c| classes[c.class as usize]).map(|c| i64::from(c.live)).sum()
}

impl SpreadState {
    pub fn new(snapshot: &Snapshot, pod: &PodInfo) -> Option<Self> {
        if pod.hard_spread.is_empty() {
            return None;
        }
        let classes: Vec<Vec<bool>> =
            pod.hard_spread.iter().map(|c| counted(snapshot, &pod.key.namespace, &c.selector)).collect();
        let mut domains = vec![BTreeMap::new(); pod.hard_spread.len()];
        for node in snapshot.existing().filter(|n| has_all_keys(&pod.hard_spread, &n.labels)) {
            for (i, constraint) in pod.hard_spread.iter().enumerate() {
                if counts_node(constraint, pod, node) {
                    let value = node.labels[&constraint.topology_key].clone();
                    *domains[i].entry(value).or_default() += count(node, &classes[i]);
                }
            }
        }
        let least = pod.hard_spread.iter().zip(&domains).map(|(c, d)| least_of(c, d)).collect();
        Some(Self { domains, least })
    }

    pub fn update(&mut self, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, by: i64) {
        if other.key.namespace != pod.key.namespace || !has_all_keys(&pod.hard_spread, &node.labels) {
            return;
        }
        for (i, constraint) in pod.hard_spread.iter().enumerate() {
            if constraint.selector.matches(&other.labels) && counts_node(constraint, pod, node) {
                let value = node.labels[&constraint.topology_key].clone();
                *self.domains[i].entry(value).or_default() += by;
                self.least[i] = least_of(constraint, &self.domains[i]);
            }
        }
    }

    pub fn filter(&self, pod: &PodInfo, node: &NodeInfo) -> Result<(), Reject> {
        for ((constraint, domains), least) in pod.hard_spread.iter().zip(&self.domains).zip(&self.least) {
            let Some(value) = node.labels.get(&constraint.topology_key) else {
                return Err(Reject::for_good(Plugin::PodTopologySpread, NO_LABEL));
            };
            let own = i64::from(constraint.selector.matches(&pod.labels));
            if domains.get(value).copied().unwrap_or(0) + own - least > constraint.max_skew {
                return Err(Reject::resolvable(Plugin::PodTopologySpread, SKEWED));
            }
        }
        Ok(())
    }
}

/// Scores by how few matching pods share the node's domains; `None` when nothing asks for spreading.
pub fn scores(snapshot: &Snapshot, pod: &PodInfo, nodes: &[usize]) -> Option<Vec<i64>> {
    let own = pod.spec().is_some_and(|s| s.topology_spread_constraints.as_ref().is_some_and(|c| !c.is_empty()));
    let defaults;
    let constraints = if own {
        &pod.soft_spread
    } else {
        defaults = system_defaults(snapshot, pod);
        &defaults
    };
    if constraints.is_empty() {
        return None;
    }
    let ignored: Vec<bool> =
        nodes.iter().map(|&s| own && !has_all_keys(constraints, &snapshot.node(s).labels)).collect();
    let kept = ignored.iter().filter(|i| !**i).count();
    let mut totals = vec![0.0_f64; nodes.len()];
    for constraint in constraints {
        let classes = counted(snapshot, &pod.key.namespace, &constraint.selector);
        let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
        let on_hosts = constraint.topology_key == HOSTNAME;
        if !on_hosts {
            for (&slot, _) in nodes.iter().zip(&ignored).filter(|(_, ignored)| !**ignored) {
                domains
                    .entry(snapshot.node(slot).labels.get(&constraint.topology_key).map_or("", String::as_str))
                    .or_default();
            }
            for node in snapshot.existing().filter(|n| !own || has_all_keys(constraints, &n.labels)) {
                if !counts_node(constraint, pod, node) {
                    continue;
                }
                let value = node.labels.get(&constraint.topology_key).map_or("", String::as_str);
                if let Some(total) = domains.get_mut(value) {
                    *total += count(node, &classes);
                }
            }
        }
        let size = if on_hosts { kept } else { domains.len() };
        let weight = ((size + 2) as f64).ln();
        for (total, (&slot, _)) in totals.iter_mut().zip(nodes.iter().zip(&ignored)).filter(|(_, (_, i))| !**i) {
            let node = snapshot.node(slot);
            let Some(value) = node.labels.get(&constraint.topology_key) else {
                continue;
            };
            let pods = if on_hosts { count(node, &classes) } else { domains[value.as_str()] };
            *total += pods as f64 * weight + (constraint.max_skew - 1) as f64;
        }
    }
    Some(normalise(&totals.iter().map(|t| t.round() as i64).collect::<Vec<_>>(), &ignored))
}

fn normalise(raw: &[i64], ignored: &[bool]) -> Vec<i64> {
    let kept = || raw.iter().zip(ignored).filter(|(_, i)| !**i).map(|(s, _)| *s);
    let (low, high) = (kept().min().unwrap_or(0), kept().max().unwrap_or(0));
    let score = |(s, ignored): (&i64, &bool)| match (ignored, high) {
        (true, _) => 0,
        (false, 0) => 100,
        (false, _) => 100 * (high + low - s) / high,
    };
    raw.iter().zip(ignored).map(score).collect()
}

/// Pods of a service or workload spread over hosts and zones even if nobody says so.
fn system_defaults(snapshot: &Snapshot, pod: &PodInfo) -> Vec<Spread> {
    let Some(selector) = snapshot.groups.selector_of(pod) else {
        return Vec::new();
    };
    let over = |topology_key: &str, max_skew| Spread {
        max_skew,
        topology_key: topology_key.into(),
        selector: selector.clone(),
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    };
    vec![over(HOSTNAME, 3), over(ZONE, 5)]
}
