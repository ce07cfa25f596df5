//! What EC2 just refused: pools, capacity types and subnets that are not asked for again for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_ec2::Circumstances;
use karpenter_ec2::catalogue::CapacityClass;

use crate::ttl::later;

/// Long enough for EC2 to find capacity, short enough not to miss it.
pub const LIFE: Duration = Duration::from_secs(180);
pub const SWEEP: Duration = Duration::from_secs(10);

/// The placement group a refusal was for; a refusal outside any counts inside all of them too.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    pub placement_group: Option<String>,
    pub partition: Option<String>,
}

type Pool = (String, CapacityClass, String, Scope);

#[derive(Debug, Default)]
pub struct Unavailable {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Instance type, capacity type, zone, scope; until when.
    pools: BTreeMap<Pool, Timestamp>,
    classes: BTreeMap<CapacityClass, Timestamp>,
    subnets: BTreeMap<String, Timestamp>,
    changes: u64,
}

impl Unavailable {
    pub fn mark_pool(&self, class: CapacityClass, instance_type: &str, zone: &str, scope: &Scope, now: Timestamp) {
        let mut state = self.lock();
        let key = (instance_type.to_owned(), class, zone.to_owned(), scope.clone());
        state.pools.insert(key, later(now, LIFE));
        state.changes += 1;
    }

    /// Everything of a capacity type, as when spot cannot be bought at all.
    pub fn mark_class(&self, class: CapacityClass, now: Timestamp) {
        let mut state = self.lock();
        state.classes.insert(class, later(now, LIFE));
        state.changes += 1;
    }

    pub fn mark_subnet(&self, id: &str, now: Timestamp) {
        let mut state = self.lock();
        state.subnets.insert(id.to_owned(), later(now, LIFE));
        state.changes += 1;
    }

    /// Forgets what has had its time. Answers a number that is another one after every change.
    pub fn changes(&self, now: Timestamp) -> u64 {
        let mut state = self.lock();
        let before = state.pools.len() + state.classes.len() + state.subnets.len();
        state.pools.retain(|_, until| now < *until);
        state.classes.retain(|_, until| now < *until);
        state.subnets.retain(|_, until| now < *until);
        let gone = before - (state.pools.len() + state.classes.len() + state.subnets.len());
        state.changes += u64::from(gone > 0);
        state.changes
    }

    /// Adds what is refused now to what else is known; `group` is the placement group whose node class is looked at.
    pub fn add_to(&self, circumstances: &mut Circumstances, group: Option<&str>, now: Timestamp) {
        let state = self.lock();
        let alive = |until: &Timestamp| now < *until;
        for ((instance_type, class, zone, scope), until) in &state.pools {
            let concerns = scope.placement_group.as_deref().is_none_or(|id| Some(id) == group);
            if !alive(until) || !concerns {
                continue;
            }
            let (name, zone): (Arc<str>, Arc<str>) = (Arc::from(instance_type.as_str()), Arc::from(zone.as_str()));
            // A refusal for one partition closes that one only.
            match &scope.partition {
                None => {
                    circumstances.out_of_stock.entry(name).or_default().insert((*class, zone));
                }
                Some(partition) => {
                    let closed = circumstances.closed_partitions.entry(name).or_default();
                    closed.insert((*class, zone, Arc::from(partition.as_str())));
                }
            }
        }
        circumstances.closed_classes.extend(state.classes.iter().filter(|(_, u)| alive(u)).map(|(class, _)| *class));
        let subnets: BTreeSet<Arc<str>> =
            state.subnets.iter().filter(|(_, until)| alive(until)).map(|(id, _)| Arc::from(id.as_str())).collect();
        circumstances.full_subnets.extend(subnets);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn seen(unavailable: &Unavailable, group: Option<&str>, now: i64) -> (usize, usize, usize) {
        let mut found = Circumstances::default();
        unavailable.add_to(&mut found, group, at(now));
        let pools = found.out_of_stock.values().map(BTreeSet::len).sum();
        (pools, found.closed_classes.len(), found.full_subnets.len())
    }

    #[test]
    fn refusals_are_remembered_for_three_minutes() {
        // covers: AWS-OFF-07, AWS-OFF-08, AWS-OFF-09, AWS-OFF-11
        let unavailable = Unavailable::default();
        let scope = Scope::default();
        let start = unavailable.changes(at(0));
        unavailable.mark_pool(CapacityClass::Spot, "m5.large", "a", &scope, at(0));
        unavailable.mark_class(CapacityClass::Spot, at(0));
        unavailable.mark_subnet("subnet-1", at(0));
        assert_eq!(seen(&unavailable, None, 179), (1, 1, 1));
        let marked = unavailable.changes(at(100));
        assert_ne!(start, marked);
        assert_eq!(marked, unavailable.changes(at(179)), "nothing changed");
        unavailable.mark_pool(CapacityClass::Spot, "m5.large", "a", &scope, at(100));
        assert_ne!(marked, unavailable.changes(at(179)));
        let marked = unavailable.changes(at(179));
        assert_eq!(seen(&unavailable, None, 180), (1, 0, 0), "marking again starts the time anew");
        assert_ne!(marked, unavailable.changes(at(180)), "an end is a change too");
        assert_eq!(seen(&unavailable, None, 280), (0, 0, 0));
    }

    #[test]
    fn a_refusal_for_a_placement_group_stays_there() {
        // covers: AWS-OFF-10, AWS-PG-10
        let unavailable = Unavailable::default();
        let scope = |group: &str, partition: Option<&str>| Scope {
            placement_group: Some(group.to_owned()),
            partition: partition.map(str::to_owned),
        };
        unavailable.mark_pool(CapacityClass::OnDemand, "m5.large", "a", &scope("pg-1", None), at(0));
        unavailable.mark_pool(CapacityClass::OnDemand, "m5.large", "b", &Scope::default(), at(0));
        unavailable.mark_pool(CapacityClass::OnDemand, "m5.large", "c", &scope("pg-1", Some("2")), at(0));
        assert_eq!(seen(&unavailable, None, 1).0, 1);
        assert_eq!(seen(&unavailable, Some("pg-1"), 1).0, 2);
        assert_eq!(seen(&unavailable, Some("pg-2"), 1).0, 1);
        let closed = |group: Option<&str>| {
            let mut found = Circumstances::default();
            unavailable.add_to(&mut found, group, at(1));
            found.closed_partitions.into_values().flatten().map(|(_, zone, partition)| format!("{zone} {partition}"))
        };
        assert_eq!(closed(Some("pg-1")).collect::<Vec<_>>(), ["c 2"]);
        assert_eq!(closed(Some("pg-2")).count() + closed(None).count(), 0);
    }
}
