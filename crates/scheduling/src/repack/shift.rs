//! Single pods moved between nodes where that lets one of them become cheaper.
//!
//! Packing anew leaves some nodes as they are, and what it does pack it packs by kind. This looks at the nodes one by one
//! and asks: which pods keep it from being a cheaper type, and do others have room for them at no cost?

use karpenter_core::MicroUsd;

use crate::bits::Bits;
use crate::columns::{Amounts, ResId};
use crate::problem::Problem;
use crate::state::Claim;
use crate::template::short_of_min_values;
use crate::terms::SetId;

/// Claims that are weighed against a pod or priced, over one pass.
const MOST_WORK: usize = 20_000;
/// Pods that may leave one node together.
const MOST_MOVED: usize = 4;

/// Moves pods as long as that pays; answers whether any was moved.
pub(super) fn improve(problem: &mut Problem<'_>, claims: &mut [Claim]) -> bool {
    let Some(heaviest) = problem.templates.iter().map(|template| template.weight).max() else { return false };
    // A pod may not leave the pool its weight gave it, and where a limit counts, a move counts against it.
    let takes_part = |problem: &Problem<'_>, claim: &Claim| {
        let template = &problem.templates[claim.template];
        let plain = claim.reserved.is_empty() && !claim.min_values_relaxed && !claim.pods.is_empty();
        plain && template.weight == heaviest && !template.is_limited()
    };
    let open: Vec<usize> = (0..claims.len()).filter(|index| takes_part(problem, &claims[*index])).collect();
    let mut prices: Vec<MicroUsd> = claims.iter().map(|claim| problem.price(claim)).collect();
    let mut work = open.len();
    let mut moved = false;
    let mut from_start = true;
    while std::mem::take(&mut from_start) {
        for &index in &open {
            for resource in resources(&claims[index].total) {
                if work > MOST_WORK {
                    return moved;
                }
                if relieve(problem, claims, &mut prices, &open, index, resource, &mut work) {
                    (moved, from_start) = (true, true);
                }
            }
        }
    }
    moved
}

fn resources(total: &Amounts) -> Vec<ResId> {
    total.0.iter().map(|(resource, _)| *resource).collect()
}

/// Takes the largest pods, by one resource, off a node until it is cheaper, if others can have them for nothing.
fn relieve(
    problem: &mut Problem<'_>,
    claims: &mut [Claim],
    prices: &mut [MicroUsd],
    open: &[usize],
    index: usize,
    resource: ResId,
    work: &mut usize,
) -> bool {
    let mut free: Vec<(usize, usize)> =
        claims[index].pods.iter().copied().filter(|(pod, variant)| is_free(problem, *pod, *variant)).collect();
    let size = |problem: &Problem<'_>, pod: usize| problem.classes[problem.pods[pod].class].requests.get(resource);
    free.sort_by_key(|(pod, _)| (std::cmp::Reverse(size(problem, *pod)), *pod));
    let mut left = claims[index].clone();
    for count in 1..=MOST_MOVED.min(free.len()) {
        let leaving = free[count - 1];
        left.pods.retain(|placed| *placed != leaving);
        left.total.subtract(&problem.classes[problem.pods[leaving.0].class].requests);
        if left.pods.is_empty() {
            return false;
        }
        let Some(types) = types_for(problem, left.template, left.set, &left) else { return false };
        left.types = types;
        let price = problem.price(&left);
        *work += 1;
        if price >= prices[index] {
            continue;
        }
        if let Some(changed) = rehome(problem, claims, prices, open, index, &free[..count], work) {
            for (at, claim) in changed {
                claims[at] = claim;
            }
            (claims[index], prices[index]) = (left, price);
            return true;
        }
    }
    false
}

/// The nodes that take the pods without becoming dearer; nothing where one of the pods finds none.
fn rehome(
    problem: &mut Problem<'_>,
    claims: &[Claim],
    prices: &[MicroUsd],
    open: &[usize],
    from: usize,
    leaving: &[(usize, usize)],
    work: &mut usize,
) -> Option<Vec<(usize, Claim)>> {
    let mut changed: Vec<(usize, Claim)> = Vec::new();
    'pods: for &(pod, variant) in leaving {
        for &at in open.iter().filter(|at| **at != from) {
            let known = changed.iter().position(|(index, _)| *index == at);
            let host = known.map_or(&claims[at], |known| &changed[known].1);
            *work += 1;
            let Some(after) = with_guest(problem, host, pod, variant) else { continue };
            if problem.price(&after) > prices[at] {
                continue;
            }
            match known {
                Some(known) => changed[known].1 = after,
                None => changed.push((at, after)),
            }
            continue 'pods;
        }
        return None;
    }
    Some(changed)
}

fn with_guest(problem: &mut Problem<'_>, host: &Claim, pod: usize, variant: usize) -> Option<Claim> {
    let class = problem.pods[pod].class;
    if !problem.classes[class].variants[variant].templates.contains(host.template) {
        return None;
    }
    let set = problem.terms.join(host.set, problem.classes[class].variants[variant].set)?;
    let mut after = host.clone();
    after.total.add(&problem.classes[class].requests);
    after.types = types_for(problem, host.template, set, &after)?;
    after.set = set;
    after.pods.push((pod, variant));
    Some(after)
}

/// Pods that no rule ties to others, that gave nothing up and bring neither ports nor volumes.
fn is_free(problem: &Problem<'_>, pod: usize, variant: usize) -> bool {
    let class = &problem.classes[problem.pods[pod].class];
    let ties = [&class.counted_in, &class.kept_out_by, &class.keeps_out];
    variant < class.shape.required_node_affinity.len().max(1)
        && class.variants[variant].owned.is_empty()
        && ties.iter().all(|groups| groups.is_empty())
        && class.ports.is_empty()
        && class.volumes.is_empty()
        && !class.has_claims
}

/// What a claim with this set may become; nothing where that is nothing, or too few for minValues.
fn types_for(problem: &mut Problem<'_>, template: usize, set: SetId, claim: &Claim) -> Option<Bits> {
    let of = &problem.templates[template];
    let mut types: Bits = of.types.clone();
    types.and(&problem.catalogs[of.catalog].usable(set, &mut problem.terms).types);
    let of = &problem.templates[template];
    claim.total.0.iter().for_each(|(resource, amount)| of.fit.keep(&mut types, *resource, *amount));
    if !claim.ports.is_empty() && !problem.daemons.is_empty() {
        types.and(&of.types_free_of(&claim.ports, &problem.daemons));
    }
    let enough = short_of_min_values(set, &types, &problem.catalogs[of.catalog], &problem.terms).is_empty();
    (!types.is_empty() && enough).then_some(types)
}
