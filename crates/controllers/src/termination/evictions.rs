//! The eviction queue: one pod at a time, tried again until it is gone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::conditions::{self, DISRUPTION_REASON};
use karpenter_index::{Change, Key, Kind, TrackedPod};
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use kube::core::Status;
use serde_json::json;

use super::eviction::{self, Action as Decision, Answer, Entries, Entry, Refusal};
use crate::context::Context;
use crate::error::{Error, Result, unless_gone};
use crate::ownership::Matches;
use crate::pods::{PodFacts, PodKey, Protection};
use crate::reconciler::{Action, Backoff, Reconciler};
use crate::recorder::{Event, ObjectRef};
use crate::settings::Settings;

pub(super) const NAME: &str = "eviction-queue";

/// What tells that a pod has to leave, and whether it may. Budgets are the server's to keep: what we know of them only
/// saves questions.
const READS: [Kind; 3] = [Kind::Pod, Kind::Node, Kind::NodeClaim];

/// The queue's entries: filled by drains, emptied here.
#[derive(Clone, Debug, Default)]
pub struct SharedEntries(Arc<Mutex<Entries>>);

impl SharedEntries {
    /// Answers whether the queue should look at the pod now.
    pub fn add(&self, key: PodKey, deadline: Option<Timestamp>, now: Timestamp) -> bool {
        self.entries().add(key, deadline, now)
    }

    pub fn len(&self) -> usize {
        self.entries().len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The controller `eviction-queue`.
#[derive(Debug)]
pub struct Evictions {
    entries: SharedEntries,
    concurrency: usize,
}

impl Evictions {
    pub fn new(entries: SharedEntries, settings: &Settings) -> Self {
        Self { entries, concurrency: settings.parallelism(100, 5_000) }
    }

    fn drop_entry(&self, key: &PodKey) -> Action {
        self.entries.entries().remove(key);
        Action::Done
    }

    async fn evict(&self, pod: &Arc<TrackedPod>, entry: &Entry, context: &Context) -> Result<Action> {
        let key = &PodKey::of(&pod.pod);
        // Looked up before the question is asked: a change on the way makes the answer old.
        let (budgets, now) = (context.index.budgets_of(&pod.pod), context.clock.now());
        if let Some(refusal) = entry.refused.as_ref().filter(|refusal| refusal.still_holds(pod, &budgets, now)) {
            tell_blocked(pod, refusal.why, context);
            return Ok(Action::Again);
        }
        let answer = context.client.request::<serde_json::Value>(eviction_request(key)).await;
        let (code, message, by_budget) = match answer {
            Ok(_) => (200, String::new(), false),
            Err(kube::Error::Api(status)) => (status.code, status.message.clone(), is_by_budget(&status)),
            Err(error) => return Err(error.into()),
        };
        context.metrics.life.eviction(code);
        match eviction::answer(code, &message) {
            Answer::Evicted => {
                let reason = drained_reason(pod, context);
                let object = ObjectRef::pod(&pod.pod);
                let event = Event::normal(object, "Evicted", format!("Evicted pod: {reason}"));
                context.recorder.publish(event.same([pod.pod.key()]));
                context.metrics.life.pod_drained(reason);
                self.entries.entries().evicted(key, context.clock.now());
                Ok(Action::Done)
            }
            Answer::Gone => Ok(self.drop_entry(key)),
            Answer::Blocked(why) => {
                tell_blocked(pod, why, context);
                // A server with too much to do says 429 as well, and may be asked again soon.
                if by_budget {
                    self.entries.entries().refused(key, Refusal { pod: pod.clone(), budgets, at: now, why });
                }
                Ok(Action::Again)
            }
            Answer::Failed => Err(Error::other(format!("evicting pod {}: {code}: {message}", pod.pod.key()))),
        }
    }

    /// Deletes the pod with what is left of its time, past budgets and protections.
    async fn force(&self, pod: &TrackedPod, key: &PodKey, grace: Duration, context: &Context) -> Result<Action> {
        let deadline = self.entries.entries().get(key).and_then(|entry| entry.deadline);
        let params = DeleteParams {
            grace_period_seconds: Some(u32::try_from(grace.as_secs()).unwrap_or(u32::MAX)),
            preconditions: Some(Preconditions { uid: Some(key.uid.to_string()), resource_version: None }),
            ..DeleteParams::default()
        };
        let answer = api(key, context).delete(&key.name, &params).await.map_err(Error::from);
        match unless_gone(answer) {
            // Another pod of the same name is none of ours.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
            Ok(None) => {}
            Ok(Some(answer)) => {
                if let Some(marked) = answer.left() {
                    context.saw(marked);
                }
                let (granted, wished) = (grace.as_secs(), pod.grace_seconds.unwrap_or_default());
                let deadline = deadline.map(|deadline| deadline.to_string()).unwrap_or_default();
                let message = format!(
                    "Deleting the pod to accommodate the terminationTime {deadline} of the node. The pod was granted {granted} seconds of grace-period of its {wished} terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation."
                );
                let event = Event::normal(ObjectRef::pod(&pod.pod), "Disrupted", message);
                context.recorder.publish(event.same([pod.pod.key()]));
                tracing::debug!(pod = pod.pod.key(), granted, wished, deadline, "deleting pod");
            }
        }
        Ok(self.drop_entry(key))
    }
}

/// Whether budgets refused, one or several.
fn is_by_budget(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.message == eviction::MULTIPLE_BUDGETS || causes.any(|cause| cause.reason == "DisruptionBudget")
}

fn tell_blocked(pod: &TrackedPod, why: &str, context: &Context) {
    if let Some(node) = pod.pod.node.as_deref().and_then(|name| context.index.node(name)) {
        let message = format!("Failed to drain node, {why} (Pod={})", pod.pod.key());
        let object = ObjectRef::node(&node);
        let name = object.name.clone();
        context.recorder.publish(Event::warning(object, "FailedDraining", message).same([name]));
    }
}

fn api(key: &PodKey, context: &Context) -> Api<Pod> {
    Api::namespaced(context.client.clone(), &key.namespace)
}

/// A new pod of the same name must never pay for an old entry, hence the precondition. Written by hand: kube's own
/// eviction spells the options in a way no server reads.
fn eviction_request(key: &PodKey) -> http::Request<Vec<u8>> {
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": &*key.namespace, "name": &*key.name},
        "deleteOptions": {"preconditions": {"uid": &*key.uid}},
    });
    let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", key.namespace, key.name);
    crate::write::request("POST", &path, Some("application/json"), body.to_string().into_bytes())
}

/// Why the pod's node goes, as the counter of drained pods has it.
fn drained_reason(pod: &TrackedPod, context: &Context) -> String {
    let node = pod.pod.node.as_deref().and_then(|name| context.index.node(name));
    let claims = node.map(|node| context.index.claims_of_node(&node)).unwrap_or_default();
    let Some(claim) = claims.into_iter().collect::<Matches<_>>().one() else {
        return String::new();
    };
    match (claim.condition_status(DISRUPTION_REASON), claim.condition(DISRUPTION_REASON)) {
        (conditions::Status::True, Some(condition)) => condition.reason.clone(),
        _ => "Forceful Termination".to_owned(),
    }
}

/// What the pod's annotation amounts to, where people should know.
pub(crate) fn tell_protection(pod: &karpenter_core::Pod, protection: &Protection, context: &Context) {
    let object = || ObjectRef::pod(pod);
    let event = match protection {
        Protection::None | Protection::Always | Protection::UntilStarted => return,
        Protection::Invalid(why) => {
            let message = format!("Invalid karpenter.sh/do-not-disrupt annotation: {why}, ignoring annotation");
            Event::warning(object(), "InvalidDoNotDisruptAnnotation", message)
        }
        Protection::Until(end) => {
            let end = Timestamp::from_second(end.as_second()).unwrap_or(*end);
            let message = format!("The karpenter.sh/do-not-disrupt grace period will elapse at {end}");
            Event::normal(object(), "DoNotDisruptUntil", message)
        }
        Protection::Elapsed => {
            let message = "The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable";
            Event::normal(object(), "DoNotDisruptGracePeriodElapsed", message)
        }
    };
    context.recorder.publish(event);
}

#[async_trait]
impl Reconciler for Evictions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        // Drains put pods in; here they only fall out.
        if change.pod().is_some_and(|pods| pods.new.is_none()) {
            self.entries.entries().remove_named(&change.key);
        }
        match change.kind {
            Kind::PodDisruptionBudget => self.entries.entries().refused_in(&change.key.namespace),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(pod) = context.index.pod(key) else {
            self.entries.entries().remove_named(key);
            return Ok(Action::Done);
        };
        let (facts, now) = (PodFacts::of(&pod), context.clock.now());
        let Some(entry) = self.entries.entries().get(&facts.key) else {
            return Ok(Action::Done);
        };
        tell_protection(&pod.pod, &facts.protection(now), context);
        context.heard_lately(&READS)?;
        match eviction::decide(&facts, entry.deadline, now) {
            Decision::Drop => Ok(self.drop_entry(&facts.key)),
            Decision::Wait => Ok(Action::Again),
            Decision::Evict if entry.evicted.is_some() => Ok(Action::Done),
            Decision::Evict => self.evict(&pod, &entry, context).await,
            Decision::Delete { grace } => self.force(&pod, &facts.key, grace, context).await,
        }
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn backoff(&self) -> Backoff {
        Backoff { first: Duration::from_millis(100), last: Duration::from_secs(10), per_second: 100, burst: 1_000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_busy_is_no_budget() {
        for (status, by_budget) in [
            (json!({"code": 429, "message": "too many requests", "details": {"retryAfterSeconds": 1}}), false),
            (json!({"code": 429, "message": "slow down"}), false),
            (json!({"code": 429, "details": {"causes": [{"reason": "DisruptionBudget", "message": "needs 2"}]}}), true),
            (json!({"code": 500, "message": eviction::MULTIPLE_BUDGETS}), true),
            (json!({"code": 500, "message": "etcd is unhappy"}), false),
        ] {
            assert_eq!(is_by_budget(&serde_json::from_value(status.clone()).unwrap()), by_budget, "{status}");
        }
    }
}
