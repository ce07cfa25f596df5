//! One set of candidates, judged: where their pods would go, what would be bought, and whether that is worth doing.

use std::sync::Arc;

use karpenter_core::MicroUsd;
use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT};
use karpenter_scheduling::what_if::{Home, Homeless, Housing, Narrowing, Offer, WhatIf};
use rustc_hash::FxHashMap;

use crate::balanced;
use crate::candidate::Candidate;
use crate::command::{Move, Replacement, Target};
use crate::decision::Reason;
use crate::rules::Rules;
use crate::verdicts::Worth;

/// A spot node is replaced by spot only with so many cheaper types to choose from, and of these the cheapest are handed
/// over: whatever is launched is among them, and is not replaced again at once.
pub(crate) const SPOT_TO_SPOT_TYPES: usize = 15;

/// Spot prices go up and down by some percent all day. One node is kept calm by the number of types it is compared with;
/// several are replaced by spot only for less than this part of their price, or they would follow every wave. A twentieth
/// too dear on one side and a twentieth too cheap on the other look like a tenth saved, and as much again keeps what is
/// nearly worth it from becoming so by chance.
const SPOT_NOISE: (u64, u64) = (4, 5);

/// What a set of candidates would be replaced with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trial {
    pub(crate) replacements: Vec<Replacement>,
    pub(crate) moves: Vec<Move>,
    /// Millionths of a dollar per hour.
    pub(crate) savings: i64,
}

/// A trial before everything that only matters to those who carry it out is worked out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    housing: Housing,
    bought: Vec<Bought>,
    pub(crate) savings: i64,
}

/// One new node: what it may become, cheapest first, and how it is asked for.
#[derive(Clone, Debug, PartialEq)]
struct Bought {
    kinds: Vec<usize>,
    narrowing: Narrowing,
    cheapest: MicroUsd,
    price: MicroUsd,
}

impl Draft {
    pub(crate) fn worth(&self) -> Worth {
        Worth { savings: self.savings, replacements: self.bought.len() }
    }

    /// The what-if must still be as the draft left it.
    pub(crate) fn finish(self, what_if: &mut WhatIf<'_>, rules: &Rules<'_, '_>) -> Result<Trial, Reason> {
        let mut replacements = Vec::with_capacity(self.bought.len());
        for (new, Bought { kinds, narrowing, .. }) in self.bought.iter().enumerate() {
            let node = what_if.new_node(new, *narrowing, kinds);
            let short = |what_if: &mut WhatIf<'_>| what_if.short_of_min_values(new, *narrowing, kinds);
            replacements.push(rules.replacement(node.ok_or_else(|| Reason::MinValues { keys: short(what_if) })?));
        }
        Ok(Trial { replacements, moves: moves(&self.housing), savings: self.savings })
    }
}

/// What the candidates cost together.
fn price_of(candidates: &[&Candidate]) -> MicroUsd {
    candidates.iter().map(|candidate| candidate.price).sum()
}

/// Takes the candidates out of the what-if, where they stay out, and says what that is worth; or why it is not.
pub(crate) fn consolidate(
    what_if: &mut WhatIf<'_>,
    rules: &Rules<'_, '_>,
    candidates: &[&Candidate],
) -> Result<Draft, Reason> {
    let price = price_of(candidates);
    // Taken away for nothing is the best that can happen: where that is not worth it, nothing is.
    if candidates.len() == 1 {
        worth_it(rules, candidates, price.0 as i64, price.0 as i64)?;
    }
    let housing = house(what_if, rules, candidates)?;
    let bought = buy(what_if, rules, candidates, &housing, price)?;
    let estimate = price.0 as i64 - bought.iter().map(|new| new.cheapest.0 as i64).sum::<i64>();
    let after: MicroUsd = bought.iter().map(|new| new.price).sum();
    let savings = price.0 as i64 - after.0 as i64;
    worth_it(rules, candidates, estimate, savings)?;
    Ok(Draft { housing, bought, savings })
}

/// As [`consolidate`] for one candidate, where its pods fit on nodes that are there.
pub(crate) fn delete(what_if: &mut WhatIf<'_>, rules: &Rules<'_, '_>, candidate: &Candidate) -> Result<Trial, Reason> {
    worth_it(rules, &[candidate], candidate.price.0 as i64, candidate.price.0 as i64)?;
    let housed = what_if.leave_for_existing(&[candidate.node], &candidate.pods);
    let housing = housed.map_err(|homeless| told(rules, homeless))?;
    Ok(Trial { replacements: Vec::new(), moves: moves(&housing), savings: candidate.price.0 as i64 })
}

/// Where everything goes and what is bought for it, whatever that costs: for drift.
pub(crate) fn replace(
    what_if: &mut WhatIf<'_>,
    rules: &Rules<'_, '_>,
    candidates: &[&Candidate],
) -> Result<Trial, Reason> {
    let housing = house(what_if, rules, candidates)?;
    let mut replacements = Vec::new();
    for new in 0..housing.new_nodes {
        let kinds: Vec<usize> = what_if.offers(new, Narrowing::None).iter().map(|offer| offer.kind).collect();
        let node = what_if
            .new_node(new, Narrowing::None, &kinds)
            .ok_or_else(|| Reason::MinValues { keys: what_if.short_of_min_values(new, Narrowing::None, &kinds) })?;
        replacements.push(rules.replacement(node));
    }
    let after: MicroUsd = replacements.iter().map(|replacement| replacement.node.launch.price).sum();
    let savings = price_of(candidates).0 as i64 - after.0 as i64;
    Ok(Trial { replacements, moves: moves(&housing), savings })
}

/// Whether the pools that weigh savings against disruption, and the operator's price of disruption, let it pass.
fn worth_it(rules: &Rules<'_, '_>, candidates: &[&Candidate], estimate: i64, savings: i64) -> Result<(), Reason> {
    if let Some(reason) =
        balanced::refusal(rules.snapshot, &rules.totals, &rules.calm, candidates, estimate as f64 / 1e6)
    {
        return Err(reason);
    }
    match balanced::priced_at(rules.snapshot, rules.policy, &rules.calm, candidates) {
        Some(priced_at) if savings < priced_at.0 as i64 => {
            Err(Reason::NotWorthIt { savings: MicroUsd(savings.max(0).unsigned_abs()), priced_at })
        }
        _ => Ok(()),
    }
}

fn house(what_if: &mut WhatIf<'_>, rules: &Rules<'_, '_>, candidates: &[&Candidate]) -> Result<Housing, Reason> {
    let nodes: Vec<usize> = candidates.iter().map(|candidate| candidate.node).collect();
    let pods: Vec<usize> = candidates.iter().flat_map(|candidate| candidate.pods.iter().copied()).collect();
    what_if.leave(&nodes, &pods).map_err(|homeless| told(rules, homeless))
}

fn told(rules: &Rules<'_, '_>, homeless: Homeless) -> Reason {
    let world = rules.snapshot.world;
    match homeless {
        Homeless::NoPlace { pod } => Reason::PodHasNoPlace { pod: world.pods[pod].key(), why: None },
        Homeless::NotReady { pod, node } => {
            Reason::TargetNotReady { pod: world.pods[pod].key(), node: world.nodes[node].name.clone() }
        }
    }
}

fn moves(housing: &Housing) -> Vec<Move> {
    let to = |home: Home| match home {
        Home::Node(node) => Target::Node(node),
        Home::New(new) => Target::Replacement(new),
    };
    housing.moves.iter().map(|(pod, home)| Move { pod: *pod, to: to(*home) }).collect()
}

/// The replacements, each with the cheapest it could be, all together strictly cheaper than what they replace whatever
/// a launch makes of them.
fn buy(
    what_if: &mut WhatIf<'_>,
    rules: &Rules<'_, '_>,
    candidates: &[&Candidate],
    housing: &Housing,
    price: MicroUsd,
) -> Result<Vec<Bought>, Reason> {
    let all_spot = candidates.iter().all(|candidate| rules.label(candidate, CAPACITY_TYPE) == Some(SPOT));
    let (mut asked, mut least) = (Vec::with_capacity(housing.new_nodes), Vec::with_capacity(housing.new_nodes));
    for new in 0..housing.new_nodes {
        let spot_to_spot = all_spot && what_if.allows_capacity_type(new, SPOT) && !what_if.is_reserved(new);
        if spot_to_spot && !rules.policy.spot_to_spot {
            return Err(Reason::SpotToSpotDisabled);
        }
        let narrowing = if spot_to_spot { Narrowing::Spot } else { Narrowing::None };
        asked.push(narrowing);
        least.push(what_if.least_worst(new, narrowing));
    }
    let several = candidates.len() > 1 || housing.new_nodes > 1;
    let below = match several && asked.contains(&Narrowing::Spot) {
        true => price.fraction(SPOT_NOISE.0, SPOT_NOISE.1),
        false => price,
    };
    let mut bought = Vec::with_capacity(asked.len());
    for (new, limit) in limits(&least, below)?.into_iter().enumerate() {
        let (narrowing, cheapest) = (asked[new], least[new]);
        let mut offers = what_if.offers(new, narrowing);
        offers.retain(|offer| offer.worst < limit);
        check_min_values(what_if, new, narrowing, &offers)?;
        if offers.is_empty() {
            return Err(Reason::NotCheaper { price, cheapest });
        }
        if several {
            not_of_a_kind(what_if, rules, candidates, new, &mut offers)?;
            check_min_values(what_if, new, narrowing, &offers)?;
        }
        let narrowing = match narrowing {
            Narrowing::Spot => {
                if !several {
                    offers.truncate(spot_to_spot_types(what_if, new, &offers)?);
                }
                Narrowing::Spot
            }
            Narrowing::None => to_spot_where_both(what_if, new, &mut offers),
        };
        let kinds: Vec<usize> = offers.iter().map(|offer| offer.kind).collect();
        let Some(launch) = what_if.expected(new, narrowing, &kinds) else {
            return Err(Reason::MinValues { keys: what_if.short_of_min_values(new, narrowing, &kinds) });
        };
        bought.push(Bought { kinds, narrowing, cheapest: offers[0].cheapest, price: launch.price });
    }
    Ok(bought)
}

/// Below what each new node must cost. What is to spare is shared by price, so that all together stay below the whole.
fn limits(least: &[Option<MicroUsd>], price: MicroUsd) -> Result<Vec<MicroUsd>, Reason> {
    let Some(least) = least.iter().copied().collect::<Option<Vec<MicroUsd>>>() else {
        return Err(Reason::NotCheaper { price, cheapest: None });
    };
    let sum: MicroUsd = least.iter().copied().sum();
    if sum >= price && !least.is_empty() {
        return Err(Reason::NotCheaper { price, cheapest: Some(sum) });
    }
    let [_, _, ..] = least.as_slice() else { return Ok(vec![price; least.len()]) };
    // Each limit is above its least and the sum of limits is at most the whole, so strictly below each is enough.
    let spare = (price.0 - sum.0) / least.len() as u64;
    Ok(least.iter().map(|least| MicroUsd(least.0 + spare.max(1))).collect())
}

fn check_min_values(
    what_if: &mut WhatIf<'_>,
    new: usize,
    narrowing: Narrowing,
    offers: &[Offer],
) -> Result<(), Reason> {
    if !what_if.has_min_values(new) {
        return Ok(());
    }
    let kinds: Vec<usize> = offers.iter().map(|offer| offer.kind).collect();
    let keys = what_if.short_of_min_values(new, narrowing, &kinds);
    if keys.is_empty() { Ok(()) } else { Err(Reason::MinValues { keys }) }
}

/// If a replacement could be of a type that goes, it must be cheaper than the cheapest of that type: otherwise keeping
/// that node and taking the others is the better move.
fn not_of_a_kind(
    what_if: &WhatIf<'_>,
    rules: &Rules<'_, '_>,
    candidates: &[&Candidate],
    new: usize,
    offers: &mut Vec<Offer>,
) -> Result<(), Reason> {
    let types = &rules.snapshot.world.pools[what_if.pool_of(new)].instance_types;
    let mut prices: FxHashMap<&str, MicroUsd> = FxHashMap::default();
    for candidate in candidates {
        if let Some(name) = rules.label(candidate, INSTANCE_TYPE) {
            let least = prices.entry(name).or_insert(candidate.price);
            *least = (*least).min(candidate.price);
        }
    }
    let limiting = offers.iter().filter_map(|offer| {
        let name: &Arc<str> = &types[offer.kind].name;
        Some((*prices.get(&**name)?, name))
    });
    let Some((limit, name)) = limiting.min() else { return Ok(()) };
    offers.retain(|offer| offer.worst < limit);
    if offers.is_empty() { Err(Reason::SameType { instance_type: name.to_string() }) } else { Ok(()) }
}

/// How many of the cheapest types a launch is handed.
fn spot_to_spot_types(what_if: &mut WhatIf<'_>, new: usize, offers: &[Offer]) -> Result<usize, Reason> {
    if offers.len() < SPOT_TO_SPOT_TYPES {
        return Err(Reason::SpotToSpotFlexibility { found: offers.len(), wanted: SPOT_TO_SPOT_TYPES });
    }
    if !what_if.has_min_values(new) {
        return Ok(SPOT_TO_SPOT_TYPES);
    }
    let kinds: Vec<usize> = offers.iter().map(|offer| offer.kind).collect();
    let enough = |count: &usize| what_if.short_of_min_values(new, Narrowing::Spot, &kinds[..*count]).is_empty();
    Ok((SPOT_TO_SPOT_TYPES..kinds.len()).find(enough).unwrap_or(kinds.len()))
}

/// What may be spot or on-demand was judged at spot's price, so dearer on-demand must not happen instead.
fn to_spot_where_both(what_if: &mut WhatIf<'_>, new: usize, offers: &mut Vec<Offer>) -> Narrowing {
    let both = what_if.allows_capacity_type(new, SPOT) && what_if.allows_capacity_type(new, ON_DEMAND);
    if !both || what_if.is_reserved(new) {
        return Narrowing::None;
    }
    let mut spot: Vec<usize> = what_if.offers(new, Narrowing::Spot).iter().map(|offer| offer.kind).collect();
    spot.sort_unstable();
    let is_spot = |offer: &&Offer| spot.binary_search(&offer.kind).is_ok();
    let as_spot: Vec<Offer> = offers.iter().filter(is_spot).copied().collect();
    if as_spot.is_empty() {
        return Narrowing::None;
    }
    *offers = as_spot;
    Narrowing::Spot
}
