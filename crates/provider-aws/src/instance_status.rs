//! Sick instances: EC2's own checks of instances and hosts, and what it plans to do with them. Read by polling, so that it
//! works without a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use jiff::Timestamp;
use karpenter_ec2::interruption::Kind;
use karpenter_provider::{BoxError, ProviderError};

use crate::calls::{Filter, InstanceStatus, StatusCheck};
use crate::interruption::handling::Round;
use crate::permissions::{Feature, TRIED_AGAIN};
use crate::provider::Parts;
use crate::ttl::later;

pub const EVERY: Duration = Duration::from_secs(60);
/// A check that fails for so long does not recover by itself.
const PATIENCE: Duration = Duration::from_secs(120);
const AT_ONCE: usize = 10;
const EVENTS: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];

/// What is wrong with an instance, in the order in which it is acted on: what is forceful comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    InstanceStatus,
    SystemStatus,
    EventStatus,
}

impl Category {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InstanceStatus => "InstanceStatus",
            Self::SystemStatus => "SystemStatus",
            Self::EventStatus => "EventStatus",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::InstanceStatus => Kind::InstanceStatus,
            Self::SystemStatus => Kind::SystemStatus,
            Self::EventStatus => Kind::EventStatus,
        }
    }
}

#[derive(Default)]
pub struct InstanceHealth {
    /// What was counted already and has not recovered since.
    counted: Mutex<BTreeSet<(String, Category)>>,
}

impl InstanceHealth {
    pub async fn round(&self, parts: &Parts) -> Result<Duration, ProviderError> {
        let mut statuses = Vec::new();
        for filter in filters() {
            match parts.aws.ec2.describe_instance_status(&[filter]).await {
                Ok(found) => statuses.extend(found),
                Err(error) if error.is_unauthorized() => {
                    parts.permissions.denied(Feature::InstanceStatus, &error.to_string(), (parts.now)());
                    return Ok(TRIED_AGAIN);
                }
                Err(error) => return Err(ProviderError::new("describing the status of instances", error)),
            }
        }
        parts.permissions.granted(Feature::InstanceStatus);
        let sick = judge(&statuses, (parts.now)());
        let ids: BTreeSet<&str> = sick.keys().map(String::as_str).collect();
        let round = Round::over(parts, &ids).await;
        let round = round.map_err(|error| ProviderError::new("listing NodeClaims", error))?;
        self.count(parts, &round, &sick);
        let mut acts: Vec<BoxFuture<'_, Result<(), BoxError>>> = Vec::with_capacity(sick.len());
        for (id, categories) in &sick {
            acts.push(act(&round, id, categories).boxed());
        }
        let done: Vec<Result<(), BoxError>> =
            futures_util::stream::iter(acts).buffer_unordered(AT_ONCE).collect().await;
        let failures: Vec<String> = done.into_iter().filter_map(|one| Some(one.err()?.to_string())).collect();
        if failures.is_empty() {
            return Ok(EVERY);
        }
        Err(ProviderError::new("replacing sick instances", failures.join("; ")))
    }

    /// Once for each instance and category, until it recovers; instances of others do not count.
    fn count(&self, parts: &Parts, round: &Round<'_>, sick: &BTreeMap<String, BTreeSet<Category>>) {
        let ours = sick.iter().filter(|(id, _)| round.knows(id));
        let now: BTreeSet<(String, Category)> =
            ours.flat_map(|(id, of)| of.iter().map(|category| (id.clone(), *category))).collect();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for (instance, category) in now.difference(&counted) {
            tracing::info!(%instance, category = category.as_str(), "detected unhealthy instance owned by cluster");
            parts.observer.unhealthy_instance(category.as_str());
        }
        *counted = now;
    }
}

async fn act(round: &Round<'_>, id: &str, categories: &BTreeSet<Category>) -> Result<(), BoxError> {
    for category in categories {
        round.act(category.kind(), id, None).await?;
    }
    Ok(())
}

/// Each is a query of its own, because one call wants all of its filters met.
fn filters() -> [Filter; 3] {
    [
        Filter::new("instance-status.status", ["impaired"]),
        Filter::new("system-status.status", ["impaired"]),
        Filter::new("event.code", EVENTS),
    ]
}

/// The instances to replace. Checks must have failed for a while; what EC2 plans counts at once, whenever it is due.
pub fn judge(statuses: &[InstanceStatus], now: Timestamp) -> BTreeMap<String, BTreeSet<Category>> {
    let mut sick: BTreeMap<String, BTreeSet<Category>> = BTreeMap::new();
    let failed = |checks: &[StatusCheck]| {
        checks.iter().any(|check| {
            check.status == "failed" && check.impaired_since.is_none_or(|since| later(since, PATIENCE) <= now)
        })
    };
    for status in statuses {
        let found = [
            (failed(&status.instance_checks), Category::InstanceStatus),
            (failed(&status.system_checks), Category::SystemStatus),
            (!status.events.is_empty(), Category::EventStatus),
        ];
        for (_, category) in found.into_iter().filter(|(is, _)| *is) {
            sick.entry(status.instance_id.clone()).or_default().insert(category);
        }
    }
    sick
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_must_have_failed_for_two_minutes_and_events_count_at_once() {
        // covers: AWS-INT-16, AWS-INT-17
        let at = |second| Timestamp::from_second(second).unwrap();
        let check = |status: &str, since: i64| StatusCheck { status: status.into(), impaired_since: Some(at(since)) };
        let status = |id: &str, instance: Vec<StatusCheck>, system: Vec<StatusCheck>, events: &[&str]| InstanceStatus {
            instance_id: id.into(),
            system_checks: system,
            instance_checks: instance,
            events: events.iter().map(|event| (*event).to_owned()).collect(),
        };
        let told = [
            status("young", vec![check("failed", 881)], vec![], &[]),
            status("old", vec![check("failed", 880)], vec![], &[]),
            status("other-word", vec![check("insufficient-data", 0)], vec![check("initializing", 0)], &[]),
            status("host", vec![], vec![check("passed", 0), check("failed", 0)], &[]),
            status("planned", vec![], vec![], &["instance-retirement"]),
            // Found by two queries: what both say counts.
            status("both", vec![], vec![check("failed", 0)], &[]),
            status("both", vec![], vec![], &["system-reboot"]),
        ];
        let found = judge(&told, at(1000));
        let of = |id: &str| found.get(id).map(|of| of.iter().copied().collect::<Vec<_>>());
        assert_eq!(of("young"), None);
        assert_eq!(of("old"), Some(vec![Category::InstanceStatus]));
        assert_eq!(of("other-word"), None);
        assert_eq!(of("host"), Some(vec![Category::SystemStatus]));
        assert_eq!(of("planned"), Some(vec![Category::EventStatus]));
        assert_eq!(of("both"), Some(vec![Category::SystemStatus, Category::EventStatus]));
        let asked = filters().map(|filter| (filter.name, filter.values));
        assert_eq!(asked[0], ("instance-status.status".to_owned(), vec!["impaired".to_owned()]));
        assert_eq!(asked[1], ("system-status.status".to_owned(), vec!["impaired".to_owned()]));
        assert_eq!(asked[2].1, EVENTS);
    }
}
