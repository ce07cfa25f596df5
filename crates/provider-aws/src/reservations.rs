//! Capacity reservations: which ones a node class means, and how many instances each still takes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::CapacityReservationSelectorTerm as Term;

use crate::calls::{Aws, CapacityReservation, Filter, Result};
use crate::ttl::{Ttl, later};

const PAGE: u32 = 1000;
const LIFE: Duration = Duration::from_secs(60);
const COUNT_LIFE: Duration = Duration::from_secs(24 * 3600);

pub struct Reservations {
    aws: Aws,
    queries: Ttl<Query, Vec<CapacityReservation>>,
    counts: Mutex<Counts>,
}

/// Ids, or filters.
type Query = (Vec<String>, Vec<Filter>);

#[derive(Default)]
struct Counts {
    /// Free places, when EC2 told, until when that counts.
    free: BTreeMap<String, (u32, Timestamp, Timestamp)>,
    changes: u64,
}

impl Reservations {
    pub fn new(aws: Aws) -> Self {
        Self { aws, queries: Ttl::new(LIFE), counts: Mutex::default() }
    }

    /// By id, without those that have ended.
    pub async fn list(&self, class: &EC2NodeClass, now: Timestamp) -> Result<Vec<CapacityReservation>> {
        let terms = class.spec.capacity_reservation_selector_terms.as_deref().unwrap_or_default();
        self.find(terms, now).await
    }

    pub async fn find(&self, terms: &[Term], now: Timestamp) -> Result<Vec<CapacityReservation>> {
        let mut found: BTreeMap<String, CapacityReservation> = BTreeMap::new();
        for query in queries(terms) {
            let answer = match self.queries.get(&query, now) {
                Some(answer) => answer,
                None => {
                    let (ids, filters) = &query;
                    let page = ids.is_empty().then_some(PAGE);
                    let answer = match self.aws.ec2.describe_capacity_reservations(ids, filters, page).await {
                        Err(error) if error.is_not_found() => Vec::new(),
                        answer => answer?,
                    };
                    self.told(&answer, now);
                    self.queries.set(query, answer.clone(), now);
                    answer
                }
            };
            found.extend(answer.into_iter().map(|reservation| (reservation.id.clone(), reservation)));
        }
        Ok(found.into_values().filter(|reservation| reservation.end.is_none_or(|end| now < end)).collect())
    }

    /// Places that are free as far as we know; nothing is known of a reservation nobody asked about.
    pub fn free(&self, id: &str, now: Timestamp) -> u32 {
        self.lock().free.get(id).filter(|(.., until)| now < *until).map_or(0, |(free, ..)| *free)
    }

    /// A number that is another one after every change.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// One place less, unless EC2's answer is newer than the launch.
    pub fn launched(&self, id: &str, launched_at: Timestamp) {
        self.change(id, |free, told| if launched_at < told { free } else { free.saturating_sub(1) });
    }

    pub fn terminated(&self, id: &str) {
        self.change(id, |free, _| free.saturating_add(1));
    }

    pub fn exhausted(&self, id: &str) {
        self.change(id, |_, _| 0);
    }

    pub(crate) fn told(&self, reservations: &[CapacityReservation], now: Timestamp) {
        let mut counts = self.lock();
        for reservation in reservations {
            let told = (reservation.available, now, later(now, COUNT_LIFE));
            let before = counts.free.insert(reservation.id.clone(), told);
            // The same again is no news: instance types need not be resolved anew for it.
            let is_news = before.is_none_or(|(free, _, until)| free != reservation.available || until <= now);
            counts.changes += u64::from(is_news);
        }
    }

    fn change(&self, id: &str, change: impl FnOnce(u32, Timestamp) -> u32) {
        let mut counts = self.lock();
        if let Some((free, told, _)) = counts.free.get_mut(id) {
            *free = change(*free, *told);
            counts.changes += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// EC2 takes the machines of a capacity block back half an hour before its end; ten minutes earlier nothing is launched
/// into it any more, and what runs there moves.
const BLOCK_EXPIRES: Duration = Duration::from_secs(40 * 60);

pub fn is_expiring(reservation: &CapacityReservation, now: Timestamp) -> bool {
    let block = reservation.reservation_type == "capacity-block";
    block && reservation.end.is_some_and(|end| end <= later(now, BLOCK_EXPIRES))
}

fn queries(terms: &[Term]) -> Vec<Query> {
    let active = Filter::new("state", ["active"]);
    let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    let ids: Vec<String> = terms.iter().filter_map(|term| given(&term.id)).collect();
    let mut queries: Vec<Query> = Vec::new();
    if !ids.is_empty() {
        queries.push((ids, vec![active.clone()]));
    }
    for term in terms.iter().filter(|term| given(&term.id).is_none()) {
        let mut filters: Vec<Filter> =
            given(&term.owner_id).map(|owner| Filter::new("owner-id", [owner])).into_iter().collect();
        filters.extend(term.tags.iter().flatten().map(|(key, value)| Filter::tag(key, value)));
        filters.extend(
            given(&term.instance_match_criteria).map(|wanted| Filter::new("instance-match-criteria", [wanted])),
        );
        filters.push(active.clone());
        queries.push((Vec::new(), filters));
    }
    queries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_become_queries() {
        // covers: AWS-CR-01, AWS-CR-02
        let text = |text: &str| Some(text.to_owned());
        let terms = [
            Term { id: text("cr-1"), ..Default::default() },
            Term {
                tags: Some([("a".to_owned(), "*".to_owned())].into()),
                owner_id: text("123456789012"),
                instance_match_criteria: text("targeted"),
                ..Default::default()
            },
        ];
        let active = Filter::new("state", ["active"]);
        let want = [
            (vec!["cr-1".to_owned()], vec![active.clone()]),
            (
                vec![],
                vec![
                    Filter::new("owner-id", ["123456789012"]),
                    Filter::new("tag-key", ["a"]),
                    Filter::new("instance-match-criteria", ["targeted"]),
                    active,
                ],
            ),
        ];
        assert_eq!(queries(&terms), want);
    }

    #[test]
    fn capacity_blocks_expire_forty_minutes_before_their_end() {
        // covers: AWS-CR-05
        let at = |second| Timestamp::from_second(second).unwrap();
        let reservation = |kind: &str, end: Option<i64>| CapacityReservation {
            id: "cr-1".into(),
            zone: "a".into(),
            instance_type: "p5.48xlarge".into(),
            instance_match_criteria: "targeted".into(),
            owner_id: "1".into(),
            reservation_type: kind.into(),
            interruptible: false,
            available: 1,
            end: end.map(at),
            tags: Default::default(),
        };
        for (kind, end, want) in [
            ("capacity-block", Some(2401), false),
            ("capacity-block", Some(2400), true),
            ("capacity-block", None, false),
            ("default", Some(1), false),
        ] {
            assert_eq!(is_expiring(&reservation(kind, end), at(0)), want, "{kind} {end:?}");
        }
    }
}
