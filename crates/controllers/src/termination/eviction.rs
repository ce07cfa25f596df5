//! What is done about one pod that has to leave. Decided afresh at every attempt: between two of them the pod may have
//! ended, lost its protection, or run out of time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::world::DisruptionBudget;
use karpenter_index::{Key, TrackedPod};

use crate::pods::{PodFacts, PodKey};

/// Less would delete the pod's record while its containers run, and a StatefulSet would start a second of a kind.
const SMALLEST_GRACE: Duration = Duration::from_secs(1);

/// What the API server says of a pod with two budgets; it has no code of its own for that.
pub const MULTIPLE_BUDGETS: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is gone, or going in time.
    Drop,
    Evict,
    /// Protected for now.
    Wait,
    /// The deadline leaves it so much of its grace period, whatever protects it.
    Delete {
        grace: Duration,
    },
}

pub fn decide(pod: &PodFacts, deadline: Option<Timestamp>, now: Timestamp) -> Action {
    if pod.terminal {
        return Action::Drop;
    }
    if let Some(deadline) = deadline.filter(|_| pod.is_past_force_threshold(deadline, now)) {
        let left = Duration::try_from(deadline.duration_since(now)).unwrap_or_default();
        let grace = Duration::from_secs(left.as_secs()).max(SMALLEST_GRACE);
        // Only a deletion that makes the end come sooner is worth sending again.
        let shortens = |end: Timestamp| now.checked_add(grace).is_ok_and(|sooner| sooner < end);
        return if pod.deletion.is_none_or(shortens) { Action::Delete { grace } } else { Action::Drop };
    }
    match (pod.is_active(), pod.is_evictable(now)) {
        (false, _) => Action::Drop,
        (true, false) => Action::Wait,
        (true, true) => Action::Evict,
    }
}

/// What an answer to an eviction means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Evicted,
    /// There is no such pod, or another of the same name.
    Gone,
    /// A budget forbids it for now; the text says how.
    Blocked(&'static str),
    Failed,
}

pub fn answer(code: u16, message: &str) -> Answer {
    match code {
        200..=299 => Answer::Evicted,
        404 | 409 => Answer::Gone,
        429 => Answer::Blocked("evicting pod violates a PDB"),
        _ if message == MULTIPLE_BUDGETS => Answer::Blocked("eviction does not support multiple PDBs"),
        _ => Answer::Failed,
    }
}

/// How long an evicted pod may look as if it had not been: the answer is faster than the watch. After that it is evicted
/// once more.
const UNSEEN: SignedDuration = SignedDuration::from_secs(10);

/// After so long a refusal is asked about again even if nothing is known to have changed.
const REFUSED: SignedDuration = SignedDuration::from_mins(5);

/// What was known when a budget refused an eviction. The server answers from the pod and its budgets alone, so while these
/// are the same objects, so is the answer, and nobody needs to ask.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub pod: Arc<TrackedPod>,
    pub budgets: Vec<Arc<DisruptionBudget>>,
    pub at: Timestamp,
    pub why: &'static str,
}

impl Refusal {
    pub fn still_holds(&self, pod: &Arc<TrackedPod>, budgets: &[Arc<DisruptionBudget>], now: Timestamp) -> bool {
        let same = self.budgets.len() == budgets.len()
            && self.budgets.iter().zip(budgets).all(|(before, after)| Arc::ptr_eq(before, after));
        same && Arc::ptr_eq(&self.pod, pod) && now.duration_since(self.at) < REFUSED
    }
}

/// What is known of the pods in the queue; the queue itself knows only keys.
#[derive(Debug, Default)]
pub struct Entries(BTreeMap<PodKey, Entry>);

#[derive(Clone, Debug, Default)]
pub struct Entry {
    pub deadline: Option<Timestamp>,
    /// When an eviction was accepted that no watch has told of yet.
    pub evicted: Option<Timestamp>,
    /// The last answer was a budget's refusal.
    pub refused: Option<Arc<Refusal>>,
}

impl Entries {
    /// Adds a pod, or tightens its deadline: the earliest ever given counts. Answers whether there is something new, so
    /// that the queue looks at it now.
    pub fn add(&mut self, key: PodKey, deadline: Option<Timestamp>, now: Timestamp) -> bool {
        let Some(entry) = self.0.get_mut(&key) else {
            self.0.insert(key, Entry { deadline, ..Entry::default() });
            return true;
        };
        let earliest = [entry.deadline, deadline].into_iter().flatten().min();
        let overdue = entry.evicted.is_some_and(|at| now.duration_since(at) > UNSEEN);
        let news = earliest != entry.deadline || overdue;
        entry.deadline = earliest;
        if overdue {
            entry.evicted = None;
        }
        news
    }

    /// An eviction was accepted.
    pub fn evicted(&mut self, key: &PodKey, now: Timestamp) {
        if let Some(entry) = self.0.get_mut(key) {
            entry.evicted = Some(now);
        }
    }

    /// A budget forbade it.
    pub fn refused(&mut self, key: &PodKey, refusal: Refusal) {
        if let Some(entry) = self.0.get_mut(key) {
            entry.refused = Some(Arc::new(refusal));
        }
    }

    /// The pods of a namespace that budgets hold back.
    pub fn refused_in(&self, namespace: &str) -> Vec<Key> {
        let first = PodKey { namespace: namespace.into(), name: "".into(), uid: "".into() };
        let here = self.0.range(first..).take_while(|(key, _)| *key.namespace == *namespace);
        here.filter(|(_, entry)| entry.refused.is_some()).map(|(key, _)| key.key()).collect()
    }

    pub fn get(&self, key: &PodKey) -> Option<Entry> {
        self.0.get(key).cloned()
    }

    pub fn remove(&mut self, key: &PodKey) -> bool {
        self.0.remove(key).is_some()
    }

    /// Forgets the pods of that name, whatever their UID; the name's pod was deleted.
    pub fn remove_named(&mut self, pod: &Key) {
        let first = PodKey { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: "".into() };
        let named = |key: &PodKey| key.namespace == pod.namespace && key.name == pod.name;
        let gone: Vec<PodKey> = self.0.range(first..).map(|(key, _)| key.clone()).take_while(named).collect();
        for key in gone {
            self.0.remove(&key);
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
