//! What is going to happen, in order of time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_provider_aws::calls::InstanceState;
use karpenter_provider_aws::ttl::later;

use super::State;
use crate::options::Options;
use crate::queue::Warning;

/// EC2 takes a spot instance back this long after it said so.
const SPOT_NOTICE: Duration = Duration::from_secs(120);
/// A rebalance recommendation often, not always, comes before.
const REBALANCE_NOTICE: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// `shutting-down` becomes `terminated`.
    Terminated(String),
    /// EC2 no longer tells of it.
    Forgotten(String),
    Rebalance(String),
    /// The warning; the end follows.
    Reclaim(String),
    Reclaimed(String),
    ScheduledChange(String),
    Stop(String),
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// By time and number, so that what was planned first happens first.
    entries: BTreeMap<(Timestamp, u64), Due>,
    planned: u64,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Timestamp, due: Due) {
        self.planned += 1;
        self.entries.insert((at, self.planned), due);
    }

    pub(super) fn pop(&mut self, now: Timestamp) -> Option<Due> {
        let first = self.entries.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.entries.keys().next().map(|(at, _)| *at)
    }
}

impl State {
    pub(super) fn happen(&mut self, options: &Options, due: Due, now: Timestamp) {
        let runs = |state: &Self, id: &str| state.records.get(id).is_some_and(|record| record.ended_at.is_none());
        match due {
            Due::Terminated(id) => {
                let Some(record) = self.records.get_mut(&id) else { return };
                record.state = InstanceState::Terminated;
                let lag = options.staleness.draw(options.seed, &["stale termination", &id]);
                record.seen_states.push((later(now, lag), InstanceState::Terminated));
                self.dirty = true;
                self.agenda.add(later(now, options.remembered), Due::Forgotten(id));
            }
            Due::Forgotten(id) => {
                let shape = self.records.remove(&id).and_then(|record| record.shape);
                // Prices move, and with them how machines look: what nobody looks like any more is forgotten.
                if let Some(key) = shape
                    && !self.records.values().any(|record| record.shape.as_ref() == Some(&key))
                {
                    self.shapes.remove(&key);
                }
                self.dirty = true;
            }
            Due::Rebalance(id) if runs(self, &id) => {
                self.warn(&options.region, &id, Warning::RebalanceRecommendation, now);
                self.agenda.add(later(now, REBALANCE_NOTICE), Due::Reclaim(id));
            }
            Due::Reclaim(id) if runs(self, &id) => {
                self.warn(&options.region, &id, Warning::SpotInterruption, now);
                self.agenda.add(later(now, SPOT_NOTICE), Due::Reclaimed(id));
            }
            Due::Reclaimed(id) if runs(self, &id) => {
                self.faults.count("spot_reclaimed");
                self.end(options, &id, InstanceState::ShuttingDown, now);
            }
            Due::ScheduledChange(id) if runs(self, &id) => {
                self.warn(&options.region, &id, Warning::ScheduledChange, now);
            }
            Due::Stop(id) if runs(self, &id) => {
                self.faults.count("stopped");
                self.warn(&options.region, &id, Warning::Stopping, now);
                self.end(options, &id, InstanceState::Stopped, now);
            }
            Due::Rebalance(_) | Due::Reclaim(_) | Due::Reclaimed(_) | Due::ScheduledChange(_) | Due::Stop(_) => {}
        }
    }

    /// What fate has in store for a new instance.
    pub(super) fn plan_fate(&mut self, options: &Options, id: &str, spot: bool, now: Timestamp) {
        let (seed, rates) = (options.seed, &options.rates);
        // The time until an event of a constant rate.
        let until = |kind: &str, per_second: f64| {
            (per_second > 0.0).then(|| {
                let luck = crate::chance::share(seed, &[kind, id]).max(1e-12);
                Duration::from_secs_f64((-luck.ln() / per_second).min(1e9))
            })
        };
        if let Some(wait) = until("reclaim", rates.spot_reclaims_per_hour / 3600.0).filter(|_| spot) {
            let announced = crate::chance::share(seed, &["rebalance", id]) < 0.5;
            let due = if announced { Due::Rebalance(id.to_owned()) } else { Due::Reclaim(id.to_owned()) };
            self.agenda.add(later(now, wait), due);
        }
        if let Some(wait) = until("health", rates.health_events_per_day / 86_400.0) {
            self.agenda.add(later(now, wait), Due::ScheduledChange(id.to_owned()));
        }
        if let Some(wait) = until("stop", rates.stops_per_day / 86_400.0) {
            self.agenda.add(later(now, wait), Due::Stop(id.to_owned()));
        }
    }

    /// After a restart: what was under way goes on.
    pub(crate) fn resume(&mut self, options: &Options, now: Timestamp) {
        let ids: Vec<(String, InstanceState, bool)> = self
            .records
            .iter()
            .map(|(id, record)| (id.clone(), record.state, record.instance.spot_request_id.is_some()))
            .collect();
        for (id, state, spot) in ids {
            match state {
                InstanceState::ShuttingDown => {
                    let wait = options.shutdown.draw(options.seed, &["shutdown", &id]);
                    self.agenda.add(later(now, wait), Due::Terminated(id));
                }
                InstanceState::Terminated => self.agenda.add(later(now, options.remembered), Due::Forgotten(id)),
                InstanceState::Pending | InstanceState::Running => self.plan_fate(options, &id, spot, now),
                InstanceState::Stopping | InstanceState::Stopped => {}
            }
        }
    }
}
