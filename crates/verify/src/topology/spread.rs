//! Spread: no domain may be too far ahead of the emptiest one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::labels::HOSTNAME;
use karpenter_core::pod::{NodePolicy, NodeTerm, Spread, WhenUnsatisfiable};
use karpenter_core::selector::{Selector, SelectorExpression};
use karpenter_core::{Labels, Pod, Toleration};

use super::{Settled, spreads, universe};
use crate::cluster::{Cluster, Place};
use crate::labels::{canonical, holds_for, selector_matches, selects_node, term_holds};
use crate::tolerations;
use crate::violation::Violation;

/// Pods whose constraints are the same count as one group. What a policy ignores does not tell them apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    namespace: Arc<str>,
    key: String,
    max_skew: i32,
    min_domains: Option<i32>,
    selector: Option<Selector>,
    honored_affinity: Option<(Labels, Vec<NodeTerm>)>,
    honored_tolerations: Option<Vec<Toleration>>,
}

pub(crate) fn judge(cluster: &Cluster<'_>, settled: &[Settled], found: &mut Vec<Violation>) {
    let mut groups: BTreeMap<Identity, Vec<Settled>> = BTreeMap::new();
    for owner in settled.iter().filter(|s| s.planned) {
        let pod = cluster.pod(owner.pod);
        for spread in spreads(cluster.world, pod) {
            if spread.when == WhenUnsatisfiable::DoNotSchedule {
                let identity = identity(cluster, pod, &spread, owner.place);
                let owners = groups.entry(identity).or_default();
                if owners.last().is_none_or(|last| last.pod != owner.pod) {
                    owners.push(*owner);
                }
            }
        }
    }
    for (group, owners) in &groups {
        one_group(cluster, settled, group, owners, found);
    }
}

fn identity(cluster: &Cluster<'_>, pod: &Pod, spread: &Spread, place: Place) -> Identity {
    let shape = &pod.shape;
    let placed = || tolerations::as_placed(&shape.tolerations, cluster.taints(place));
    Identity {
        namespace: pod.namespace.clone(),
        key: canonical(&cluster.world.vocabulary, &spread.topology_key).to_owned(),
        max_skew: spread.max_skew,
        min_domains: spread.min_domains,
        selector: selector(pod, spread),
        honored_affinity: (spread.node_affinity == NodePolicy::Honor)
            .then(|| (shape.node_selector.clone(), shape.required_node_affinity.clone())),
        honored_tolerations: (spread.node_taints == NodePolicy::Honor).then(placed),
    }
}

/// With what `matchLabelKeys` adds. Keys the pod lacks add nothing.
fn selector(pod: &Pod, spread: &Spread) -> Option<Selector> {
    let own = |key: &String| {
        let value = pod.shape.labels.get(key)?;
        Some(SelectorExpression::equals(key, value))
    };
    let more: Vec<_> = spread.match_label_keys.iter().filter_map(own).collect();
    match &spread.selector {
        None if more.is_empty() => None,
        None => Some(Selector::new(more)),
        Some(given) if given.is_invalid() => Some(given.clone()),
        Some(given) => Some(Selector::new(given.expressions().iter().cloned().chain(more))),
    }
}

fn one_group(
    cluster: &Cluster<'_>,
    settled: &[Settled],
    group: &Identity,
    owners: &[Settled],
    found: &mut Vec<Violation>,
) {
    let key = group.key.as_str();
    // Pods may share a constraint that counts only some of them.
    let counts_itself =
        |owner: &&Settled| selector_matches(group.selector.as_ref(), &cluster.pod(owner.pod).shape.labels);
    let counted: Vec<&Settled> = settled
        .iter()
        .filter(|s| cluster.pod(s.pod).namespace == group.namespace)
        .filter(|s| selector_matches(group.selector.as_ref(), &cluster.pod(s.pod).shape.labels))
        .collect();
    // Owners came one after the other, and pods that ran before were there for each of them. Pods of the plan that are
    // only counted may have come later, so they do not speak against anybody; but they may have raised the least count.
    let mut for_sure: BTreeMap<&str, i64> = BTreeMap::new();
    let mut at_most: BTreeMap<&str, i64> = BTreeMap::new();
    let mut takes_part_at: BTreeMap<Place, bool> = BTreeMap::new();
    for s in &counted {
        let takes_part = *takes_part_at.entry(s.place).or_insert_with(|| takes_part(cluster, group, s.place));
        if let Some(domain) = decided(cluster, s.place, key).filter(|_| takes_part) {
            *at_most.entry(domain).or_default() += 1;
            if !s.planned {
                *for_sure.entry(domain).or_default() += 1;
            }
        }
    }
    let mut in_domain: BTreeMap<&str, Vec<Settled>> = BTreeMap::new();
    for owner in owners {
        let domains = cluster.domains(owner.place, key);
        let (pod, node) = (cluster.pod_name(owner.pod), cluster.name(owner.place));
        match decided(cluster, owner.place, key) {
            Some(domain) => in_domain.entry(domain).or_default().push(*owner),
            None if domains.is_empty() => found.push(Violation::NoDomain { pod, node, key: key.to_owned() }),
            None => {
                let domains = domains.into_iter().map(str::to_owned).collect();
                found.push(Violation::Undecided { pod, node, key: key.to_owned(), domains });
            }
        }
    }
    let known = known_domains(cluster, group);
    for (domain, owners) in &in_domain {
        let own = owners.iter().filter(counts_itself).count() as i64;
        let count = for_sure.get(domain).copied().unwrap_or(0) + own;
        // Which of them came last is not known: the one with the most forgiving view may have.
        let views = owners.iter().map(|owner| least(cluster, group, owner, &known, &at_most));
        let least = views.max().unwrap_or(0);
        if count - least > i64::from(group.max_skew) {
            found.push(Violation::Skew {
                pod: cluster.pod_name(owners[0].pod),
                key: key.to_owned(),
                domain: (*domain).to_owned(),
                count,
                least,
                max_skew: group.max_skew,
            });
        }
    }
}

/// The domain, where only one is possible.
fn decided<'c>(cluster: &'c Cluster<'_>, place: Place, key: &str) -> Option<&'c str> {
    let domains = cluster.domains(place, key);
    if domains.len() == 1 { domains.into_iter().next() } else { None }
}

/// Whether pods on the node count: it passes the constraint's node filter, whatever it becomes.
fn takes_part(cluster: &Cluster<'_>, group: &Identity, place: Place) -> bool {
    let tolerated = |own: &Vec<Toleration>| tolerations::all(cluster.taints(place), own);
    let selected = |(selector, terms): &(Labels, Vec<NodeTerm>)| {
        if selector.is_empty() && terms.is_empty() {
            return true;
        }
        let shape = karpenter_core::PodShape {
            node_selector: selector.clone(),
            required_node_affinity: terms.clone(),
            ..karpenter_core::PodShape::default()
        };
        let words = &cluster.world.vocabulary;
        match place {
            Place::Existing(node) => selects_node(words, &shape, &cluster.node_labels[node]),
            Place::New(node) => {
                let claim = &cluster.claims[node];
                let mut kinds = claim.types();
                kinds.all(|kind| claim.possible(kind).iter().all(|on| selects_node(words, &shape, on)))
            }
        }
    };
    group.honored_tolerations.as_ref().is_none_or(tolerated) && group.honored_affinity.as_ref().is_none_or(selected)
}

/// What pools could create, and where nodes that take part are.
fn known_domains<'w>(cluster: &'w Cluster<'w>, group: &Identity) -> BTreeSet<&'w str> {
    let mut known = universe::creatable(cluster.world, &group.key, group.honored_tolerations.as_deref());
    for (i, node) in cluster.world.nodes.iter().enumerate() {
        if node.has_node && !node.deleting && takes_part(cluster, group, Place::Existing(i)) {
            known.extend(cluster.node_labels[i].get(group.key.as_str()));
        }
    }
    known
}

/// The count of the emptiest domain that the pod's own hard constraints on the key leave it. Where alternatives of its
/// node affinity hold on its node, any of them may be the one it was placed by.
fn least(
    cluster: &Cluster<'_>,
    group: &Identity,
    owner: &Settled,
    known: &BTreeSet<&str>,
    counts: &BTreeMap<&str, i64>,
) -> i64 {
    if group.key == HOSTNAME {
        // There can always be one more node.
        return 0;
    }
    let pod = cluster.pod(owner.pod);
    let least_of = |term: Option<&NodeTerm>| {
        let allowed = known.iter().filter(|domain| strictly_allowed(cluster, pod, term, &group.key, domain));
        let counts: Vec<i64> = allowed.map(|domain| counts.get(domain).copied().unwrap_or(0)).collect();
        let too_few = group.min_domains.is_some_and(|wanted| (counts.len() as i64) < i64::from(wanted));
        if too_few { 0 } else { counts.into_iter().min().unwrap_or(0) }
    };
    active_terms(cluster, pod, owner.place).into_iter().map(least_of).max().unwrap_or(0)
}

/// The alternatives of required node affinity by which the pod may be where it is; `None` for a pod without any.
pub(super) fn active_terms<'p>(cluster: &Cluster<'_>, pod: &'p Pod, place: Place) -> Vec<Option<&'p NodeTerm>> {
    let (words, terms) = (&cluster.world.vocabulary, &pod.shape.required_node_affinity);
    if terms.is_empty() {
        return vec![None];
    }
    let hold: Vec<bool> = match place {
        Place::Existing(node) => {
            let on = &cluster.node_labels[node];
            terms.iter().map(|term| term_holds(words, term, on)).collect()
        }
        Place::New(node) => {
            let on = cluster.claims[node].launched();
            let holds = |term| on.as_ref().is_some_and(|on| term_holds(words, term, on));
            terms.iter().map(holds).collect()
        }
    };
    terms.iter().zip(hold).filter(|(_, holds)| *holds).map(|(term, _)| Some(term)).collect()
}

/// Whether node selector and, if given, one alternative of required node affinity leave the pod this domain.
pub(super) fn strictly_allowed(
    cluster: &Cluster<'_>,
    pod: &Pod,
    term: Option<&NodeTerm>,
    key: &str,
    domain: &str,
) -> bool {
    let words = &cluster.world.vocabulary;
    let mut selected = pod.shape.node_selector.iter().filter(|(k, _)| canonical(words, k) == key);
    let mut asked = term.iter().flat_map(|term| &term.expressions).filter(|e| canonical(words, &e.key) == key);
    selected.all(|(_, value)| value == domain) && asked.all(|expression| holds_for(expression, Some(domain)))
}
