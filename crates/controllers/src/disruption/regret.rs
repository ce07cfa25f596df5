//! What moves turn out to cost: pods that were moved to save money, and for which a node had to be bought after all.
//!
//! A plan packs pods as well as it can; kube-scheduler spreads them as it likes. Where the room that is left is tight, what
//! was to fit does not, and the next pass finds as much to save as this one did: nodes come and go for ever, and nothing
//! is saved. So what had to be bought again is remembered as the price of a move, and a command must save more than its moves
//! cost by that measure. Large savings pass, fine tuning ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::plan::Plan;
use karpenter_core::{MicroUsd, Pod, World};

use crate::clock::later;

/// Who replaces a pod that was moved comes within this time after its node was chosen: a machine boots, another is drained.
const RETURNS: Duration = Duration::from_mins(10);
/// What was learned counts half after this: workloads change.
const HALVED: Duration = Duration::from_hours(6);
/// A move must save so many times what moves have cost: what is barely worth it ends in nothing half of the time.
const MARGIN: f64 = 2.0;
/// Less than this is not worth remembering, in millionths of a dollar per hour and pod.
const NOTHING: f64 = 1.0;

#[derive(Debug, Default)]
pub struct Regret(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    moved: f64,
    /// Millionths of a dollar per hour.
    paid: f64,
    learned: Option<Timestamp>,
    /// Up to when old moves and what they cost have been made to count less.
    faded: Option<Timestamp>,
    /// By uid of the owner: how many of its pods are moved, and until when they are waited for.
    expected: BTreeMap<Arc<str>, (usize, Timestamp)>,
}

impl Regret {
    /// A command that saves money is under way, and these will have to go.
    pub(super) fn moved<'p>(&self, pods: impl Iterator<Item = &'p Pod>, now: Timestamp) {
        let mut books = self.books();
        books.fade(now);
        books.expected.retain(|_, (_, until)| now < *until);
        for pod in pods {
            books.moved += 1.0;
            if let Some(owner) = owner(pod) {
                let (count, until) = books.expected.entry(owner.clone()).or_insert((0, now));
                (*count, *until) = (*count + 1, later(now, RETURNS));
            }
        }
    }

    /// Nodes are bought for pods, some of which may be what was moved.
    pub(crate) fn bought(&self, world: &World, plan: &Plan, now: Timestamp) {
        let mut books = self.books();
        books.fade(now);
        for new in &plan.new_nodes {
            let returned = new.pods.iter().filter(|pod| books.returns(&world.pods[**pod], now)).count();
            if returned > 0 {
                books.paid += new.launch.price.0 as f64 * returned as f64 / new.pods.len() as f64;
                books.learned = Some(now);
            }
        }
    }

    /// What a moved pod must save by experience, per hour; nothing while all of them found the room that was planned.
    pub(super) fn price(&self, now: Timestamp) -> Option<MicroUsd> {
        let books = self.books();
        let price = MARGIN * books.paid / books.moved.max(1.0) / 2_f64.powi(halvings(books.learned?, now));
        (price >= NOTHING).then_some(MicroUsd(price as u64))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    /// Old experience counts for less, moves and what they cost alike.
    fn fade(&mut self, now: Timestamp) {
        let since = *self.faded.get_or_insert(now);
        let halvings = halvings(since, now);
        if halvings > 0 {
            let part = 2_f64.powi(halvings);
            (self.moved, self.paid, self.faded) = (self.moved / part, self.paid / part, Some(now));
        }
    }

    /// Whether the pod takes the place of one that was moved, each of which is counted once.
    fn returns(&mut self, pod: &Pod, now: Timestamp) -> bool {
        let expected = owner(pod).and_then(|owner| self.expected.get_mut(owner));
        let Some((count, _)) = expected.filter(|(count, until)| *count > 0 && now < *until) else { return false };
        *count -= 1;
        true
    }
}

fn halvings(since: Timestamp, now: Timestamp) -> i32 {
    let seconds = now.duration_since(since).as_secs().max(0) as u64;
    (seconds / HALVED.as_secs()).min(60) as i32
}

fn owner(pod: &Pod) -> Option<&Arc<str>> {
    pod.owners.iter().find(|owner| owner.controller).map(|owner| &owner.uid)
}

#[cfg(test)]
mod tests;
