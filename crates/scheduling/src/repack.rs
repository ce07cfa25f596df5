//! Packing with prices in mind: start from the baseline, pay less, give nothing up.
//!
//! The baseline decides which pods are placed, which preferences hold and in which zone each constrained pod is. With
//! those pinned, what is left is bin packing with bin prices. A covering programme over node patterns gives each pod a
//! value; its patterns are bought in whole numbers, the rest is filled greedily by value for price, and groups of badly
//! used nodes are packed anew as long as that pays. All of it is bounded by counted work, never by a clock.

mod bins;
mod fill;
mod greedy;
mod kinds;
mod lanes;
mod master;
mod patterns;
mod prices;
mod rework;
mod shift;

use std::collections::BTreeSet;

use karpenter_core::MicroUsd;
use karpenter_core::ports::HostPort;
use karpenter_core::resources::PODS;

use crate::bits::Bits;
use crate::columns::Amounts;
use crate::problem::Problem;
use crate::repack::bins::{Packed, Packer};
use crate::state::{Claim, State};
use crate::template::short_of_min_values;
use crate::terms::SetId;

/// With more nodes than this single moves no longer tell.
const MOST_SHIFTED: usize = 200;

/// The claims of a cheaper packing of the same pods; nothing where the baseline is as good.
pub(crate) fn improve(problem: &mut Problem<'_>, state: &State) -> Option<Vec<Claim>> {
    // Reservations are handed out as the baseline goes; moving pods would move who holds them.
    if !state.reservations.is_empty() {
        return None;
    }
    let better = cheaper(problem, state, &BTreeSet::new())?;
    if !is_only_for_slots(problem, state, &better) {
        return Some(better);
    }
    // Many small nodes have many places for pods, and nothing to run them with. Such pods stay together, and what else
    // there is to gain is looked for without them.
    let crowded = slot_bound(problem, state);
    let better = cheaper(problem, state, &crowded)?;
    (!is_only_for_slots(problem, state, &better)).then_some(better)
}

/// Nothing where the baseline is as good. Pods of the claims in `kept` stay where they are.
fn cheaper(problem: &mut Problem<'_>, state: &State, kept: &BTreeSet<usize>) -> Option<Vec<Claim>> {
    let Packed { by_programme, by_prices, lean } = pack_anew(problem, state, kept);
    if lean {
        return by_prices;
    }
    // What was packed by prices mostly wins; but single moves may make more of the others.
    let is_baseline = by_programme.is_none();
    let mut best = by_programme.unwrap_or_else(|| state.claims.clone());
    let shifted = best.len() <= MOST_SHIFTED && shift::improve(problem, state, &mut best);
    let mut found = (!is_baseline || shifted).then_some(best);
    if let Some(mut other) = by_prices {
        if other.len() <= MOST_SHIFTED {
            shift::improve(problem, state, &mut other);
        }
        let price = price_of(problem, &other);
        if found.as_ref().is_none_or(|found| price < price_of(problem, found)) {
            found = Some(other);
        }
    }
    found
}

fn price_of(problem: &mut Problem<'_>, claims: &[Claim]) -> MicroUsd {
    claims.iter().filter(|claim| !claim.pods.is_empty()).map(|claim| problem.price(claim)).sum()
}

/// Claims that could be a cheaper node if pods needed no places.
fn slot_bound(problem: &mut Problem<'_>, state: &State) -> BTreeSet<usize> {
    let bound = |index: &usize| {
        let claim = &state.claims[*index];
        let without = problem.price_without_slots(claim);
        !claim.pods.is_empty() && without < problem.price(claim)
    };
    (0..state.claims.len()).filter(bound).collect()
}

/// More nodes than the baseline has, and not cheaper than its own would be if pods needed no places.
fn is_only_for_slots(problem: &mut Problem<'_>, state: &State, claims: &[Claim]) -> bool {
    let count = |claims: &[Claim]| claims.iter().filter(|claim| !claim.pods.is_empty()).count();
    if count(claims) <= count(&state.claims) {
        return false;
    }
    let filled = |claim: &&Claim| !claim.pods.is_empty();
    let price: MicroUsd = claims.iter().filter(filled).map(|claim| problem.price(claim)).sum();
    let without: MicroUsd = state.claims.iter().filter(filled).map(|claim| problem.price_without_slots(claim)).sum();
    price >= without
}

/// Only what is cheaper than the baseline.
fn pack_anew(problem: &mut Problem<'_>, state: &State, kept: &BTreeSet<usize>) -> Packed {
    let items = kinds::collect(problem, state, kept);
    if items.all.is_empty() {
        return Packed { by_programme: None, by_prices: None, lean: false };
    }
    let frozen: Vec<Claim> = items.frozen.iter().map(|index| state.claims[*index].clone()).collect();
    let movable: Vec<usize> = {
        let frozen: BTreeSet<usize> = items.frozen.iter().copied().collect();
        (0..state.claims.len()).filter(|i| !frozen.contains(i) && !state.claims[*i].pods.is_empty()).collect()
    };
    let before: MicroUsd = movable.iter().map(|index| problem.price(&state.claims[*index])).sum();
    let mut packer = Packer::new(problem, items);
    packer.pack(problem, before.0 as f64);
    let Packed { by_programme, by_prices, lean } = packer.claims(problem, &frozen);
    let mut if_cheaper = |claims: Option<Vec<Claim>>| {
        let claims = claims.filter(|claims| price_of(problem, claims) < before)?;
        Some(frozen.iter().cloned().chain(claims).collect())
    };
    Packed { by_programme: if_cheaper(by_programme), by_prices: if_cheaper(by_prices), lean }
}

impl Problem<'_> {
    /// What a claim may become that holds so much; nothing where that is nothing, or too few for minValues.
    fn types_for(&mut self, template: usize, set: SetId, total: &Amounts, ports: &[HostPort]) -> Option<Bits> {
        let types = self.templates[template].types.clone();
        self.types_among(types, template, set, total, ports)
    }

    fn types_among(
        &mut self,
        mut types: Bits,
        template: usize,
        set: SetId,
        total: &Amounts,
        ports: &[HostPort],
    ) -> Option<Bits> {
        let of = &self.templates[template];
        types.and(&self.catalogs[of.catalog].usable(set, &mut self.terms).types);
        let of = &self.templates[template];
        total.0.iter().for_each(|(resource, amount)| of.fit.keep(&mut types, *resource, *amount));
        if !ports.is_empty() && !self.daemons.is_empty() {
            types.and(&of.types_free_of(ports, &self.daemons));
        }
        let enough = short_of_min_values(set, &types, &self.catalogs[of.catalog], &self.terms).is_empty();
        (!types.is_empty() && enough).then_some(types)
    }

    /// What the pods of a claim count with in a choice by price.
    fn counted(&self, claim: &Claim) -> Amounts {
        let mut counted = Amounts::default();
        claim.pods.iter().for_each(|(pod, _)| counted.add(&self.classes[self.pods[*pod].class].counted()));
        counted
    }

    /// What a launch of the claim would cost if a node had places for any number of pods.
    fn price_without_slots(&mut self, claim: &Claim) -> MicroUsd {
        let mut counted = self.counted(claim);
        let slots = self.names.id(PODS);
        counted.0.retain(|(resource, _)| *resource != slots);
        let types = self.types_for(claim.template, claim.set, &counted, &claim.ports);
        types.map_or(MicroUsd::UNKNOWN, |types| self.price(&Claim { types, ..claim.clone() }))
    }

    /// What a launch of the claim would cost.
    pub(crate) fn price(&mut self, claim: &Claim) -> MicroUsd {
        let catalog = self.templates[claim.template].catalog;
        let order = self.catalogs[catalog].by_price(claim.set, &mut self.terms);
        let types: Vec<usize> =
            order.iter().map(|(_, kind)| *kind).filter(|kind| claim.types.contains(*kind)).collect();
        self.launch(catalog, claim.set, &types).map_or(MicroUsd::UNKNOWN, |launch| launch.price)
    }
}
