//! What people say about instance types that the cloud does not know: NodeOverlays change prices and add capacity, pool by
//! pool.
//!
//! ```text
//!   overlays, by precedence ──▶ evaluate ──▶ a verdict for each, and those that hold: Accepted
//!                                                     │
//!   a pool's instance types ──────────────────────────┴──▶ apply ──▶ the types as the pool shall see them
//! ```
//!
//! An overlay holds everywhere or nowhere: one that contradicts another of its weight on any type of any pool is left out
//! whole. What holds is matched anew whenever it is applied, so offerings that appear in between are covered too.

mod overlaid;
mod store;

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::requirement::NodeSelectorRequirement;
use karpenter_api::{NodeOverlay, NodePool, labels, validation};
use karpenter_core::labels::{INSTANCE_TYPE, Vocabulary};
use karpenter_core::requirement::Expression;
use karpenter_core::{InstanceType, MicroUsd, Offering, Operator, Requirement, Requirements, Resources};

use crate::InstanceTypes;

pub use overlaid::Overlaid;
pub use store::{Marks, Store};

/// What became of an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Valid,
    /// It cannot be understood.
    Invalid(String),
    /// Another of the same weight says something about the same price or resource.
    Conflict,
}

/// An overlay that holds.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    name: String,
    weight: i32,
    requirements: Requirements,
    price: Option<PriceChange>,
    capacity: Resources,
}

/// The overlays that hold, heaviest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accepted {
    held: Vec<Held>,
    /// By type: see [`Accepted::named_prices`].
    named: BTreeMap<Arc<str>, MicroUsd>,
}

/// Judges all overlays against the unchanged types of all pools.
pub fn evaluate(
    overlays: &[Arc<NodeOverlay>],
    pools: &[(Arc<NodePool>, InstanceTypes)],
    words: &Vocabulary,
) -> (Vec<(String, Standing)>, Accepted) {
    let mut ordered: Vec<&NodeOverlay> = overlays.iter().map(|overlay| &**overlay).collect();
    ordered.sort_by(|a, b| a.precedence(b));
    let mut accepted = Accepted::default();
    let mut standings = Vec::with_capacity(ordered.len());
    for overlay in ordered {
        let name = overlay.metadata.name.clone().unwrap_or_default();
        let standing = match Held::read(overlay, words) {
            Err(why) => Standing::Invalid(why),
            Ok(candidate) if accepted.contradicts(&candidate, pools, words) => Standing::Conflict,
            Ok(candidate) => {
                for (kind, price) in named_prices(overlay, &candidate) {
                    accepted.named.entry(kind).or_insert(price);
                }
                accepted.held.push(candidate);
                Standing::Valid
            }
        };
        standings.push((name, standing));
    }
    (standings, accepted)
}

impl Accepted {
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The types as the pool shall see them. Types that nothing is said about are the very same.
    pub fn apply(&self, pool: &NodePool, types: &InstanceTypes, words: &Vocabulary) -> InstanceTypes {
        if self.is_empty() {
            return types.clone();
        }
        let of_pool = pool_requirements(pool, words);
        let changed = types.iter().map(|kind| match self.applied(&of_pool, kind) {
            Some((changed, _)) => changed,
            None => kind.clone(),
        });
        changed.collect::<Vec<_>>().into()
    }

    /// Prices that overlays give to types by their names and nothing else. They are all there is for a type that has no
    /// public price, such as one in preview.
    pub fn named_prices(&self) -> &BTreeMap<Arc<str>, MicroUsd> {
        &self.named
    }

    fn applied(&self, of_pool: &Requirements, kind: &InstanceType) -> Option<(Arc<InstanceType>, Marks)> {
        let matching: Vec<(&Held, Vec<usize>)> = self
            .held
            .iter()
            .map(|held| (held, held.matched(of_pool, kind).collect::<Vec<_>>()))
            .filter(|(_, offerings)| !offerings.is_empty())
            .collect();
        if matching.is_empty() {
            return None;
        }
        let mut changed = kind.clone();
        let mut priced = vec![false; kind.offerings.len()];
        let mut marks = Marks::default();
        for (held, offerings) in matching {
            marks.price |= held.price.is_some();
            marks.capacity |= !held.capacity.0.is_empty();
            for (name, quantity) in held.capacity.iter() {
                // The heaviest that names a resource has its way; a resource of the type itself is replaced.
                let named_before =
                    self.held.iter().take_while(|other| other.name != held.name).any(|other| {
                        other.capacity.0.contains_key(name) && other.matched(of_pool, kind).next().is_some()
                    });
                if !named_before {
                    changed.capacity.set(name, quantity);
                }
            }
            let Some(price) = held.price else { continue };
            for at in offerings {
                if !std::mem::replace(&mut priced[at], true) {
                    changed.offerings[at].price = price.of(kind.offerings[at].price);
                }
            }
        }
        Some((Arc::new(changed), marks))
    }

    /// Whether the candidate says something that one of its weight has said already, be it the same.
    fn contradicts(&self, candidate: &Held, pools: &[(Arc<NodePool>, InstanceTypes)], words: &Vocabulary) -> bool {
        let equals: Vec<&Held> = self.held.iter().filter(|held| held.weight == candidate.weight).collect();
        let rivals: Vec<(&Held, bool, bool)> = equals
            .into_iter()
            .map(|held| {
                let both_capacities = held.capacity.iter().any(|(name, _)| candidate.capacity.0.contains_key(name));
                (held, held.price.is_some() && candidate.price.is_some(), both_capacities)
            })
            .filter(|(_, prices, capacities)| *prices || *capacities)
            .collect();
        if rivals.is_empty() {
            return false;
        }
        pools.iter().any(|(pool, types)| {
            let of_pool = pool_requirements(pool, words);
            types.iter().any(|kind| {
                let mine: Vec<usize> = candidate.matched(&of_pool, kind).collect();
                !mine.is_empty()
                    && rivals.iter().any(|(rival, prices, capacities)| {
                        let theirs: Vec<usize> = rival.matched(&of_pool, kind).collect();
                        (*capacities && !theirs.is_empty()) || (*prices && theirs.iter().any(|at| mine.contains(at)))
                    })
            })
        })
    }
}

impl Held {
    fn read(overlay: &NodeOverlay, words: &Vocabulary) -> Result<Self, String> {
        let faults = validation::runtime::nodeoverlay(overlay);
        if !faults.is_empty() {
            return Err(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        }
        let spec = &overlay.spec;
        let price = match (&spec.price, &spec.price_adjustment) {
            (Some(text), _) => Some(PriceChange::price(text)?),
            (None, Some(text)) => Some(PriceChange::adjustment(text)?),
            (None, None) => None,
        };
        let mut capacity = Resources::new();
        for (name, quantity) in spec.capacity.iter().flatten() {
            let quantity =
                quantity.0.parse().map_err(|_| format!("spec.capacity[{name}]: {:?} is no quantity", quantity.0))?;
            capacity.set(name, quantity);
        }
        let expressions: Vec<Expression> = spec.requirements.iter().map(expression).collect();
        Ok(Self {
            name: overlay.metadata.name.clone().unwrap_or_default(),
            weight: spec.weight.unwrap_or(0),
            requirements: Requirements::from_expressions(&expressions, words),
            price,
            capacity,
        })
    }

    /// Positions of the offerings it means. None: it does not mean the type at all.
    fn matched<'a>(&'a self, of_pool: &Requirements, kind: &'a InstanceType) -> impl Iterator<Item = usize> + 'a {
        let mut known = of_pool.clone();
        known.add_all(&kind.requirements);
        let meant = known.compatible(&self.requirements, |_| false).is_ok();
        let offered = |offering: &Offering| offering.requirements.overlaps(&self.requirements);
        let offerings = kind.offerings.iter().enumerate().filter(move |_| meant);
        offerings.filter(move |(_, offering)| offered(offering)).map(|(at, _)| at)
    }
}

/// The types that an overlay with a price names outright.
fn named_prices(overlay: &NodeOverlay, held: &Held) -> Vec<(Arc<str>, MicroUsd)> {
    let (Some(PriceChange::To(price)), [named]) = (held.price, &*overlay.spec.requirements) else { return Vec::new() };
    if named.key != INSTANCE_TYPE || Operator::parse(&named.operator) != Some(Operator::In) {
        return Vec::new();
    }
    named.values().iter().map(|kind| (Arc::from(kind.as_str()), price)).collect()
}

fn expression(given: &NodeSelectorRequirement) -> Expression {
    Expression {
        key: Arc::from(given.key.as_str()),
        operator: Operator::parse(&given.operator).unwrap_or(Operator::DoesNotExist),
        values: given.values().iter().map(|value| Arc::from(value.as_str())).collect(),
        min_values: None,
    }
}

/// What every node of the pool has beside its type's own labels. For matching only.
fn pool_requirements(pool: &NodePool, words: &Vocabulary) -> Requirements {
    let mut requirements = Requirements::new();
    for (key, value) in pool.spec.template.labels() {
        requirements.add(words.normalize(key), Requirement::one(value));
    }
    requirements.add(labels::NODEPOOL, Requirement::one(pool.metadata.name.as_deref().unwrap_or_default()));
    requirements
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum PriceChange {
    To(MicroUsd),
    /// Dollars.
    By(f64),
    /// Percent.
    ByShare(f64),
}

impl PriceChange {
    fn price(text: &str) -> Result<Self, String> {
        let dollars = text.parse().ok().and_then(MicroUsd::from_dollars);
        dollars.map(Self::To).ok_or_else(|| format!("spec.price: {text:?} is no price"))
    }

    fn adjustment(text: &str) -> Result<Self, String> {
        let (number, share) = text.strip_suffix('%').map_or((text, false), |number| (number, true));
        let number: f64 =
            number.parse().map_err(|_| format!("spec.priceAdjustment: {text:?} is no signed amount or percentage"))?;
        Ok(if share { Self::ByShare(number) } else { Self::By(number) })
    }

    fn of(self, price: MicroUsd) -> MicroUsd {
        let dollars = match self {
            Self::To(price) => return price,
            Self::By(dollars) => price.dollars() + dollars,
            Self::ByShare(percent) => price.dollars() * (1.0 + percent / 100.0),
        };
        MicroUsd::from_dollars(dollars.max(0.0)).unwrap_or(price)
    }
}

#[cfg(test)]
mod tests;
