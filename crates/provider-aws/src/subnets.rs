//! Subnets: which ones a node class means, and which one of a zone a launch uses.
//!
//! EC2 tells free addresses only when asked, and a burst of launches spends them before anybody asks again. So what
//! launches under way will use is taken off beforehand, and given back where a fleet went elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;
use karpenter_core::labels::{CAPACITY_TYPE, ZONE};
use karpenter_core::resources::PODS;
use karpenter_core::{InstanceType, Requirement, Requirements};

use crate::calls::{Aws, CreateFleet, Filter, FleetAnswer, Result, Subnet};
use crate::node_class::{ClassKey, class_key};
use crate::ttl::{Ttl, later};

const PAGE: u32 = 500;

pub struct Subnets {
    aws: Aws,
    cache: Ttl<ClassKey, Vec<Subnet>>,
    tracked: Mutex<Tracked>,
    /// How long a free address count is believed.
    life: Duration,
}

#[derive(Default)]
struct Tracked {
    /// As EC2 last told, and until when that counts.
    free: BTreeMap<String, (Timestamp, i64)>,
    /// Of subnets that launches were aimed at since: what is left after them.
    left: BTreeMap<String, i64>,
}

/// The subnet of a zone that a launch uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonalSubnet {
    pub id: String,
    pub zone: String,
    pub zone_id: Option<String>,
    /// As EC2 told when the choice was made.
    free: i64,
    /// Addresses taken off beforehand.
    taken: i64,
}

impl Subnets {
    pub fn new(aws: Aws, refresh: Duration) -> Self {
        let life = Duration::from_secs(300).max(refresh + Duration::from_secs(240));
        Self { aws, cache: Ttl::new(refresh), tracked: Mutex::default(), life }
    }

    /// Most free addresses first, then by id.
    pub async fn list(&self, class: &EC2NodeClass, now: Timestamp) -> Result<Vec<Subnet>> {
        if let Some(subnets) = self.cache.get(&class_key(class), now) {
            return Ok(subnets);
        }
        let mut found: BTreeMap<String, Subnet> = BTreeMap::new();
        for filters in queries(class) {
            for subnet in self.aws.ec2.describe_subnets(&filters, PAGE).await? {
                found.insert(subnet.id.clone(), subnet);
            }
        }
        let mut tracked = self.lock();
        for subnet in found.values() {
            tracked.free.insert(subnet.id.clone(), (later(now, self.life), subnet.free_addresses));
            tracked.left.remove(&subnet.id);
        }
        drop(tracked);
        let mut subnets: Vec<Subnet> = found.into_values().collect();
        subnets.sort_by(|a, b| b.free_addresses.cmp(&a.free_addresses).then_with(|| a.id.cmp(&b.id)));
        self.cache.set(class_key(class), subnets.clone(), now);
        Ok(subnets)
    }

    /// For each zone the subnet of the status with most addresses left; the launch's share is taken off at once.
    pub fn choose(
        &self,
        class: &EC2NodeClass,
        types: &[InstanceType],
        capacity_type: &str,
        now: Timestamp,
    ) -> BTreeMap<String, ZonalSubnet> {
        let mut tracked = self.lock();
        let mut chosen: BTreeMap<String, ZonalSubnet> = BTreeMap::new();
        for subnet in class.status.iter().filter_map(|status| status.subnets.as_ref()).flatten() {
            let free = tracked.free.get(&subnet.id).filter(|(until, _)| now < *until).map_or(0, |(_, free)| *free);
            let left = |id: &str, free: i64| tracked.left.get(id).copied().unwrap_or(free);
            let better = chosen.get(&subnet.zone).is_none_or(|held| left(&subnet.id, free) > left(&held.id, held.free));
            if better {
                let zone_id = subnet.zone_id.clone().filter(|id| !id.is_empty());
                let subnet = ZonalSubnet { id: subnet.id.clone(), zone: subnet.zone.clone(), zone_id, free, taken: 0 };
                chosen.insert(subnet.zone.clone(), subnet);
            }
        }
        for subnet in chosen.values_mut() {
            subnet.taken = fewest_pods(types, capacity_type, &subnet.zone);
            let left = tracked.left.get(&subnet.id).copied().unwrap_or(subnet.free);
            tracked.left.insert(subnet.id.clone(), left - subnet.taken);
        }
        chosen
    }

    /// What the fleet was offered and did not use is free again, unless EC2 was asked in the meantime.
    pub fn give_back(
        &self,
        request: &CreateFleet,
        answer: Option<&FleetAnswer>,
        chosen: &BTreeMap<String, ZonalSubnet>,
    ) {
        let offered: BTreeSet<&str> =
            request.configs.iter().flat_map(|config| &config.overrides).map(|o| o.subnet_id.as_str()).collect();
        let used: BTreeSet<&str> = answer
            .iter()
            .flat_map(|answer| &answer.instances)
            .filter_map(|instances| instances.subnet_id.as_deref())
            .collect();
        let mut tracked = self.lock();
        for subnet in chosen.values().filter(|s| offered.contains(s.id.as_str()) && !used.contains(s.id.as_str())) {
            let unchanged = tracked.free.get(&subnet.id).is_some_and(|(_, free)| *free == subnet.free);
            if let Some(left) = tracked.left.get_mut(&subnet.id).filter(|_| unchanged) {
                *left += subnet.taken;
            }
        }
    }

    /// EC2 says that it has no address left.
    pub fn exhausted(&self, id: &str, now: Timestamp) {
        let mut tracked = self.lock();
        tracked.free.insert(id.to_owned(), (later(now, self.life), 0));
        tracked.left.remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, Tracked> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All ids in one query, each tag term in one of its own; a term with an id is about the id alone.
fn queries(class: &EC2NodeClass) -> Vec<Vec<Filter>> {
    let terms = &class.spec.subnet_selector_terms;
    let id = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
    let by_tags = terms.iter().filter(|term| id(&term.id).is_none());
    let mut queries: Vec<Vec<Filter>> = by_tags
        .map(|term| term.tags.iter().flatten().map(|(key, value)| Filter::tag(key, value)).collect::<Vec<_>>())
        .filter(|filters| !filters.is_empty())
        .collect();
    let ids: Vec<String> = terms.iter().filter_map(|term| id(&term.id)).collect();
    if !ids.is_empty() {
        queries.push(vec![Filter::new("subnet-id", ids)]);
    }
    queries
}

/// An instance needs an address for each pod it can run; which type it becomes is not known, so the least counts.
fn fewest_pods(types: &[InstanceType], capacity_type: &str, zone: &str) -> i64 {
    let mut asked = Requirements::new();
    asked.add(CAPACITY_TYPE, Requirement::one(capacity_type));
    asked.add(ZONE, Requirement::one(zone));
    let sold = |kind: &&InstanceType| kind.offerings.iter().any(|o| o.available && o.requirements.overlaps(&asked));
    types.iter().filter(sold).map(|kind| kind.capacity.get(PODS).units()).min().unwrap_or(0)
}

#[cfg(test)]
mod tests;
