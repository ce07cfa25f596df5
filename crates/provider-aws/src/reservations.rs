//! Capacity reservations: which ones a node class means, and how many instances each still takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::CapacityReservationSelectorTerm as Term;

use crate::calls::{Aws, AwsError, CapacityReservation, Filter, Result};
use crate::ttl::{Ttl, later};

const PAGE: u32 = 1000;
const LIFE: Duration = Duration::from_secs(60);
const COUNT_LIFE: Duration = Duration::from_secs(24 * 3600);

pub struct Reservations {
    aws: Aws,
    queries: Ttl<Query, Vec<CapacityReservation>>,
    /// Ids that EC2 did not know or accept when it was last asked. One of them fails a whole call, so each is asked for
    /// alone until it is found.
    unknown: Mutex<BTreeSet<String>>,
    counts: Mutex<Counts>,
}

/// What one term of a selector asks for; a term with an id and tags asks twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Query {
    Id(String),
    Filters(Vec<Filter>),
}

#[derive(Default)]
struct Counts {
    /// Free places, when EC2 told, until when that counts.
    free: BTreeMap<String, (u32, Timestamp, Timestamp)>,
    changes: u64,
}

impl Reservations {
    pub fn new(aws: Aws) -> Self {
        Self { aws, queries: Ttl::new(LIFE), unknown: Mutex::default(), counts: Mutex::default() }
    }

    /// By id, without those that have ended.
    pub async fn list(&self, class: &EC2NodeClass, now: Timestamp) -> Result<Vec<CapacityReservation>> {
        let terms = class.spec.capacity_reservation_selector_terms.as_deref().unwrap_or_default();
        self.find(terms, now).await
    }

    pub async fn find(&self, terms: &[Term], now: Timestamp) -> Result<Vec<CapacityReservation>> {
        let queries = queries(terms);
        let asked = queries.iter().filter(|query| self.queries.get(*query, now).is_none());
        let mut ids = Vec::new();
        let mut failure = None;
        for query in asked {
            match query {
                Query::Id(id) => ids.push(id.clone()),
                Query::Filters(filters) => match self.ask(&[], filters, Some(PAGE), now).await {
                    Ok(answer) => self.queries.set(query.clone(), answer, now),
                    Err(error) => failure = Some(error),
                },
            }
        }
        // What was answered is kept in any case: the next look asks for the rest only.
        self.ask_by_id(ids, now).await?;
        if let Some(error) = failure {
            return Err(error);
        }
        let found = queries.iter().filter_map(|query| self.queries.get(query, now)).flatten();
        let found: BTreeMap<String, CapacityReservation> = found.map(|found| (found.id.clone(), found)).collect();
        Ok(found.into_values().filter(|reservation| reservation.end.is_none_or(|end| now < end)).collect())
    }

    /// In as few calls as the ids allow. An id that is mistyped, gone, or shared with us no longer costs only itself.
    async fn ask_by_id(&self, mut ids: Vec<String>, now: Timestamp) -> Result<()> {
        ids.sort();
        ids.dedup();
        let unknown = self.unknown().clone();
        let (mut alone, together): (Vec<String>, Vec<String>) = ids.into_iter().partition(|id| unknown.contains(id));
        for some in together.chunks(IDS) {
            match self.ask(some, &[], None, now).await {
                Ok(answer) => self.keep(some, &answer, now),
                Err(error) if is_about_ids(&error) => alone.extend(some.iter().cloned()),
                Err(error) => return Err(error),
            }
        }
        for id in alone {
            let one = std::slice::from_ref(&id);
            match self.ask(one, &[], None, now).await {
                Ok(answer) => {
                    self.unknown().remove(&id);
                    self.keep(one, &answer, now);
                }
                Err(error) if is_about_ids(&error) => {
                    if self.unknown().insert(id.clone()) {
                        tracing::warn!(reservation = %id, %error, "a capacity reservation that is asked for by id is not there");
                    }
                    self.keep(one, &[], now);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        ids: &[String],
        filters: &[Filter],
        page: Option<u32>,
        now: Timestamp,
    ) -> Result<Vec<CapacityReservation>> {
        let mut filters = filters.to_vec();
        filters.push(Filter::new("state", ["active"]));
        let answer = self.aws.ec2.describe_capacity_reservations(ids, &filters, page).await?;
        self.told(&answer, now);
        Ok(answer)
    }

    fn keep(&self, ids: &[String], answer: &[CapacityReservation], now: Timestamp) {
        for id in ids {
            let found = answer.iter().filter(|reservation| reservation.id == *id).cloned().collect();
            self.queries.set(Query::Id(id.clone()), found, now);
        }
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

    fn unknown(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
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

/// EC2 takes no page size with ids, so it is the number of ids that bounds an answer.
const IDS: usize = 100;

fn is_about_ids(error: &AwsError) -> bool {
    error.is_not_found() || error.code == "InvalidCapacityReservationId.Malformed"
}

fn queries(terms: &[Term]) -> Vec<Query> {
    let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    let mut queries: Vec<Query> = Vec::new();
    for term in terms {
        queries.extend(given(&term.id).map(Query::Id));
        let criteria = given(&term.instance_match_criteria);
        let tags = term.tags.as_ref().filter(|tags| !tags.is_empty());
        // An owner alone selects nothing.
        if tags.is_none() && criteria.is_none() {
            continue;
        }
        let mut filters: Vec<Filter> =
            given(&term.owner_id).map(|owner| Filter::new("owner-id", [owner])).into_iter().collect();
        filters.extend(tags.into_iter().flatten().map(|(key, value)| Filter::tag(key, value)));
        filters.extend(criteria.map(|wanted| Filter::new("instance-match-criteria", [wanted])));
        queries.push(Query::Filters(filters));
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
            Term { id: text("cr-2"), tags: Some([("team".to_owned(), "a".to_owned())].into()), ..Default::default() },
            Term { owner_id: text("123456789012"), ..Default::default() },
            Term {
                tags: Some([("a".to_owned(), "*".to_owned())].into()),
                owner_id: text("123456789012"),
                instance_match_criteria: text("targeted"),
                ..Default::default()
            },
        ];
        let want = [
            Query::Id("cr-1".to_owned()),
            Query::Id("cr-2".to_owned()),
            Query::Filters(vec![Filter::new("tag:team", ["a"])]),
            Query::Filters(vec![
                Filter::new("owner-id", ["123456789012"]),
                Filter::new("tag-key", ["a"]),
                Filter::new("instance-match-criteria", ["targeted"]),
            ]),
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
