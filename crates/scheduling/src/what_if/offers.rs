//! What a new node of an answer may become, at which prices, and the plan's node made of what is left of that.

use std::sync::Arc;

use karpenter_core::MicroUsd;
use karpenter_core::labels::{CAPACITY_TYPE, CAPACITY_TYPES, SPOT};
use karpenter_core::plan::{Launch, NewNode};

use super::WhatIf;
use crate::bits::Bits;
use crate::state::Claim;
use crate::template::short_of_min_values;
use crate::terms::SetId;

/// One type a new node may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// In the pool's `instance_types`.
    pub kind: usize,
    /// The cheapest way to buy it.
    pub cheapest: MicroUsd,
    /// The dearest of what a launch may get: within the first of reserved, spot and on-demand that sells it at all.
    pub worst: MicroUsd,
}

/// What is asked of a new node beyond what its pods ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrowing {
    None,
    /// Spot or nothing.
    Spot,
}

impl WhatIf<'_> {
    fn claim(&self, new: usize) -> &Claim {
        &self.state.claims[self.state.settled + new]
    }

    fn narrowed(&mut self, new: usize, narrowing: Narrowing) -> Option<SetId> {
        let set = match self.is_reserved(new) {
            false => self.claim(new).set,
            true => {
                let claim = self.claim(new).clone();
                self.problem.final_set(&claim)
            }
        };
        match narrowing {
            Narrowing::None => Some(set),
            Narrowing::Spot => {
                let (key, spot) = (self.problem.terms.key(CAPACITY_TYPE), self.problem.terms.one(SPOT));
                let only = self.problem.terms.single(key, spot);
                self.problem.terms.join(set, only)
            }
        }
    }

    /// In `World::pools`.
    pub fn pool_of(&self, new: usize) -> usize {
        self.problem.templates[self.claim(new).template].pool
    }

    /// Whether a new node may be bought as this capacity type at all.
    pub fn allows_capacity_type(&mut self, new: usize, capacity_type: &str) -> bool {
        let set = self.claim(new).set;
        let key = self.problem.terms.key(CAPACITY_TYPE);
        let asked = self.problem.terms.get(set, key);
        asked.is_none_or(|req| self.problem.terms.requirement(req).allows(capacity_type))
    }

    /// The reservations a new node would launch into.
    pub fn is_reserved(&self, new: usize) -> bool {
        !self.claim(new).reserved.is_empty()
    }

    /// The types a new node may become, cheapest first, equal prices by name.
    pub fn offers(&mut self, new: usize, narrowing: Narrowing) -> Vec<Offer> {
        let Some(set) = self.narrowed(new, narrowing) else { return Vec::new() };
        let all = self.all_offers(self.problem.templates[self.claim(new).template].catalog, set);
        let types = &self.claim(new).types;
        all.iter().filter(|offer| types.contains(offer.kind)).copied().collect()
    }

    /// The least that the dearest way to buy any of its types costs. Offers come by their cheapest way, so few are looked
    /// at: whoever asks this most often wants to hear that nothing is cheaper.
    pub fn least_worst(&mut self, new: usize, narrowing: Narrowing) -> Option<MicroUsd> {
        let set = self.narrowed(new, narrowing)?;
        let all = self.all_offers(self.problem.templates[self.claim(new).template].catalog, set);
        let types = &self.claim(new).types;
        let mut least: Option<MicroUsd> = None;
        for offer in all.iter() {
            if least.is_some_and(|least| least <= offer.cheapest) {
                break;
            }
            if types.contains(offer.kind) {
                least = Some(least.map_or(offer.worst, |least| least.min(offer.worst)));
            }
        }
        least
    }

    fn all_offers(&mut self, catalog: usize, set: SetId) -> Arc<[Offer]> {
        if let Some(known) = self.offers.get(&(catalog, set)) {
            return known.clone();
        }
        let problem = &mut self.problem;
        let order = problem.catalogs[catalog].by_price(set, &mut problem.terms);
        let usable = problem.catalogs[catalog].usable(set, &mut problem.terms);
        let of = &problem.catalogs[catalog];
        let worst = |kind: usize| {
            for capacity_type in CAPACITY_TYPES {
                let profiles = usable.profiles.iter().map(|at| &of.profiles[*at]);
                let sold = profiles.filter(|profile| {
                    profile.capacity_type.as_deref() == Some(capacity_type) && profile.available.contains(kind)
                });
                if let Some(price) = sold.map(|profile| profile.prices[kind]).max() {
                    return price;
                }
            }
            MicroUsd::UNKNOWN
        };
        let offers =
            order.iter().map(|(cheapest, kind)| Offer { kind: *kind, cheapest: *cheapest, worst: worst(*kind) });
        let offers: Arc<[Offer]> = offers.collect();
        self.offers.insert((catalog, set), offers.clone());
        offers
    }

    /// Keys whose `minValues` these types do not reach. Strictly, whatever the policy: what is replaced may stay.
    pub fn short_of_min_values(&mut self, new: usize, narrowing: Narrowing, kinds: &[usize]) -> Vec<Arc<str>> {
        let Some(set) = self.narrowed(new, narrowing) else { return Vec::new() };
        let catalog = self.problem.templates[self.claim(new).template].catalog;
        let types: Bits = kinds.iter().copied().collect();
        let short = short_of_min_values(set, &types, &self.problem.catalogs[catalog], &self.problem.terms);
        short.into_iter().map(|(key, _)| self.problem.terms.key_name(key).clone()).collect()
    }

    pub fn has_min_values(&self, new: usize) -> bool {
        let entries = self.problem.terms.entries(self.claim(new).set);
        entries.iter().any(|(_, req)| self.problem.terms.requirement(*req).min_values.is_some())
    }

    /// What a launch is expected to get for a new node that may become these types only; nothing where they do not reach
    /// `minValues`.
    pub fn expected(&mut self, new: usize, narrowing: Narrowing, kinds: &[usize]) -> Option<Launch> {
        let set = self.narrowed(new, narrowing)?;
        let claim = Claim { set, types: kinds.iter().copied().collect(), ..self.claim(new).clone() };
        self.problem.expected_launch(&claim)
    }

    /// What a launch is expected to get for a new node with these types, cheapest first.
    pub fn launch(&mut self, new: usize, narrowing: Narrowing, kinds: &[usize]) -> Option<Launch> {
        let set = self.narrowed(new, narrowing)?;
        let catalog = self.problem.templates[self.claim(new).template].catalog;
        self.problem.launch(catalog, set, kinds)
    }

    /// The new node as a plan has it, with only these types; nothing where they cannot be launched.
    pub fn new_node(&mut self, new: usize, narrowing: Narrowing, kinds: &[usize]) -> Option<NewNode> {
        let set = self.narrowed(new, narrowing)?;
        let claim = Claim { set, types: kinds.iter().copied().collect(), ..self.claim(new).clone() };
        self.problem.new_nodes(&[claim]).0.pop()
    }
}
