//! The ways to buy a type: a zone and a capacity type, or a reservation, at a price.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::labels::{CAPACITY_TYPE, RESERVED, ZONE};
use karpenter_core::{MicroUsd, Offering, Requirement, Requirements, Reservation};

use crate::catalogue::{CapacityClass, RegionFacts, TypeFacts};
use crate::circumstances::{Circumstances, Partition};
use crate::labels;
use crate::nodeclass::{CapacityReservation, NodeClassFacts, PlacementStrategy};
use crate::requirements::{capacity_type, truth};
use crate::texts::Texts;
use crate::zones::Zones;

/// A reservation is paid for already. This much cheaper it is as good as free, and reservations still compare by
/// what they would cost.
const RESERVED_PRICE_DIVISOR: u64 = 10_000_000;

/// Everything about a region and a node class that is the same for each of its types.
pub(crate) struct Market<'a> {
    region: &'a RegionFacts,
    class: &'a NodeClassFacts,
    zones: &'a Zones,
    circumstances: &'a Circumstances,
    reserved_capacity: bool,
    /// For each zone of the region, in order of name, its stalls in order of capacity type.
    stalls: Vec<(Arc<str>, [Stall; 2])>,
}

/// One zone and capacity type.
struct Stall {
    class: CapacityClass,
    requirements: Requirements,
    /// Neither shifted away from nor cut off by subnets or capacity type.
    open: bool,
}

impl<'a> Market<'a> {
    pub(crate) fn new(
        region: &'a RegionFacts,
        class: &'a NodeClassFacts,
        zones: &'a Zones,
        circumstances: &'a Circumstances,
        reserved_capacity: bool,
        texts: &mut Texts,
    ) -> Self {
        let mut stall = |zone: &Arc<str>, capacity: CapacityClass| Stall {
            class: capacity,
            requirements: stall_requirements(zone, capacity, zones, texts),
            open: is_open(zone, capacity, zones, circumstances),
        };
        let stalls = region
            .zones_with_offers()
            .into_iter()
            .map(|zone| {
                let both = [stall(&zone, CapacityClass::OnDemand), stall(&zone, CapacityClass::Spot)];
                (zone, both)
            })
            .collect();
        Self { region, class, zones, circumstances, reserved_capacity, stalls }
    }

    /// By zone, then capacity type. Zones without a subnet are listed too, as unavailable.
    pub(crate) fn offerings(
        &self,
        facts: &TypeFacts,
        fits: bool,
        offered: &BTreeSet<Arc<str>>,
        texts: &mut Texts,
    ) -> Vec<Offering> {
        let mut offerings = Vec::with_capacity(self.stalls.len() * 2);
        for (zone, stalls) in &self.stalls {
            let sold_here = fits && offered.contains(zone) && self.zones.with_subnets.contains_key(zone);
            for stall in stalls.iter().filter(|stall| facts.usage_classes.contains(&stall.class)) {
                let price = self.price(facts, zone, stall.class);
                let in_stock = !self.circumstances.is_out_of_stock(stall.class, &facts.name, zone);
                offerings.push(Offering {
                    requirements: stall.requirements.clone(),
                    price: price.unwrap_or_default(),
                    available: sold_here && stall.open && in_stock && price.is_some(),
                    reservation: None,
                });
            }
        }
        if self.reserved_capacity {
            let ours = self.class.capacity_reservations.iter().filter(|r| r.instance_type == facts.name);
            offerings.extend(ours.map(|reservation| self.reserved(facts, reservation, fits, offered, texts)));
            offerings.sort_by_key(|offering| (offering.zone(), offering.capacity_type()));
        }
        let mut offerings = self.in_partitions(facts, offerings, texts);
        offerings.shrink_to_fit();
        offerings
    }

    fn price(&self, facts: &TypeFacts, zone: &str, class: CapacityClass) -> Option<MicroUsd> {
        let listed = match class {
            CapacityClass::OnDemand => self.region.on_demand_price(&facts.name),
            CapacityClass::Spot => self.region.spot_price(&facts.name, zone),
            CapacityClass::CapacityBlock => None,
        };
        listed.or_else(|| self.circumstances.overlay_prices.get(&facts.name).copied())
    }

    fn reserved(
        &self,
        facts: &TypeFacts,
        reservation: &CapacityReservation,
        fits: bool,
        offered: &BTreeSet<Arc<str>>,
        texts: &mut Texts,
    ) -> Offering {
        let zone = self.zones.with_subnets.get(&reservation.zone);
        let zone_id = zone.and_then(|zone| zone.id.clone());
        let mut requirements = Requirements::new();
        let mut set = |key: &str, value: &str| {
            let (key, value) = (texts.get(key), texts.one(value));
            requirements.0.insert(key, value);
        };
        set(CAPACITY_TYPE, RESERVED);
        set(ZONE, &reservation.zone);
        set(labels::CAPACITY_RESERVATION_ID, &reservation.id);
        set(labels::CAPACITY_RESERVATION_TYPE, reservation.kind.as_str());
        set(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, truth(reservation.interruptible));
        if let Some(id) = &zone_id {
            set(labels::ZONE_ID, id);
        }
        let shifted = zone_id.is_some_and(|id| self.circumstances.shifted_zones.contains(&id));
        let on_demand = self.region.on_demand_price(&facts.name).unwrap_or_default();
        Offering {
            requirements,
            price: on_demand.fraction(1, RESERVED_PRICE_DIVISOR),
            available: fits
                && reservation.remaining > 0
                && zone.is_some()
                && offered.contains(&reservation.zone)
                && !reservation.expiring
                && !shifted,
            reservation: Some(Reservation { id: reservation.id.clone(), remaining: reservation.remaining }),
        }
    }

    /// In a partition placement group every offering is there once for each partition.
    fn in_partitions(&self, facts: &TypeFacts, offerings: Vec<Offering>, texts: &mut Texts) -> Vec<Offering> {
        let strategy = self.class.placement_group.as_ref().map(|group| group.strategy);
        let Some(PlacementStrategy::Partition { count: count @ 1.. }) = strategy else {
            return offerings;
        };
        let key = texts.get(labels::PLACEMENT_GROUP_PARTITION);
        let closed = self.circumstances.closed_partitions.get(&facts.name);
        let is_closed = |offering: &Offering, partition: &str| {
            let (Some(kind), Some(zone)) = (offering.capacity_type(), offering.zone()) else { return false };
            let of = |closed: &Partition| {
                capacity_type(closed.0) == Some(&*kind) && closed.1 == zone && *closed.2 == *partition
            };
            closed.is_some_and(|closed| closed.iter().any(of))
        };
        let mut spread = Vec::with_capacity(offerings.len() * count as usize);
        for offering in offerings {
            for partition in 1..=count {
                let mut offering = offering.clone();
                let name = partition.to_string();
                offering.available &= !is_closed(&offering, &name);
                let partition = texts.one(&name);
                offering.requirements.0.insert(key.clone(), partition);
                spread.push(offering);
            }
        }
        spread
    }
}

fn stall_requirements(zone: &str, class: CapacityClass, zones: &Zones, texts: &mut Texts) -> Requirements {
    let mut requirements = Requirements::new();
    let mut set = |key: &str, requirement: Arc<Requirement>, texts: &mut Texts| {
        requirements.0.insert(texts.get(key), requirement);
    };
    let capacity = texts.one_of(capacity_type(class));
    set(CAPACITY_TYPE, capacity, texts);
    let place = texts.one(zone);
    set(ZONE, place, texts);
    if let Some(id) = zones.with_subnets.get(zone).and_then(|zone| zone.id.as_deref()) {
        let id = texts.one(id);
        set(labels::ZONE_ID, id, texts);
    }
    for key in
        [labels::CAPACITY_RESERVATION_ID, labels::CAPACITY_RESERVATION_TYPE, labels::CAPACITY_RESERVATION_INTERRUPTIBLE]
    {
        let absent = texts.absent();
        set(key, absent, texts);
    }
    requirements
}

fn is_open(zone: &str, class: CapacityClass, zones: &Zones, circumstances: &Circumstances) -> bool {
    let reachable = zones.with_subnets.get(zone);
    let shifted =
        reachable.and_then(|zone| zone.id.as_ref()).is_some_and(|id| circumstances.shifted_zones.contains(id));
    let all_subnets_full = reachable.is_some_and(|zone| {
        !zone.subnets.is_empty() && zone.subnets.iter().all(|id| circumstances.full_subnets.contains(id))
    });
    !shifted && !all_subnets_full && !circumstances.closed_classes.contains(&class)
}

#[cfg(test)]
mod tests;
