//! A few pods moved between nodes where that makes the nodes cheaper together.
//!
//! Packing anew leaves some nodes as they are, and what it does pack it packs by kind. This looks at the nodes one by one
//! and asks: which pods keep it from being a cheaper one, and where would they cost less?

use std::sync::Arc;

use karpenter_core::MicroUsd;
use karpenter_core::labels::{CAPACITY_TYPE, ZONE};
use karpenter_core::ports::HostPort;
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::columns::Amounts;
use crate::groups::Kind;
use crate::problem::Problem;
use crate::repack::fill::Company;
use crate::repack::kinds::{self, Neighbour};
use crate::state::{Claim, State};
use crate::terms::SetId;

/// Nodes that are tried for a pod or priced, over one pass.
const MOST_WORK: usize = 20_000;
/// Pods that may leave one node together.
const MOST_MOVED: usize = 4;

/// Moves pods as long as that pays; answers whether any was moved.
pub(super) fn improve(problem: &mut Problem<'_>, state: &State, claims: &mut [Claim]) -> bool {
    let open: Vec<usize> = (0..claims.len()).filter(|index| takes_part(problem, &claims[*index])).collect();
    if open.len() < 2 {
        return false;
    }
    let prices = claims.iter().map(|claim| problem.price(claim)).collect();
    let mut shift = Shift { guests: guests(problem, state), open, prices, work: 0 };
    let mut moved = false;
    while shift.round(problem, claims) {
        moved = true;
    }
    moved
}

/// Where somebody is a guest in a pool lighter than its own, nobody leaves whom the node was bought for.
fn takes_part(problem: &mut Problem<'_>, claim: &Claim) -> bool {
    let weight = problem.templates[claim.template].weight;
    let plain = claim.reserved.is_empty() && !claim.min_values_relaxed && !claim.pods.is_empty();
    let heavier = problem.templates.iter().any(|template| template.weight > weight);
    let mut is_guest = |(pod, variant): &(usize, usize)| {
        let class = problem.pods[*pod].class;
        kinds::weight_alone(problem, class, *variant).is_some_and(|alone| alone > weight)
    };
    plain && !(heavier && claim.pods.iter().any(&mut is_guest))
}

/// A pod as others see it on their node.
struct Guest {
    look: Look,
    /// Its requirements, with every topology domain pinned; nothing where it has to stay on its node.
    loose: Option<SetId>,
}

/// What pods of a class in one variant share.
#[derive(Clone)]
struct Look {
    neighbours: Arc<[Neighbour]>,
    ports: Arc<[HostPort]>,
    is_loose: bool,
}

struct Shift {
    guests: FxHashMap<usize, Guest>,
    open: Vec<usize>,
    prices: Vec<MicroUsd>,
    work: usize,
}

fn guests(problem: &mut Problem<'_>, state: &State) -> FxHashMap<usize, Guest> {
    let mut guests = FxHashMap::default();
    let mut looks: FxHashMap<(usize, usize), Look> = FxHashMap::default();
    for index in 0..state.claims.len() {
        let sets = kinds::item_sets(problem, state, index);
        for (at, &(pod, variant)) in state.claims[index].pods.iter().enumerate() {
            let class = problem.pods[pod].class;
            let look = looks.entry((class, variant)).or_insert_with(|| Look {
                neighbours: kinds::neighbours(problem, class, variant),
                ports: problem.classes[class].ports.clone().into(),
                is_loose: is_loose(problem, class, variant),
            });
            let loose = sets.as_ref().map(|sets| sets[at]).filter(|_| look.is_loose);
            guests.insert(pod, Guest { look: look.clone(), loose });
        }
    }
    guests
}

/// Not tied to a node by an affinity, its own or another's, by what it gave up and may have there by luck, or by a spread
/// over a label that its neighbours may have brought.
fn is_loose(problem: &Problem<'_>, class: usize, variant: usize) -> bool {
    let of = &problem.classes[class];
    let mut ties = of.variants[variant].owned.iter().chain(&of.counted_in);
    variant < of.shape.required_node_affinity.len().max(1)
        && !of.has_claims
        && ties.all(|id| match problem.domains.groups[id.0 as usize].table {
            None => problem.groups.get(*id).kind != Kind::Affinity,
            Some(table) => {
                let key = &**problem.terms.key_name(problem.domains.keys[table].key);
                key == ZONE || key == CAPACITY_TYPE
            }
        })
}

/// What a changed claim may become. A pool's limits are charged with the largest type of each claim, so a claim never
/// grows beyond what it was charged with.
fn types_of(problem: &mut Problem<'_>, changed: &Claim) -> Option<Bits> {
    let charged = problem.worst_capacity(changed.template, &changed.types);
    let of = &problem.templates[changed.template];
    let mut types = of.types.clone();
    for (capacity, most) in of.capacity.iter().zip(charged) {
        let within: Bits = types.iter().filter(|kind| capacity[*kind] <= most).collect();
        types.and(&within);
    }
    let counted = problem.counted(changed);
    problem.types_among(types, changed.template, changed.set, &counted, &changed.ports)
}

impl Shift {
    fn round(&mut self, problem: &mut Problem<'_>, claims: &mut [Claim]) -> bool {
        let mut moved = false;
        for at in 0..self.open.len() {
            let index = self.open[at];
            for leaving in self.candidates(problem, &claims[index]) {
                if self.work > MOST_WORK {
                    return false;
                }
                if self.relieve(problem, claims, index, &leaving) {
                    moved = true;
                    break;
                }
            }
        }
        moved
    }

    /// Pods whose leaving may make a node cheaper: the largest by each resource, those with the same requirements, and
    /// everybody.
    fn candidates(&self, problem: &Problem<'_>, claim: &Claim) -> Vec<Vec<(usize, usize)>> {
        let set_of = |(pod, _): &(usize, usize)| self.guests.get(pod).and_then(|guest| guest.loose);
        let loose: Vec<(usize, usize)> = claim.pods.iter().copied().filter(|placed| set_of(placed).is_some()).collect();
        let mut lists: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut add = |list: Vec<(usize, usize)>| {
            if !list.is_empty() && list.len() <= MOST_MOVED && !lists.contains(&list) {
                lists.push(list);
            }
        };
        if loose.len() == claim.pods.len() {
            add(loose.clone());
        }
        let mut sets: Vec<SetId> = loose.iter().filter_map(set_of).collect();
        sets.sort_unstable();
        sets.dedup();
        if sets.len() > 1 {
            for set in sets {
                add(loose.iter().copied().filter(|placed| set_of(placed) == Some(set)).collect());
            }
        }
        for (resource, _) in &claim.total.0 {
            let mut by_size = loose.clone();
            let size = |pod: usize| problem.classes[problem.pods[pod].class].requests.get(*resource);
            by_size.sort_by_key(|(pod, _)| (std::cmp::Reverse(size(*pod)), *pod));
            (1..=MOST_MOVED.min(by_size.len())).for_each(|count| add(by_size[..count].to_vec()));
        }
        lists
    }

    /// Takes pods off a node if what that saves is more than they cost elsewhere.
    fn relieve(
        &mut self,
        problem: &mut Problem<'_>,
        claims: &mut [Claim],
        index: usize,
        leaving: &[(usize, usize)],
    ) -> bool {
        self.work += 1;
        let Some((left, price)) = self.without(problem, &claims[index], leaving) else { return false };
        let Some(saved) = self.prices[index].0.checked_sub(price.0).filter(|saved| *saved > 0) else { return false };
        let Some(changed) = self.rehome(problem, claims, index, leaving, saved) else { return false };
        for (at, claim, price) in changed {
            (claims[at], self.prices[at]) = (claim, price);
        }
        (claims[index], self.prices[index]) = (left, price);
        true
    }

    /// The node without some of its pods, and its price then. Where all who stay can say what they need, it needs no more
    /// than that.
    fn without(
        &self,
        problem: &mut Problem<'_>,
        claim: &Claim,
        leaving: &[(usize, usize)],
    ) -> Option<(Claim, MicroUsd)> {
        let mut left = claim.clone();
        left.pods.retain(|placed| !leaving.contains(placed));
        left.total = Amounts::default();
        left.ports.clear();
        if left.pods.is_empty() {
            return Some((left, MicroUsd(0)));
        }
        let mut needed = Some(problem.templates[claim.template].base);
        for (pod, _) in &left.pods {
            let guest = self.guests.get(pod)?;
            left.ports.extend(guest.look.ports.iter().cloned());
            left.total.add(&problem.classes[problem.pods[*pod].class].requests);
            needed = needed.zip(guest.loose).and_then(|(needed, own)| problem.terms.join(needed, own));
        }
        left.set = match needed {
            Some(needed) => needed,
            // What the others need is known only all in all, so nobody leaves who brought a label along.
            None if leaving.iter().any(|(pod, _)| self.brings_label(problem, claim.template, *pod)) => return None,
            None => claim.set,
        };
        left.types = types_of(problem, &left)?;
        let price = problem.price(&left);
        Some((left, price))
    }

    /// Whether a pod asks for a label that neither pool nor instance types have.
    fn brings_label(&self, problem: &Problem<'_>, template: usize, pod: usize) -> bool {
        let template = &problem.templates[template];
        let Some(set) = self.guests.get(&pod).and_then(|guest| guest.loose) else { return true };
        problem.terms.entries(set).iter().any(|(key, _)| {
            let name = &**problem.terms.key_name(*key);
            let of_types =
                name == ZONE || name == CAPACITY_TYPE || !problem.catalogs[template.catalog].groups(*key).is_empty();
            !of_types && problem.terms.get(template.base, *key).is_none()
        })
    }

    /// The nodes that take the pods for less than `saved`; nothing where one of the pods finds none.
    fn rehome(
        &mut self,
        problem: &mut Problem<'_>,
        claims: &[Claim],
        from: usize,
        leaving: &[(usize, usize)],
        mut saved: u64,
    ) -> Option<Vec<(usize, Claim, MicroUsd)>> {
        let mut changed: Vec<(usize, Claim, MicroUsd)> = Vec::new();
        // A pod may not leave for a pool lighter than its own, nor for a heavier one that did not take it.
        let weight = |problem: &Problem<'_>, at: usize| problem.templates[claims[at].template].weight;
        let wanted = weight(problem, from);
        let is_host = |at: &&usize| **at != from && !claims[**at].pods.is_empty() && weight(problem, **at) == wanted;
        let hosts: Vec<usize> = self.open.iter().filter(is_host).copied().collect();
        for &(pod, variant) in leaving {
            let mut best: Option<(u64, usize, Claim, MicroUsd)> = None;
            for &at in &hosts {
                let known = changed.iter().find(|(index, ..)| *index == at);
                let (host, before) = known.map_or((&claims[at], self.prices[at]), |(_, claim, price)| (claim, *price));
                self.work += 1;
                let Some(after) = self.with_guest(problem, host, pod, variant) else { continue };
                let price = problem.price(&after);
                let cost = price.0.saturating_sub(before.0);
                if cost < saved && best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    best = Some((cost, at, after, price));
                    if cost == 0 {
                        break;
                    }
                }
            }
            let (cost, at, after, price) = best?;
            saved -= cost;
            changed.retain(|(index, ..)| *index != at);
            changed.push((at, after, price));
        }
        Some(changed)
    }

    fn with_guest(&self, problem: &mut Problem<'_>, host: &Claim, pod: usize, variant: usize) -> Option<Claim> {
        let (class, guest) = (problem.pods[pod].class, self.guests.get(&pod)?);
        if !problem.classes[class].variants[variant].templates.contains(host.template) {
            return None;
        }
        let set = problem.terms.join(host.set, guest.loose?)?;
        let look = &guest.look;
        if !look.neighbours.is_empty() || !look.ports.is_empty() {
            let mut company = Company::default();
            for (other, _) in &host.pods {
                let other = &self.guests.get(other)?.look;
                company.add(&other.neighbours, &other.ports, 1);
            }
            if company.room_for(&look.neighbours, &look.ports, problem, 1) == 0 {
                return None;
            }
        }
        let mut after = host.clone();
        after.total.add(&problem.classes[class].requests);
        after.ports.extend(look.ports.iter().cloned());
        after.set = set;
        after.pods.push((pod, variant));
        after.types = types_of(problem, &after)?;
        Some(after)
    }
}
