//! What can be bought, for dashboards: every offering of every type, over all pools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use karpenter_core::MicroUsd;
use karpenter_core::labels::{RESERVED, ZONE};
use karpenter_provider::{InstanceTypes, ProviderError};

use crate::provider::Parts;
use crate::types::Market;

pub const EVERY: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferingSeries {
    pub instance_type: Arc<str>,
    pub capacity_type: Arc<str>,
    pub zone: Arc<str>,
    /// Some pool has it available.
    pub available: bool,
    /// `None` where nobody knows it.
    pub price: Option<MicroUsd>,
}

/// A type as EC2 sells it, nothing kept back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeSeries {
    pub instance_type: Arc<str>,
    pub vcpus: u32,
    pub memory_bytes: u64,
}

/// What can be bought. Whoever asks for series gets them made then: there are ten thousand, and they are asked for now and
/// then.
#[derive(Clone)]
pub struct Sold {
    lists: Vec<InstanceTypes>,
    market: Arc<Market>,
    reserved_capacity: bool,
}

impl Sold {
    pub fn offerings(&self) -> Vec<OfferingSeries> {
        offerings(&self.lists, self.reserved_capacity)
    }

    pub fn types(&self) -> Vec<TypeSeries> {
        let types = self.market.types.iter().map(|facts| TypeSeries {
            instance_type: facts.name.clone(),
            vcpus: facts.vcpus,
            memory_bytes: facts.memory_mib << 20,
        });
        types.collect()
    }
}

/// What was told last. Lists and market are shared values that are replaced, never changed, so the same ones are no news.
#[derive(Default)]
pub struct Told(Mutex<Option<(Vec<InstanceTypes>, Arc<Market>)>>);

impl Told {
    fn is_news(&self, lists: &[InstanceTypes], market: &Arc<Market>) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = last.as_ref().is_some_and(|(before, sold)| {
            let lists_are = before.len() == lists.len() && before.iter().zip(lists).all(|(a, b)| Arc::ptr_eq(a, b));
            lists_are && Arc::ptr_eq(sold, market)
        });
        if !same {
            *last = Some((lists.to_vec(), market.clone()));
        }
        !same
    }
}

/// One round over all pools. A pool that cannot be resolved hides no other.
pub async fn round(parts: &Parts, told: &Told) -> Result<Duration, ProviderError> {
    let pools = parts.objects.node_pools().await;
    let pools = pools.map_err(|error| ProviderError::new("listing NodePools", error))?;
    let mut lists: Vec<InstanceTypes> = Vec::new();
    let mut broken = Vec::new();
    for pool in pools {
        let name = pool.metadata.name.clone().unwrap_or_default();
        match parts.usable_class(&pool.spec.template.spec.node_class_ref.name).await {
            Ok(Some(class)) => match parts.class_types(&class) {
                Ok(types) => lists.push(types),
                Err(error) => broken.push(format!("{name}: {error}")),
            },
            Ok(None) => {}
            Err(error) => broken.push(format!("{name}: {error}")),
        }
    }
    // Pools of one class share one list.
    lists.sort_by_key(|list| list.as_ptr().addr());
    lists.dedup_by_key(|list| list.as_ptr().addr());
    let market = parts.types.market();
    if told.is_news(&lists, &market) {
        parts.observer.offerings(Sold { lists, market, reserved_capacity: parts.settings.ec2.reserved_capacity });
    }
    if broken.is_empty() {
        return Ok(EVERY);
    }
    Err(ProviderError::new("resolving instance types", broken.join("; ")))
}

/// By type, capacity type and zone. With reservations every type and zone has a reserved line, also where there is none.
pub fn offerings(lists: &[InstanceTypes], reserved_capacity: bool) -> Vec<OfferingSeries> {
    let mut found: BTreeMap<[Arc<str>; 3], (bool, Option<MicroUsd>)> = BTreeMap::new();
    for kind in lists.iter().flat_map(|list| list.iter()) {
        for offering in &kind.offerings {
            let (Some(bought), Some(zone)) = (offering.capacity_type(), offering.zone()) else { continue };
            let entry = found.entry([kind.name.clone(), bought, zone]).or_default();
            entry.0 |= offering.available;
            // An offering without a price is listed at nothing, and nothing is not a price.
            let price = Some(offering.price).filter(|price| price.0 > 0 || offering.reservation.is_some());
            entry.1 = match (entry.1, price) {
                (Some(held), Some(price)) => Some(held.min(price)),
                (held, price) => held.or(price),
            };
        }
        if reserved_capacity {
            let zones = kind.offerings.iter().filter_map(|offering| offering.zone());
            let of_type = kind.requirements.get(ZONE).values.into_iter();
            for zone in zones.chain(of_type) {
                found.entry([kind.name.clone(), Arc::from(RESERVED), zone]).or_default();
            }
        }
    }
    let mut series = Vec::with_capacity(found.len());
    for ([instance_type, capacity_type, zone], (available, price)) in found {
        series.push(OfferingSeries { instance_type, capacity_type, zone, available, price });
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{facts, types};

    #[test]
    fn an_offering_is_available_if_some_pool_has_it() {
        // covers: AWS-MET-01, AWS-MET-02
        let open: InstanceTypes = types(&facts(), &["m5.large"]).into();
        let mut closed = facts();
        closed.subnets.as_mut().unwrap().truncate(1);
        let closed: InstanceTypes = types(&closed, &["m5.large", "c5.large"]).into();
        let of = |lists: &[InstanceTypes], name: &str, bought: &str, zone: &str| {
            let all = offerings(lists, true);
            let found =
                all.iter().find(|one| (&*one.instance_type, &*one.capacity_type, &*one.zone) == (name, bought, zone));
            found.map(|one| (one.available, one.price.is_some()))
        };
        let both = [closed.clone(), open];
        assert_eq!(of(&both, "m5.large", "spot", "us-east-1b"), Some((true, true)));
        assert_eq!(of(std::slice::from_ref(&closed), "m5.large", "spot", "us-east-1b"), Some((false, true)));
        assert_eq!(of(&both, "c5.large", "on-demand", "us-east-1b"), Some((false, true)));
        assert_eq!(of(&both, "c5.large", "reserved", "us-east-1a"), Some((false, false)), "there is none");
        assert!(offerings(&both, false).iter().all(|one| &*one.capacity_type != "reserved"));
    }
}
