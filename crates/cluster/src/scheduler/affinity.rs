//! Affinity and anti-affinity between pods.

use super::node::NodeInfo;
use super::pod::{AffinityTerm, PodInfo};
use super::reject::{Plugin, Reject};
use super::snapshot::Snapshot;
use crate::selector::Labels;
use rustc_hash::FxHashMap;

const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// How many matching pods each domain (key, value) holds.
type Domains = FxHashMap<(String, String), i64>;

/// What must be known of all nodes before one can be judged.
#[derive(Clone, Debug, Default)]
pub struct AffinityState {
    /// Domains that pods already placed keep this pod out of.
    kept_out: Domains,
    affinity: Domains,
    anti_affinity: Domains,
}

fn bump(domains: &mut Domains, labels: &Labels, key: &str, by: i64) {
    let Some(value) = labels.get(key) else { return };
    let domain = (key.to_owned(), value.clone());
    let count = domains.entry(domain.clone()).or_default();
    *count += by;
    if *count == 0 {
        domains.remove(&domain);
    }
}

fn matches_all(terms: &[AffinityTerm], namespace: &str, namespace_labels: &Labels, labels: &Labels) -> bool {
    !terms.is_empty() && terms.iter().all(|t| t.matches(namespace, namespace_labels, labels))
}

impl AffinityState {
    /// `None` when neither this pod nor any other has a say.
    pub fn new(snapshot: &Snapshot, pod: &PodInfo) -> Option<Self> {
        let mut state = Self::default();
        let own_namespace = snapshot.namespace_labels(&pod.key.namespace);
        for info in snapshot.nodes_with_anti_affinity() {
            for resident in &info.pods {
                for term in &resident.pod.anti_affinity {
                    if term.matches(&pod.key.namespace, own_namespace, &pod.labels) {
                        bump(&mut state.kept_out, &info.labels, &term.topology_key, 1);
                    }
                }
            }
        }
        if pod.affinity.is_empty() && pod.anti_affinity.is_empty() {
            return (!state.kept_out.is_empty()).then_some(state);
        }
        let attracted = snapshot.classes.evaluate(|namespace, labels| {
            matches_all(&pod.affinity, namespace, snapshot.namespace_labels(namespace), labels)
        });
        let repelled: Vec<Vec<bool>> = snapshot.classes.evaluate(|namespace, labels| {
            let of = snapshot.namespace_labels(namespace);
            pod.anti_affinity.iter().map(|t| t.matches(namespace, of, labels)).collect()
        });
        for info in snapshot.existing() {
            for count in &info.classes {
                let class = count.class as usize;
                if attracted[class] {
                    for term in &pod.affinity {
                        bump(&mut state.affinity, &info.labels, &term.topology_key, i64::from(count.all));
                    }
                }
                for (term, _) in pod.anti_affinity.iter().zip(&repelled[class]).filter(|(_, matches)| **matches) {
                    bump(&mut state.anti_affinity, &info.labels, &term.topology_key, i64::from(count.all));
                }
            }
        }
        Some(state)
    }

    /// Counts another pod in (`by` 1) or out (-1), as if it were placed on the node.
    pub fn update(&mut self, snapshot: &Snapshot, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, by: i64) {
        let own_namespace = snapshot.namespace_labels(&pod.key.namespace);
        for term in &other.anti_affinity {
            if term.matches(&pod.key.namespace, own_namespace, &pod.labels) {
                bump(&mut self.kept_out, &node.labels, &term.topology_key, by);
            }
        }
        let other_namespace = snapshot.namespace_labels(&other.key.namespace);
        if matches_all(&pod.affinity, &other.key.namespace, other_namespace, &other.labels) {
            for term in &pod.affinity {
                bump(&mut self.affinity, &node.labels, &term.topology_key, by);
            }
        }
        for term in &pod.anti_affinity {
            if term.matches(&other.key.namespace, other_namespace, &other.labels) {
                bump(&mut self.anti_affinity, &node.labels, &term.topology_key, by);
            }
        }
    }

    pub fn filter(&self, snapshot: &Snapshot, pod: &PodInfo, node: &NodeInfo) -> Result<(), Reject> {
        if !self.attracted(snapshot, pod, node) {
            return Err(Reject::for_good(Plugin::InterPodAffinity, AFFINITY));
        }
        let blocked = |domains: &Domains, key: &String| {
            let domain = node.labels.get(key).map(|v| (key.clone(), v.clone()));
            domain.is_some_and(|d| domains.get(&d).is_some_and(|n| *n > 0))
        };
        if !self.anti_affinity.is_empty()
            && pod.anti_affinity.iter().any(|t| blocked(&self.anti_affinity, &t.topology_key))
        {
            return Err(Reject::resolvable(Plugin::InterPodAffinity, ANTI_AFFINITY));
        }
        if !self.kept_out.is_empty() && node.labels.keys().any(|key| blocked(&self.kept_out, key)) {
            return Err(Reject::resolvable(Plugin::InterPodAffinity, EXISTING));
        }
        Ok(())
    }

    fn attracted(&self, snapshot: &Snapshot, pod: &PodInfo, node: &NodeInfo) -> bool {
        let mut pods_exist = true;
        for term in &pod.affinity {
            let Some(value) = node.labels.get(&term.topology_key) else {
                return false;
            };
            let domain = (term.topology_key.clone(), value.clone());
            pods_exist &= self.affinity.get(&domain).is_some_and(|n| *n > 0);
        }
        // The first of a group that wants its own company would wait for ever.
        let own_namespace = snapshot.namespace_labels(&pod.key.namespace);
        let first =
            || self.affinity.is_empty() && matches_all(&pod.affinity, &pod.key.namespace, own_namespace, &pod.labels);
        pods_exist || first()
    }
}

/// A required affinity of a placed pod draws pods to it with this weight.
const HARD_AFFINITY_WEIGHT: i64 = 1;

/// Preferred affinity, both ways, per node; `None` when nobody has a preference.
pub fn scores(snapshot: &Snapshot, pod: &PodInfo, nodes: &[usize]) -> Option<Vec<i64>> {
    let mut domains: FxHashMap<String, FxHashMap<String, i64>> = FxHashMap::default();
    let mut add = |node: &NodeInfo, term: &AffinityTerm, weight: i64| {
        if let Some(value) = node.labels.get(&term.topology_key) {
            *domains.entry(term.topology_key.clone()).or_default().entry(value.clone()).or_default() += weight;
        }
    };
    let preferred: Vec<(i64, &AffinityTerm)> = (pod.preferred_affinity.iter().map(|(w, t)| (*w, t)))
        .chain(pod.preferred_anti_affinity.iter().map(|(w, t)| (-*w, t)))
        .collect();
    if !preferred.is_empty() {
        let matching: Vec<Vec<bool>> = snapshot.classes.evaluate(|namespace, labels| {
            let of = snapshot.namespace_labels(namespace);
            preferred.iter().map(|(_, t)| t.matches(namespace, of, labels)).collect()
        });
        for info in snapshot.existing() {
            for count in &info.classes {
                let terms = preferred.iter().zip(&matching[count.class as usize]);
                for ((weight, term), _) in terms.filter(|(_, matches)| **matches) {
                    add(info, term, weight * i64::from(count.all));
                }
            }
        }
    }
    let own_namespace = snapshot.namespace_labels(&pod.key.namespace);
    for info in snapshot.nodes_with_affinity() {
        for resident in info.pods.iter().filter(|r| r.pod.has_affinity()) {
            let hard = resident.pod.affinity.iter().map(|t| (HARD_AFFINITY_WEIGHT, t));
            let soft = resident.pod.preferred_affinity.iter().map(|(w, t)| (*w, t));
            let anti = resident.pod.preferred_anti_affinity.iter().map(|(w, t)| (-*w, t));
            for (weight, term) in hard.chain(soft).chain(anti) {
                if term.matches(&pod.key.namespace, own_namespace, &pod.labels) {
                    add(info, term, weight);
                }
            }
        }
    }
    if domains.is_empty() {
        return None;
    }
    let score = |slot: &usize| {
        let labels = &snapshot.node(*slot).labels;
        domains.iter().filter_map(|(key, values)| values.get(labels.get(key)?)).sum::<i64>()
    };
    let raw: Vec<i64> = nodes.iter().map(score).collect();
    let (low, high) = (raw.iter().min().copied().unwrap_or(0), raw.iter().max().copied().unwrap_or(0));
    let spread = high - low;
    let normal = |s: &i64| {
        if spread > 0 { (100.0 * ((s - low) as f64 / spread as f64)) as i64 } else { 0 }
    };
    Some(raw.iter().map(normal).collect())
}
