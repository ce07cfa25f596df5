//! Making room: which pods of lower priority would have to go, and from which node that hurts least.

use super::cycle::Cycle;
use super::pod::PodInfo;
use super::reject::{Diagnosis, Plugin, Reject};
use super::snapshot::Snapshot;
use crate::key::Key;
use crate::selector::Selector;
use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use std::sync::Arc;

/// The search stops after this many candidates, or a tenth of the nodes if that is more.
const MIN_CANDIDATES: usize = 100;

#[derive(Clone, Debug)]
pub struct Candidate {
    pub slot: usize,
    /// Most important first.
    pub victims: Vec<Arc<PodInfo>>,
    pub budget_violations: usize,
}

pub enum Outcome {
    /// The pod may not preempt now; whatever it hopes for stays.
    NotEligible(&'static str),
    /// Evicting would not help; the message says why.
    NoCandidate(String),
    Evict(Candidate),
}

pub fn search(snapshot: &Snapshot, pod: &PodInfo, cycle: &Cycle, diagnosis: &Diagnosis, now: Timestamp) -> Outcome {
    if let Some(why) = ineligible(snapshot, pod, diagnosis) {
        return Outcome::NotEligible(why);
    }
    let potential: Vec<usize> = diagnosis.nodes.iter().filter(|(_, r)| !r.unresolvable).map(|(s, _)| *s).collect();
    let mut refused =
        Diagnosis { absent: Some("Preemption is not helpful for scheduling".into()), ..Diagnosis::default() };
    let mut candidates = Vec::new();
    if !potential.is_empty() {
        let offset = (super::tie(snapshot.seed, &pod.key) % potential.len() as u64) as usize;
        let enough = (potential.len() / 10).max(MIN_CANDIDATES).min(potential.len());
        for i in 0..potential.len() {
            let slot = potential[(offset + i) % potential.len()];
            match victims_on(snapshot, pod, cycle, slot, now) {
                Ok(candidate) => candidates.push(candidate),
                Err(reject) => refused.note(slot, reject),
            }
            if candidates.len() >= enough && candidates.iter().any(|c| c.budget_violations == 0) {
                break;
            }
        }
    }
    match least_painful(snapshot, candidates, now) {
        Some(best) => Outcome::Evict(best),
        None => Outcome::NoCandidate(refused.message(snapshot.order().len(), "")),
    }
}

/// A pod whose victims are still leaving waits for them instead of making more.
fn ineligible(snapshot: &Snapshot, pod: &PodInfo, diagnosis: &Diagnosis) -> Option<&'static str> {
    if pod.spec().and_then(|s| s.preemption_policy.as_deref()) == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let slot = pod.nominated_node().and_then(|n| snapshot.slot(n))?;
    if diagnosis.reject_of(slot).is_some_and(|r| r.unresolvable) {
        return None;
    }
    let leaving = |other: &PodInfo| other.priority < pod.priority && other.terminating && preempted(other);
    let any = snapshot.node(slot).pods.iter().any(|r| leaving(&r.pod));
    any.then_some("not eligible due to a terminating pod on the nominated node.")
}

fn preempted(pod: &PodInfo) -> bool {
    let mut conditions = pod.pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions
        .find(|c| c.type_ == "DisruptionTarget")
        .is_some_and(|c| c.status == "True" && c.reason.as_deref() == Some("PreemptionByScheduler"))
}

/// Takes every lower pod off, then gives back as many as still fit, the most important and best protected first.
fn victims_on(
    snapshot: &Snapshot,
    pod: &PodInfo,
    cycle: &Cycle,
    slot: usize,
    now: Timestamp,
) -> Result<Candidate, Reject> {
    let mut node = snapshot.node(slot).clone();
    let mut cycle = cycle.clone();
    let mut lower: Vec<Arc<PodInfo>> =
        node.pods.iter().map(|r| r.pod.clone()).filter(|p| p.priority < pod.priority).collect();
    if lower.is_empty() {
        return Err(Reject::for_good(Plugin::NodeResources, "No preemption victims found for incoming pod"));
    }
    for victim in &lower {
        node.remove(&victim.uid);
        cycle.update(snapshot, pod, victim, &node, -1);
    }
    cycle.filter(snapshot, pod, &node)?;
    lower.sort_by(|a, b| importance(a, now).cmp(&importance(b, now)));
    let (violating, free) = split_by_budget(snapshot, lower);
    let mut victims = Vec::new();
    let mut budget_violations = 0;
    for (victim, violates) in violating.into_iter().map(|v| (v, true)).chain(free.into_iter().map(|v| (v, false))) {
        node.add(victim.clone(), u32::MAX);
        cycle.update(snapshot, pod, &victim, &node, 1);
        if cycle.filter(snapshot, pod, &node).is_err() {
            node.remove(&victim.uid);
            cycle.update(snapshot, pod, &victim, &node, -1);
            victims.push(victim);
            budget_violations += usize::from(violates);
        }
    }
    victims.sort_by(|a, b| importance(a, now).cmp(&importance(b, now)));
    Ok(Candidate { slot, victims, budget_violations })
}

/// Sorts the more important pod first: higher priority, then longer running.
fn importance(pod: &PodInfo, now: Timestamp) -> (std::cmp::Reverse<i32>, Timestamp, &Key) {
    (std::cmp::Reverse(pod.priority), pod.started().unwrap_or(now), &pod.key)
}

/// Pods whose eviction a budget does not allow, and the others; order kept.
fn split_by_budget(snapshot: &Snapshot, pods: Vec<Arc<PodInfo>>) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut budgets: Vec<(&Key, &PodDisruptionBudget, Selector, i32)> = snapshot
        .budgets
        .iter()
        .map(|(key, budget)| {
            let selector = Selector::new(budget.spec.as_ref().and_then(|s| s.selector.as_ref()));
            let allowed = budget.status.as_ref().and_then(|s| s.disruptions_allowed).unwrap_or(0);
            (key, &**budget, selector, allowed)
        })
        .collect();
    pods.into_iter().partition(|pod| {
        let mut violated = false;
        for (key, budget, selector, allowed) in &mut budgets {
            let already = budget.status.iter().flat_map(|s| s.disrupted_pods.iter().flatten());
            if key.namespace != pod.key.namespace
                || pod.labels.is_empty()
                || selector.is_empty()
                || !selector.matches(&pod.labels)
                || already.into_iter().any(|(name, _)| **name == *pod.key.name)
            {
                continue;
            }
            *allowed -= 1;
            violated |= *allowed < 0;
        }
        violated
    })
}

/// Fewest broken budgets, then the least important top victim, the smallest sum of priorities, the fewest victims, the
/// youngest. Victims that would all stay are no candidate.
fn least_painful(snapshot: &Snapshot, candidates: Vec<Candidate>, now: Timestamp) -> Option<Candidate> {
    candidates.into_iter().filter(|c| !c.victims.is_empty()).min_by_key(|c| {
        let top = c.victims[0].priority;
        let sum: i64 = c.victims.iter().map(|v| i64::from(v.priority) + i64::from(i32::MAX) + 1).sum();
        let of_top = c.victims.iter().filter(|v| v.priority == top);
        let earliest = of_top.map(|v| v.started().unwrap_or(now)).min().unwrap_or(now);
        (
            c.budget_violations,
            top,
            sum,
            c.victims.len(),
            std::cmp::Reverse(earliest),
            snapshot.node(c.slot).name.clone(),
        )
    })
}
