//! PodDisruptionBudgets: how many pods may be missing now.

use super::replicas::{is_finished, is_ready, is_terminating, scaled};
use crate::clock::{later, until, wire};
use crate::key::{Key, controller_of};
use crate::op::{Event, Op, Source, Step};
use crate::selector::Selector;
use crate::world::{Object, World};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SOURCE: Source = Source::Controller("controllermanager");
/// An eviction that was allowed and has not happened by then is not going to.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(120);

pub fn step(world: &World, key: &Key, now: Timestamp) -> Step {
    let Some(budget) = world.budgets.get(key) else { return Step::done() };
    let Some(spec) = &budget.spec else { return Step::done() };
    // Unlike elsewhere, no selector selects nothing and an empty one everything.
    let selector = Selector::new(spec.selector.as_ref());
    let pods: Vec<&Arc<Pod>> =
        world.select_pods(&key.namespace, &selector).into_iter().filter(|p| !is_finished(p)).collect();
    let before = budget.status.clone().unwrap_or_default();
    let (disrupted, again) = still_disrupted(&before, &pods, now);
    let status = match count(world, spec, &pods) {
        Ok((expected, desired)) => {
            let healthy = pods
                .iter()
                .filter(|p| is_ready(p) && !is_terminating(p) && !disrupted.contains_key(crate::key::name(&p.metadata)))
                .count() as i32;
            let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
            let (on, reason) = if allowed > 0 { (true, "SufficientPods") } else { (false, "InsufficientPods") };
            PodDisruptionBudgetStatus {
                current_healthy: Some(healthy),
                desired_healthy: Some(desired),
                expected_pods: Some(expected),
                disruptions_allowed: Some(allowed),
                disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
                observed_generation: budget.metadata.generation,
                conditions: Some(vec![condition(budget, on, reason, "", now)]),
            }
        }
        Err(why) => PodDisruptionBudgetStatus {
            disruptions_allowed: Some(0),
            observed_generation: budget.metadata.generation,
            conditions: Some(vec![condition(budget, false, "SyncFailed", &why, now)]),
            ..before.clone()
        },
    };
    let mut step = Step::done();
    if status != before {
        let mut updated = (**budget).clone();
        updated.status = Some(status);
        step.ops.push(Op::UpdateStatus(Object::from(updated)));
        if pods.is_empty() {
            let (object, message) = (Object::PodDisruptionBudget(budget.clone()), "No matching pods found".to_owned());
            step.ops.push(Op::Event(Event::normal(&object, SOURCE, "NoPods", message)));
        }
    }
    step.again(again)
}

fn condition(budget: &PodDisruptionBudget, on: bool, reason: &str, message: &str, now: Timestamp) -> Condition {
    let status = if on { "True" } else { "False" };
    let before =
        budget.status.iter().flat_map(|s| s.conditions.iter().flatten()).find(|c| c.type_ == "DisruptionAllowed");
    let since = before.filter(|c| c.status == status).map(|c| c.last_transition_time.clone());
    Condition {
        type_: "DisruptionAllowed".into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        last_transition_time: since.unwrap_or_else(|| wire(now)),
        observed_generation: budget.metadata.generation,
    }
}

type Disrupted = BTreeMap<String, k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>;

/// Evictions the server allowed and whose pods are still here.
fn still_disrupted(
    before: &PodDisruptionBudgetStatus,
    pods: &[&Arc<Pod>],
    now: Timestamp,
) -> (Disrupted, Option<Duration>) {
    let mut kept = Disrupted::new();
    let mut again: Option<Duration> = None;
    for (name, time) in before.disrupted_pods.iter().flatten() {
        let ends = later(time.0, EVICTION_TIMEOUT);
        let waiting = pods.iter().any(|p| crate::key::name(&p.metadata) == name && !is_terminating(p));
        if waiting && ends > now {
            let wait = until(now, ends);
            again = Some(again.map_or(wait, |a| a.min(wait)));
            kept.insert(name.clone(), time.clone());
        }
    }
    (kept, again)
}

/// Expected pods and how many of them must be healthy.
fn count(world: &World, spec: &PodDisruptionBudgetSpec, pods: &[&Arc<Pod>]) -> Result<(i32, i32), String> {
    if let Some(most) = &spec.max_unavailable {
        let expected = expected(world, pods)?;
        return Ok((expected, (expected - scaled(most, expected, true)).max(0)));
    }
    match &spec.min_available {
        Some(IntOrString::Int(n)) => Ok((pods.len() as i32, *n)),
        Some(percent) => {
            let expected = expected(world, pods)?;
            Ok((expected, scaled(percent, expected, true)))
        }
        None => Ok((pods.len() as i32, 0)),
    }
}

/// What the pods' controllers want in all, counting each controller once.
fn expected(world: &World, pods: &[&Arc<Pod>]) -> Result<i32, String> {
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let key = Key::of(&pod.metadata);
        let Some(owner) = controller_of(&pod.metadata) else {
            return Err(format!("found no controllers for pod \"{}\"", key.name));
        };
        let (id, scale) = match owner.kind.as_str() {
            "ReplicaSet" => {
                let set = world
                    .replica_sets
                    .get(&key.sibling(&owner.name))
                    .ok_or_else(|| format!("found no controllers for pod \"{}\"", key.name))?;
                let deployment = controller_of(&set.metadata)
                    .filter(|o| o.kind == "Deployment")
                    .and_then(|o| world.deployments.get(&key.sibling(&o.name)));
                match deployment {
                    Some(d) => (d.metadata.uid.clone(), d.spec.as_ref().and_then(|s| s.replicas)),
                    None => (set.metadata.uid.clone(), set.spec.as_ref().and_then(|s| s.replicas)),
                }
            }
            "StatefulSet" => {
                let set = world
                    .stateful_sets
                    .get(&key.sibling(&owner.name))
                    .ok_or_else(|| format!("found no controllers for pod \"{}\"", key.name))?;
                (set.metadata.uid.clone(), set.spec.as_ref().and_then(|s| s.replicas))
            }
            kind => {
                let group = owner.api_version.split('/').next().unwrap_or_default();
                return Err(format!("{}s.{group} does not implement the scale subresource", kind.to_ascii_lowercase()));
            }
        };
        scales.insert(id.unwrap_or_default(), scale.unwrap_or(1));
    }
    Ok(scales.values().sum())
}
