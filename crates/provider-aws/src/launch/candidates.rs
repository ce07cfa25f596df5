//! Which types a launch asks for: those that the claim allows and EC2 may have, cheapest first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::NodeClaim;
use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT, Vocabulary};
use karpenter_core::requirement::Expression;
use karpenter_core::{InstanceType, MicroUsd, Offering, Operator, Quantity, Requirement, Requirements, Resources};
use karpenter_ec2::labels as aws;
use karpenter_provider::LaunchError;

/// CreateFleet takes more, but the cheapest sixty are all it will ever choose from.
pub const MOST_TYPES: usize = 60;
/// Metal and devices cost more than pods that ask for neither need.
const DEVICES: [&str; 5] =
    ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "amd.com/gpu", "nvidia.com/gpu", "habana.ai/gaudi"];

/// What a claim asks of the machine.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub requirements: Requirements,
    pub requests: Resources,
    pub words: &'a Vocabulary,
}

impl<'a> Ask<'a> {
    /// What cannot be read allows nothing; admission refuses it before it gets here.
    pub fn of(claim: &NodeClaim, words: &'a Vocabulary) -> Self {
        let expressions: Vec<Expression> = claim
            .spec
            .requirements
            .iter()
            .map(|entry| Expression {
                key: Arc::from(entry.key.as_str()),
                operator: Operator::parse(&entry.operator).unwrap_or(Operator::DoesNotExist),
                values: entry.values().iter().map(|value| Arc::from(value.as_str())).collect(),
                min_values: entry.min_values.and_then(|count| u32::try_from(count).ok()),
            })
            .collect();
        let requests = claim.spec.resources.iter().filter_map(|resources| resources.requests.as_ref()).flatten();
        let requests = requests.filter_map(|(name, amount)| Some((name.as_str(), amount.0.parse::<Quantity>().ok()?)));
        Self { requirements: Requirements::from_expressions(&expressions, words), requests: requests.collect(), words }
    }

    fn allows(&self, other: &Requirements) -> bool {
        self.requirements.compatible(other, |key| self.words.is_well_known(key)).is_ok()
    }

    pub fn allows_offering(&self, offering: &Offering) -> bool {
        offering.available && self.allows(&offering.requirements)
    }

    pub fn allows_capacity_type(&self, capacity_type: &str) -> bool {
        self.requirements.get(CAPACITY_TYPE).allows(capacity_type)
    }

    fn has_min_values(&self) -> bool {
        self.requirements.iter().any(|(_, requirement)| requirement.min_values.is_some())
    }

    /// The same, of one capacity type.
    pub fn restricted_to(&self, capacity_type: &str) -> Self {
        let mut ask = self.clone();
        ask.requirements.0.insert(Arc::from(CAPACITY_TYPE), Requirement::one(capacity_type));
        ask
    }
}

type Filter = fn(Vec<InstanceType>, &Ask<'_>, &ListPrices) -> Vec<InstanceType>;

/// In upstream's order, under upstream's names.
const FILTERS: [(&str, Filter); 5] = [
    ("capacity-reservation-type-filter", one_kind_of_reservation),
    ("capacity-block-filter", one_capacity_block),
    ("reserved-offering-filter", one_reservation_per_zone),
    ("exotic-instance-filter", not_exotic),
    ("spot-offering-filter", not_costly_spot),
];

/// The log's word on what a filter took away; nobody compares the names where nobody reads it.
fn tell_rejected(filter: &str, before: impl Iterator<Item = Arc<str>>, left: &[InstanceType]) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let left: BTreeSet<&Arc<str>> = left.iter().map(|kind| &kind.name).collect();
    let gone: Vec<Arc<str>> = before.filter(|name| !left.contains(name)).collect();
    if gone.is_empty() {
        return;
    }
    let more = gone.len().saturating_sub(5);
    let mut names = gone.iter().take(5).map(|name| &**name).collect::<Vec<_>>().join(", ");
    if more > 0 {
        names += &format!(" and {more} other(s)");
    }
    tracing::debug!(filter, instance_types = names, "filtered out instance types from launch");
}

/// Passes the types through the filters.
pub fn candidates(
    types: &[Arc<InstanceType>],
    ask: &Ask<'_>,
    strict_min_values: bool,
) -> Result<Vec<InstanceType>, LaunchError> {
    let none_left = || LaunchError::InsufficientCapacity {
        message: "all requested instance types were unavailable during launch".to_owned(),
    };
    let mut left: Vec<InstanceType> =
        types.iter().filter(|kind| is_available(kind, ask)).map(|kind| InstanceType::clone(kind)).collect();
    tell_rejected("compatible-available-filter", types.iter().map(|kind| kind.name.clone()), &left);
    let prices = list_prices(&left);
    for (name, filter) in FILTERS {
        if left.is_empty() {
            return Err(none_left());
        }
        let before: Vec<Arc<str>> = left.iter().map(|kind| kind.name.clone()).collect();
        left = filter(left, ask, &prices);
        tell_rejected(name, before.into_iter(), &left);
    }
    if left.is_empty() {
        return Err(none_left());
    }
    let mut priced: Vec<(MicroUsd, InstanceType)> = left
        .into_iter()
        .map(|kind| {
            let price = allowed(&kind, ask).map(|offering| offering.price).min().unwrap_or(MicroUsd::UNKNOWN);
            (price, kind)
        })
        .collect();
    priced.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.name.cmp(&y.name)));
    priced.truncate(MOST_TYPES);
    let left: Vec<InstanceType> = priced.into_iter().map(|(_, kind)| kind).collect();
    if let Some(key) = unmet_min_values(&left, ask).filter(|_| strict_min_values) {
        let message = format!("the {MOST_TYPES} cheapest instance types do not keep minValues of {key}");
        return Err(LaunchError::InsufficientCapacity { message });
    }
    Ok(left)
}

/// What types cost on demand, whether that can be had or not. Reserved offerings cost so little that their prices are
/// all the same in millionths of a dollar; among them the one that would cost less is the cheaper.
type ListPrices = BTreeMap<Arc<str>, MicroUsd>;

fn list_prices(types: &[InstanceType]) -> ListPrices {
    let price = |kind: &InstanceType| {
        let on_demand = kind.offerings.iter().filter(|offering| is_of(offering, ON_DEMAND) && offering.price.0 > 0);
        on_demand.map(|offering| offering.price).min()
    };
    types.iter().filter_map(|kind| Some((kind.name.clone(), price(kind)?))).collect()
}

fn is_available(kind: &InstanceType, ask: &Ask<'_>) -> bool {
    // A claim names the few types it may be: most others need no second look.
    ask.requirements.0.get(INSTANCE_TYPE).is_none_or(|named| named.allows(&kind.name))
        && ask.allows(&kind.requirements)
        && kind.offerings.iter().any(|offering| ask.allows_offering(offering))
        && ask.requests.fits(&kind.allocatable())
}

fn allowed<'a>(kind: &'a InstanceType, ask: &'a Ask<'_>) -> impl Iterator<Item = &'a Offering> {
    kind.offerings.iter().filter(|offering| ask.allows_offering(offering))
}

fn value(offering: &Offering, key: &str) -> Option<Arc<str>> {
    let requirement = offering.requirements.0.get(key)?;
    requirement.values.first().filter(|_| !requirement.open).cloned()
}

fn is_of(offering: &Offering, capacity_type: &str) -> bool {
    offering.capacity_type().as_deref() == Some(capacity_type)
}

/// In the order in which equally cheap ones are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservationGroup {
    Default,
    CapacityBlock,
    Interruptible,
}

pub fn reservation_group(offering: &Offering) -> Option<ReservationGroup> {
    if !is_of(offering, RESERVED) {
        return None;
    }
    let interruptible = value(offering, aws::CAPACITY_RESERVATION_INTERRUPTIBLE).as_deref() == Some("true");
    match value(offering, aws::CAPACITY_RESERVATION_TYPE).as_deref() {
        Some("capacity-block") => Some(ReservationGroup::CapacityBlock),
        _ if interruptible => Some(ReservationGroup::Interruptible),
        _ => Some(ReservationGroup::Default),
    }
}

/// A fleet buys one way only, so of the kinds of reservation the one with the cheapest offering remains.
fn one_kind_of_reservation(types: Vec<InstanceType>, ask: &Ask<'_>, prices: &ListPrices) -> Vec<InstanceType> {
    if !ask.allows_capacity_type(RESERVED) {
        return types;
    }
    let groups = types.iter().flat_map(|kind| {
        let listed = prices.get(&kind.name).copied().unwrap_or_default();
        allowed(kind, ask).filter_map(move |o| Some((o.price, listed, reservation_group(o)?)))
    });
    let Some((.., winner)) = groups.min() else { return types };
    let mut kept = Vec::new();
    for mut kind in types {
        if allowed(&kind, ask).any(|offering| reservation_group(offering) == Some(winner)) {
            kind.offerings.retain(|offering| reservation_group(offering) == Some(winner));
            kept.push(kind);
        }
    }
    kept
}

/// A fleet takes a single capacity block: the cheapest.
fn one_capacity_block(types: Vec<InstanceType>, ask: &Ask<'_>, prices: &ListPrices) -> Vec<InstanceType> {
    let of_block = |offering: &Offering| reservation_group(offering) == Some(ReservationGroup::CapacityBlock);
    let blocks = types.iter().flat_map(|kind| {
        let listed = prices.get(&kind.name).copied().unwrap_or_default();
        let blocks = allowed(kind, ask).filter(|offering| of_block(offering));
        blocks.map(move |o| ((o.price, listed), kind.name.clone(), o.clone()))
    });
    let cheapest = blocks.min_by(|(a, x, o), (b, y, p)| {
        let id = |offering: &Offering| value(offering, aws::CAPACITY_RESERVATION_ID);
        a.cmp(b).then_with(|| x.cmp(y)).then_with(|| id(o).cmp(&id(p)))
    });
    let Some((_, name, block)) = cheapest.filter(|_| ask.allows_capacity_type(RESERVED)) else { return types };
    let chosen = types.into_iter().filter(|kind| kind.name == name);
    chosen.map(|kind| InstanceType { offerings: vec![block.clone()], ..kind }).collect()
}

/// A fleet knows a pool once, so of several reservations in a zone the one with most room remains.
fn one_reservation_per_zone(types: Vec<InstanceType>, ask: &Ask<'_>, _: &ListPrices) -> Vec<InstanceType> {
    if !ask.allows_capacity_type(RESERVED) {
        return types;
    }
    let mut kept = Vec::new();
    for kind in &types {
        let mut by_zone: BTreeMap<Option<Arc<str>>, &Offering> = BTreeMap::new();
        let room = |offering: &Offering| offering.reservation.as_ref().map_or(0, |reservation| reservation.remaining);
        for offering in allowed(kind, ask).filter(|offering| is_of(offering, RESERVED)) {
            let held = by_zone.entry(offering.zone()).or_insert(offering);
            if room(offering) > room(held) {
                *held = offering;
            }
        }
        if !by_zone.is_empty() {
            let offerings = by_zone.into_values().cloned().collect();
            kept.push(InstanceType { offerings, ..kind.clone() });
        }
    }
    if kept.is_empty() { types } else { kept }
}

fn not_exotic(types: Vec<InstanceType>, ask: &Ask<'_>, _: &ListPrices) -> Vec<InstanceType> {
    if ask.has_min_values() {
        return types;
    }
    let plain = |kind: &InstanceType| {
        let metal = kind.requirements.get(aws::SIZE).values.iter().any(|size| size.contains("metal"));
        !metal && DEVICES.iter().all(|device| kind.capacity.get(device).is_zero())
    };
    if types.iter().any(plain) { types.into_iter().filter(plain).collect() } else { types }
}

/// Spot that is dearer than on-demand has only drawbacks.
fn not_costly_spot(types: Vec<InstanceType>, ask: &Ask<'_>, _: &ListPrices) -> Vec<InstanceType> {
    let mixed = ask.allows_capacity_type(SPOT) && ask.allows_capacity_type(ON_DEMAND);
    let of = |capacity_type: &'static str| {
        let all = types.iter().flat_map(|kind| allowed(kind, ask));
        all.filter(move |offering| is_of(offering, capacity_type)).map(|offering| offering.price).min()
    };
    let (Some(on_demand), Some(_)) = (of(ON_DEMAND), of(SPOT)) else { return types };
    if !mixed || ask.has_min_values() {
        return types;
    }
    let mut kept = Vec::new();
    for mut kind in types {
        kind.offerings.retain(|offering| !is_of(offering, SPOT) || offering.price <= on_demand);
        if !kind.offerings.is_empty() {
            kept.push(kind);
        }
    }
    kept
}

/// The first key of which the types have too few values.
fn unmet_min_values<'a>(types: &[InstanceType], ask: &'a Ask<'_>) -> Option<&'a str> {
    ask.requirements.iter().find_map(|(key, requirement)| {
        let least = requirement.min_values?;
        let values: BTreeSet<Arc<str>> = types
            .iter()
            .flat_map(|kind| kind.requirements.get(key).values.into_iter())
            .filter(|value| requirement.allows(value))
            .collect();
        (values.len() < least as usize).then_some(key)
    })
}

/// Reserved before spot before on-demand, as far as allowed and to be had.
pub fn capacity_type(types: &[InstanceType], ask: &Ask<'_>) -> &'static str {
    [RESERVED, SPOT]
        .into_iter()
        .find(|capacity_type| {
            let restricted = ask.restricted_to(capacity_type);
            ask.allows_capacity_type(capacity_type)
                && types.iter().any(|kind| allowed(kind, &restricted).next().is_some())
        })
        .unwrap_or(ON_DEMAND)
}

pub fn tenancy(ask: &Ask<'_>) -> &'static str {
    let requirement = ask.requirements.get(aws::TENANCY);
    aws::TENANCIES.into_iter().find(|tenancy| requirement.allows(tenancy)).unwrap_or("default")
}

#[cfg(test)]
mod tests;
