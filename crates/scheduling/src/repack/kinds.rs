//! What there is to pack: pods of new claims, reduced to what still matters once topology has been decided.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::ports::HostPort;
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::columns::Amounts;
use crate::groups::{GroupId, Kind};
use crate::problem::Problem;
use crate::state::{Claim, State};
use crate::terms::SetId;

/// Pods that are interchangeable for packing: equal size, requirements, pools and neighbours they cannot stand.
pub(crate) struct Item {
    /// Requirements, with every topology domain pinned to where the baseline put it. Counts per domain then stay what
    /// they are, so that spread, affinity and anti-affinity over zones and the like hold by construction.
    pub(crate) set: SetId,
    pub(crate) templates: Bits,
    /// What each counts with: at least something.
    pub(crate) requests: Amounts,
    /// What each asks for.
    pub(crate) asked: Amounts,
    pub(crate) ports: Arc<[HostPort]>,
    pub(crate) neighbours: Arc<[Neighbour]>,
    /// Pod and variant of each.
    pub(crate) pods: Vec<(usize, usize)>,
    /// Row of the covering programme: items that differ in ports and neighbours only share one.
    pub(crate) row: usize,
}

/// A pod's part in a hostname group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Neighbour {
    pub(crate) group: GroupId,
    pub(crate) owner: bool,
    pub(crate) counted: bool,
}

pub(crate) struct Items {
    pub(crate) all: Vec<Item>,
    /// An item of each row.
    pub(crate) rows: Vec<usize>,
    /// Claims that stay as they are.
    pub(crate) frozen: Vec<usize>,
}

/// Its fourth part tells what counts alike and asks for something else apart.
type Key = (SetId, Vec<u64>, usize, usize, Arc<[HostPort]>, Arc<[Neighbour]>);

/// What a class in some variant cannot stand beside it.
type Parts = (Arc<[Neighbour]>, Arc<[HostPort]>);

/// Claims whose pods depend on being together, or that hold reservations, stay as they are; and those in `kept`.
pub(crate) fn collect(problem: &mut Problem<'_>, state: &State, kept: &BTreeSet<usize>) -> Items {
    let mut items = Items { all: Vec::new(), rows: Vec::new(), frozen: Vec::new() };
    let mut by_key: FxHashMap<Key, usize> = FxHashMap::default();
    let mut rows: FxHashMap<(SetId, Vec<u64>, Amounts), usize> = FxHashMap::default();
    let mut alone: FxHashMap<(usize, usize), Option<i32>> = FxHashMap::default();
    let mut parts: FxHashMap<(usize, usize), Parts> = FxHashMap::default();
    for index in 0..state.claims.len() {
        let claim = &state.claims[index];
        if claim.pods.is_empty() {
            continue;
        }
        let guests = claim.pods.iter().any(|&(pod, variant)| {
            let class = problem.pods[pod].class;
            let alone = *alone.entry((class, variant)).or_insert_with(|| weight_alone(problem, class, variant));
            alone.is_some_and(|weight| weight > problem.templates[claim.template].weight)
        });
        let movable = !kept.contains(&index) && !guests && is_movable(problem, claim);
        let sets = if movable { item_sets(problem, state, index) } else { None };
        let Some(sets) = sets else {
            items.frozen.push(index);
            continue;
        };
        for (&(pod, variant), set) in claim.pods.iter().zip(sets) {
            let class = problem.pods[pod].class;
            let (neighbours, ports) = parts
                .entry((class, variant))
                .or_insert_with(|| (neighbours(problem, class, variant), problem.classes[class].ports.clone().into()))
                .clone();
            let templates = templates(problem, class, variant, claim.template);
            let words = templates.words().to_vec();
            let (requests, size) = (problem.classes[class].counted(), problem.classes[class].size);
            let next_row = items.rows.len();
            let row = *rows.entry((set, words.clone(), requests.clone())).or_insert(next_row);
            let next = items.all.len();
            let at = *by_key.entry((set, words, row, size, ports.clone(), neighbours.clone())).or_insert(next);
            if at == next {
                let asked = problem.classes[class].requests.clone();
                items.all.push(Item { set, templates, requests, asked, ports, neighbours, pods: Vec::new(), row });
            }
            if row == next_row {
                items.rows.push(at);
            }
            items.all[at].pods.push((pod, variant));
        }
    }
    items
}

/// The weight of the heaviest unlimited pool that could take a pod on a node of its own. A pod that is a guest in a lighter
/// pool may stay with those who needed that pool, and may not be what such a node is bought for.
pub(super) fn weight_alone(problem: &mut Problem<'_>, class: usize, variant: usize) -> Option<i32> {
    for template in problem.classes[class].variants[variant].templates.clone().iter() {
        if problem.templates[template].is_limited() {
            continue;
        }
        let (base, catalog) = (problem.templates[template].base, problem.templates[template].catalog);
        let Some(set) = problem.terms.join(base, problem.classes[class].variants[variant].set) else { continue };
        let mut types = problem.templates[template].types.clone();
        types.and(&problem.catalogs[catalog].usable(set, &mut problem.terms).types);
        for (resource, amount) in &problem.classes[class].requests.0 {
            problem.templates[template].fit.keep(&mut types, *resource, *amount);
        }
        if !types.is_empty() {
            return Some(problem.templates[template].weight);
        }
    }
    None
}

fn is_movable(problem: &Problem<'_>, claim: &Claim) -> bool {
    let together = |&(pod, variant): &(usize, usize)| {
        let class = &problem.classes[problem.pods[pod].class];
        // What was given up may still hold by luck where the pod is, so it stays there.
        if variant >= class.shape.required_node_affinity.len().max(1) {
            return true;
        }
        let owned = &class.variants[variant].owned;
        owned.iter().any(|id| problem.groups.get(*id).kind == Kind::Affinity && problem.group_is_hostname(*id))
    };
    claim.reserved.is_empty() && !claim.min_values_relaxed && !claim.pods.iter().any(together)
}

/// The set of each pod of a claim, domains pinned; nothing where a pod's volumes cannot be told from the claim.
pub(super) fn item_sets(problem: &mut Problem<'_>, state: &State, index: usize) -> Option<Vec<SetId>> {
    let claim = state.claims[index].clone();
    let mut memo: FxHashMap<(usize, usize), SetId> = FxHashMap::default();
    let mut sets = Vec::with_capacity(claim.pods.len());
    for &(pod, variant) in &claim.pods {
        let class = problem.pods[pod].class;
        if let Some(set) = memo.get(&(class, variant)) {
            sets.push(*set);
            continue;
        }
        let mut set = problem.classes[class].variants[variant].set;
        let of = &problem.classes[class];
        let groups: Vec<GroupId> = of.variants[variant]
            .owned
            .iter()
            .chain(&of.counted_in)
            .chain(&of.kept_out_by)
            .chain(&of.keeps_out)
            .copied()
            .collect();
        for id in groups {
            let Some(table) = problem.domains.groups[id.0 as usize].table else { continue };
            let key = problem.domains.keys[table].key;
            let kind = problem.groups.get(id).kind;
            let pinned = problem.terms.get(claim.set, key).filter(|req| !problem.terms.requirement(*req).open);
            let pin = match (pinned, kind) {
                (Some(req), _) => problem.terms.single(key, req),
                (None, Kind::AntiAffinity | Kind::Inverse) if problem.terms.is_well_known(key) => {
                    let possible = problem.possible_domains(&claim, table);
                    let req = problem.domain_req(table, possible.into_iter());
                    problem.terms.single(key, req)
                }
                (None, _) => continue,
            };
            set = problem.terms.union(set, pin);
        }
        if !problem.classes[class].volumes.is_empty() {
            let chosen = problem.classes[class]
                .volumes
                .clone()
                .into_iter()
                .find(|alternative| problem.terms.join(claim.set, *alternative) == Some(claim.set))?;
            set = problem.terms.union(set, chosen);
        }
        memo.insert((class, variant), set);
        sets.push(set);
    }
    Some(sets)
}

/// Pools as heavy as the baseline's or heavier whose taints the pod tolerates in the form in which it was placed.
pub(super) fn templates(problem: &Problem<'_>, class: usize, variant: usize, from: usize) -> Bits {
    let weight = problem.templates[from].weight;
    let tolerated = &problem.classes[class].variants[variant].templates;
    tolerated.iter().filter(|template| problem.templates[*template].weight >= weight).collect()
}

pub(super) fn neighbours(problem: &Problem<'_>, class: usize, variant: usize) -> Arc<[Neighbour]> {
    let of = &problem.classes[class];
    let owned = &of.variants[variant].owned;
    let mut ids: Vec<GroupId> = owned.iter().chain(&of.counted_in).copied().collect();
    ids.retain(|id| problem.group_is_hostname(*id) && problem.groups.get(*id).kind != Kind::Affinity);
    ids.sort_unstable();
    ids.dedup();
    let part = |group: GroupId| Neighbour {
        group,
        owner: owned.binary_search(&group).is_ok(),
        counted: of.counted_in.binary_search(&group).is_ok(),
    };
    ids.into_iter().map(part).collect()
}
