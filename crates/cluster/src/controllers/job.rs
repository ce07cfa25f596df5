//! Jobs: pods that run to an end, counted once each.
//!
//! A finished pod is first noted in the status, then loses the finalizer that kept it, then is counted: whatever step is
//! lost on the way, the next look takes up from there.

use super::replicas::{self, is_ready, is_terminating, node_of};
use crate::clock::{later, until, wire};
use crate::key::{Key, annotation, uid};
use crate::op::{Event, Op, Source, Step, Style};
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{
    Job, JobCondition, JobSpec, JobStatus, PodFailurePolicyRule, UncountedTerminatedPods,
};
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const SOURCE: Source = Source::Controller("job-controller");
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LAST_BACKOFF: Duration = Duration::from_secs(600);

pub fn step(world: &World, key: &Key, now: Timestamp) -> Step {
    let Some(job) = world.jobs.get(key) else {
        return Step::ops(orphaned(world, key));
    };
    let Some(spec) = &job.spec else { return Step::done() };
    let object = Object::Job(job.clone());
    let pods: Vec<Arc<Pod>> = world.pods_of(uid(&job.metadata)).cloned().collect();
    if has_condition(job, "Complete") || has_condition(job, "Failed") || job.metadata.deletion_timestamp.is_some() {
        return finished(job, &object, &pods, now);
    }
    let mut view = View {
        job,
        spec,
        object,
        pods,
        status: job.status.clone().unwrap_or_default(),
        now,
        ops: Vec::new(),
        again: None,
    };
    view.run();
    view.finish()
}

/// Pods of a job that is gone must not be kept by it.
fn orphaned(world: &World, key: &Key) -> Vec<Op> {
    let in_namespace = world.pods.in_namespace(&key.namespace).map(|(_, p)| p);
    let of_job = in_namespace.filter(|p| {
        has_finalizer(p)
            && crate::key::controller_of(&p.metadata).is_none_or(|o| o.kind == "Job" && o.name == *key.name)
    });
    of_job.map(release).collect()
}

fn has_finalizer(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER)
}

fn release(pod: &Arc<Pod>) -> Op {
    let body = json!({"metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    Op::Patch { kind: Kind::Pod, key: Key::of(&pod.metadata), subresource: "", style: Style::Strategic, body }
}

fn has_condition(job: &Job, kind: &str) -> bool {
    job.status.iter().flat_map(|s| s.conditions.iter().flatten()).any(|c| c.type_ == kind && c.status == "True")
}

fn finished(job: &Arc<Job>, object: &Object, pods: &[Arc<Pod>], now: Timestamp) -> Step {
    let mut step = Step::ops(pods.iter().filter(|p| has_finalizer(p)).map(release).collect());
    let ttl = job.spec.as_ref().and_then(|s| s.ttl_seconds_after_finished);
    let ended = job
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten())
        .filter(|c| (c.type_ == "Complete" || c.type_ == "Failed") && c.status == "True");
    let ended = ended.filter_map(|c| c.last_transition_time.as_ref()).map(|t| t.0).max();
    if let (Some(ttl), Some(ended), None) = (ttl, ended, &job.metadata.deletion_timestamp) {
        let due = later(ended, Duration::from_secs(u64::try_from(ttl).unwrap_or(0)));
        if due > now {
            return step.again(Some(until(now, due)));
        }
        step.ops.push(Op::Delete {
            kind: Kind::Job,
            key: Key::of(object.meta()),
            uid: object.meta().uid.clone(),
            grace_seconds: None,
            propagation: Some("Foreground"),
        });
    }
    step
}

struct View<'a> {
    job: &'a Arc<Job>,
    spec: &'a JobSpec,
    object: Object,
    pods: Vec<Arc<Pod>>,
    status: JobStatus,
    now: Timestamp,
    ops: Vec<Op>,
    again: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Succeeded,
    Failed,
    /// Ended in a way the job's policy does not count.
    Ignored,
}

impl View<'_> {
    fn indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    /// How a pod ended, as far as counting goes; `None` while it may still end.
    fn fate(&self, pod: &Pod) -> Option<Fate> {
        let fate = match replicas::phase(pod) {
            "Succeeded" => return Some(Fate::Succeeded),
            "Failed" => Fate::Failed,
            // A pod that was deleted counts as failed; where it never ran nobody will tell so.
            _ if is_terminating(pod)
                && (self.spec.pod_failure_policy.is_none()
                    && self.spec.pod_replacement_policy.as_deref() != Some("Failed")
                    || node_of(pod).is_empty()) =>
            {
                Fate::Failed
            }
            _ => return None,
        };
        match self.policy(pod) {
            Some("Ignore") => Some(Fate::Ignored),
            _ => Some(fate),
        }
    }

    fn policy(&self, pod: &Pod) -> Option<&str> {
        let rules = self.spec.pod_failure_policy.as_ref()?.rules.iter();
        rules.into_iter().find(|r| rule_matches(r, pod)).map(|r| r.action.as_str())
    }

    fn run(&mut self) {
        self.count();
        let active: Vec<Arc<Pod>> = self.pods.iter().filter(|p| replicas::is_active(p)).cloned().collect();
        let succeeded = self.succeeded();
        let failed = self.failed();
        if let Some((reason, message)) = self.failure(failed) {
            self.end(&active, "FailureTarget", "Failed", reason, message);
            return;
        }
        let done = match self.spec.completions {
            Some(wanted) => succeeded >= wanted,
            None => succeeded > 0 && active.is_empty(),
        };
        if done {
            let message = "Reached expected number of succeeded pods".to_owned();
            self.end(&active, "SuccessCriteriaMet", "Complete", "CompletionsReached", message);
            return;
        }
        let suspended = self.spec.suspend == Some(true);
        self.suspend(suspended);
        if suspended {
            active.iter().for_each(|p| self.delete(p));
            self.tally(&[]);
            return;
        }
        if self.status.start_time.is_none() {
            self.status.start_time = Some(wire(self.now));
        }
        self.manage(&active, succeeded, failed);
        self.tally(&active);
    }

    /// Notes ended pods, lets them go, and counts those that are gone.
    fn count(&mut self) {
        let mut uncounted = self.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let held: BTreeSet<String> =
            self.pods.iter().filter(|p| has_finalizer(p)).map(|p| uid(&p.metadata).to_owned()).collect();
        let settle = |list: &mut Option<Vec<String>>| {
            let before = list.as_ref().map_or(0, Vec::len);
            let rest: Vec<String> = list.take().into_iter().flatten().filter(|u| held.contains(u)).collect();
            let counted = before - rest.len();
            *list = (!rest.is_empty()).then_some(rest);
            i32::try_from(counted).unwrap_or(i32::MAX)
        };
        let (good, bad) = (settle(&mut uncounted.succeeded), settle(&mut uncounted.failed));
        if !self.indexed() {
            self.status.succeeded = some(self.status.succeeded.unwrap_or(0) + good);
        }
        self.status.failed = some(self.status.failed.unwrap_or(0) + bad);
        let mut releases = Vec::new();
        let mut complete = self.completed_indexes();
        for pod in self.pods.clone().iter().filter(|p| has_finalizer(p)) {
            let Some(fate) = self.fate(pod) else { continue };
            let id = uid(&pod.metadata).to_owned();
            let list = match fate {
                Fate::Succeeded => &mut uncounted.succeeded,
                Fate::Failed => &mut uncounted.failed,
                Fate::Ignored => {
                    releases.push(release(pod));
                    continue;
                }
            };
            let list = list.get_or_insert_default();
            if !list.contains(&id) {
                list.push(id);
            }
            if let (Fate::Succeeded, Some(index)) = (fate, index_of(pod)) {
                complete.insert(index);
            }
            releases.push(release(pod));
        }
        if self.indexed() {
            self.status.succeeded = some(i32::try_from(complete.len()).unwrap_or(i32::MAX));
            self.status.completed_indexes = (!complete.is_empty()).then(|| ranges(&complete));
        }
        self.status.uncounted_terminated_pods =
            Some(UncountedTerminatedPods { succeeded: uncounted.succeeded, failed: uncounted.failed });
        if self.job.status.as_ref() != Some(&self.status) && !releases.is_empty() {
            self.ops.push(self.status_op());
        }
        self.ops.extend(releases);
    }

    fn completed_indexes(&self) -> BTreeSet<i32> {
        let mut all = BTreeSet::new();
        for part in self.status.completed_indexes.iter().flat_map(|s| s.split(',')).filter(|p| !p.is_empty()) {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(from), Ok(to)) = (from.parse::<i32>(), to.parse::<i32>()) {
                all.extend(from..=to);
            }
        }
        all
    }

    fn succeeded(&self) -> i32 {
        let waiting =
            self.status.uncounted_terminated_pods.as_ref().and_then(|u| u.succeeded.as_ref()).map_or(0, Vec::len);
        self.status.succeeded.unwrap_or(0) + if self.indexed() { 0 } else { waiting as i32 }
    }

    fn failed(&self) -> i32 {
        let waiting =
            self.status.uncounted_terminated_pods.as_ref().and_then(|u| u.failed.as_ref()).map_or(0, Vec::len);
        self.status.failed.unwrap_or(0) + waiting as i32
    }

    fn failure(&mut self, failed: i32) -> Option<(&'static str, String)> {
        if let Some(c) =
            self.status.conditions.iter().flatten().find(|c| c.type_ == "FailureTarget" && c.status == "True")
        {
            let reason = match c.reason.as_deref() {
                Some("DeadlineExceeded") => "DeadlineExceeded",
                Some("PodFailurePolicy") => "PodFailurePolicy",
                _ => "BackoffLimitExceeded",
            };
            return Some((reason, c.message.clone().unwrap_or_default()));
        }
        if let Some(pod) =
            self.pods.iter().find(|p| replicas::phase(p) == "Failed" && self.policy(p) == Some("FailJob"))
        {
            let message = format!("Pod {} matching FailJob rule", Key::of(&pod.metadata));
            return Some(("PodFailurePolicy", message));
        }
        if self.spec.backoff_limit_per_index.is_none() && failed > self.spec.backoff_limit.unwrap_or(6) {
            return Some(("BackoffLimitExceeded", "Job has reached the specified backoff limit".into()));
        }
        let started = self.status.start_time.as_ref().map(|t| t.0);
        if let (Some(seconds), Some(started), false) =
            (self.spec.active_deadline_seconds, started, self.spec.suspend == Some(true))
        {
            let due = later(started, Duration::from_secs(seconds.unsigned_abs()));
            if due <= self.now {
                return Some(("DeadlineExceeded", "Job was active longer than specified deadline".into()));
            }
            self.look_again(until(self.now, due));
        }
        None
    }

    fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |a| a.min(after)));
    }

    /// First the verdict, then, once no pod runs any more, the end.
    fn end(&mut self, active: &[Arc<Pod>], verdict: &str, end: &str, reason: &'static str, message: String) {
        active.iter().for_each(|p| self.delete(p));
        self.tally(&[]);
        self.set_condition(verdict, reason, &message);
        let lingering = self.pods.iter().any(|p| !replicas::is_finished(p));
        let uncounted =
            self.status.uncounted_terminated_pods.as_ref().is_some_and(|u| u.succeeded.is_some() || u.failed.is_some());
        if lingering || uncounted {
            return;
        }
        self.set_condition(end, reason, &message);
        self.status.terminating = Some(0);
        if end == "Complete" {
            self.status.completion_time = Some(wire(self.now));
            self.ops.push(Op::Event(Event::normal(&self.object, SOURCE, "Completed", "Job completed".into())));
        } else {
            self.ops.push(Op::Event(Event::warning(&self.object, SOURCE, reason, message)));
        }
    }

    fn set_condition(&mut self, kind: &str, reason: &str, message: &str) {
        let conditions = self.status.conditions.get_or_insert_default();
        if conditions.iter().any(|c| c.type_ == kind && c.status == "True") {
            return;
        }
        conditions.retain(|c| c.type_ != kind);
        conditions.push(JobCondition {
            type_: kind.into(),
            status: "True".into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_probe_time: Some(wire(self.now)),
            last_transition_time: Some(wire(self.now)),
        });
    }

    fn suspend(&mut self, suspended: bool) {
        let before =
            self.status.conditions.iter().flatten().find(|c| c.type_ == "Suspended").map(|c| c.status == "True");
        if before.unwrap_or(false) == suspended && (suspended || before.is_none() || before == Some(false)) {
            return;
        }
        let (status, reason, message) =
            if suspended { ("True", "JobSuspended", "Job suspended") } else { ("False", "JobResumed", "Job resumed") };
        let conditions = self.status.conditions.get_or_insert_default();
        conditions.retain(|c| c.type_ != "Suspended");
        conditions.push(JobCondition {
            type_: "Suspended".into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_probe_time: Some(wire(self.now)),
            last_transition_time: Some(wire(self.now)),
        });
        self.status.start_time = if suspended { None } else { Some(wire(self.now)) };
        let reason = if suspended { "Suspended" } else { "Resumed" };
        self.ops.push(Op::Event(Event::normal(&self.object, SOURCE, reason, message.into())));
    }

    fn manage(&mut self, active: &[Arc<Pod>], succeeded: i32, failed: i32) {
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let count = i32::try_from(active.len()).unwrap_or(i32::MAX);
        let wanted = match self.spec.completions {
            None if succeeded > 0 => count,
            None => parallelism,
            Some(completions) => parallelism.min(completions - succeeded),
        }
        .max(0);
        if count > wanted {
            let mut extra: Vec<&Arc<Pod>> = active.iter().collect();
            extra.sort_by_key(|p| {
                (
                    !node_of(p).is_empty(),
                    is_ready(p),
                    std::cmp::Reverse(replicas::created(&p.metadata)),
                    p.metadata.name.clone(),
                )
            });
            extra.into_iter().take((count - wanted) as usize).for_each(|p| self.delete(p));
            return;
        }
        // Pods that are going away keep their place where replacements must wait for them.
        let leaving = self.pods.iter().filter(|p| is_terminating(p) && !replicas::is_finished(p)).count() as i32;
        let waits =
            self.spec.pod_replacement_policy.as_deref() == Some("Failed") || self.spec.pod_failure_policy.is_some();
        let missing = wanted - count - if waits { leaving } else { 0 };
        if missing <= 0 {
            return;
        }
        if let Some(wait) = self.backoff(failed) {
            self.look_again(wait);
            return;
        }
        let indexes = self.free_indexes(active);
        for i in 0..missing as usize {
            let index = indexes.get(i).copied();
            if self.indexed() && index.is_none() {
                return;
            }
            self.create(index);
        }
    }

    fn backoff(&self, failed: i32) -> Option<Duration> {
        if failed == 0 {
            return None;
        }
        let ended = |p: &Arc<Pod>| {
            let statuses = p.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
            let times =
                statuses.filter_map(|c| c.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()).map(|t| t.0);
            times.max().unwrap_or_else(|| replicas::created(&p.metadata))
        };
        let last_good = self.pods.iter().filter(|p| replicas::phase(p) == "Succeeded").map(ended).max();
        let bad: Vec<Timestamp> = self
            .pods
            .iter()
            .filter(|p| replicas::phase(p) == "Failed")
            .map(ended)
            .filter(|t| last_good.is_none_or(|g| *t > g))
            .collect();
        let last = bad.iter().max()?;
        let pause = FIRST_BACKOFF.saturating_mul(1 << (bad.len() - 1).min(10)).min(LAST_BACKOFF);
        Some(until(self.now, later(*last, pause))).filter(|d| !d.is_zero())
    }

    fn free_indexes(&self, active: &[Arc<Pod>]) -> Vec<i32> {
        if !self.indexed() {
            return Vec::new();
        }
        let done = self.completed_indexes();
        let running: BTreeSet<i32> = active.iter().filter_map(|p| index_of(p)).collect();
        let given_up = self.given_up();
        (0..self.spec.completions.unwrap_or(0))
            .filter(|i| !done.contains(i) && !running.contains(i) && !given_up.contains(i))
            .collect()
    }

    /// Indexes that failed too often.
    fn given_up(&self) -> BTreeSet<i32> {
        let Some(limit) = self.spec.backoff_limit_per_index else { return BTreeSet::new() };
        let mut failures: BTreeMap<i32, i32> = BTreeMap::new();
        for pod in self.pods.iter().filter(|p| replicas::phase(p) == "Failed") {
            if let Some(index) = index_of(pod) {
                *failures.entry(index).or_default() +=
                    if self.policy(pod) == Some("FailIndex") { limit + 1 } else { 1 };
            }
        }
        failures.into_iter().filter(|(_, n)| *n > limit).map(|(i, _)| i).collect()
    }

    fn create(&mut self, index: Option<i32>) {
        let mut pod = replicas::pod_from(&self.spec.template, &self.object);
        pod.metadata.finalizers.get_or_insert_default().push(FINALIZER.into());
        if let Some(index) = index {
            let name = crate::key::name(&self.job.metadata);
            pod.metadata.generate_name = Some(format!("{name}-{index}-"));
            pod.metadata.annotations.get_or_insert_default().insert(INDEX.into(), index.to_string());
            pod.metadata.labels.get_or_insert_default().insert(INDEX.into(), index.to_string());
            let spec = pod.spec.get_or_insert_default();
            spec.hostname = Some(format!("{name}-{index}"));
            let source = json!({"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}});
            for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
                let env = container.env.get_or_insert_default();
                if !env.iter().any(|e| e.name == "JOB_COMPLETION_INDEX") {
                    let value_from = serde_json::from_value(source.clone()).ok();
                    env.push(EnvVar { name: "JOB_COMPLETION_INDEX".into(), value: None, value_from });
                }
            }
        }
        let event = Event::normal(&self.object, SOURCE, "SuccessfulCreate", "Created pod: {}".into());
        self.ops.push(Op::CreateAndTell(Object::from(pod), event));
    }

    fn delete(&mut self, pod: &Arc<Pod>) {
        self.ops.push(Op::delete(&Object::Pod(pod.clone())));
        let message = format!("Deleted pod: {}", crate::key::name(&pod.metadata));
        self.ops.push(Op::Event(Event::normal(&self.object, SOURCE, "SuccessfulDelete", message)));
    }

    fn tally(&mut self, active: &[Arc<Pod>]) {
        self.status.active = some(i32::try_from(active.len()).unwrap_or(i32::MAX));
        self.status.ready = Some(active.iter().filter(|p| is_ready(p)).count() as i32);
        self.status.terminating =
            Some(self.pods.iter().filter(|p| is_terminating(p) && !replicas::is_finished(p)).count() as i32);
    }

    fn status_op(&self) -> Op {
        let body = json!({"status": self.status});
        // A merge patch leaves out what is not set, so what must go is said to.
        let mut body = body;
        for key in ["active", "startTime", "succeeded", "failed", "completedIndexes"] {
            if body["status"].get(key).is_none() {
                body["status"][key] = serde_json::Value::Null;
            }
        }
        for key in ["succeeded", "failed"] {
            if body["status"]["uncountedTerminatedPods"].get(key).is_none() {
                body["status"]["uncountedTerminatedPods"][key] = serde_json::Value::Null;
            }
        }
        Op::Patch {
            kind: Kind::Job,
            key: Key::of(&self.job.metadata),
            subresource: "status",
            style: Style::Merge,
            body,
        }
    }

    fn finish(mut self) -> Step {
        let normal = |s: &JobStatus| {
            let mut s = s.clone();
            s.uncounted_terminated_pods =
                s.uncounted_terminated_pods.filter(|u| u.succeeded.is_some() || u.failed.is_some());
            s
        };
        if self.job.status.as_ref().map(normal) != Some(normal(&self.status)) {
            self.ops.push(self.status_op());
        }
        Step::ops(self.ops).again(self.again)
    }
}

fn some(n: i32) -> Option<i32> {
    (n > 0).then_some(n)
}

fn index_of(pod: &Pod) -> Option<i32> {
    annotation(&pod.metadata, INDEX)?.parse().ok()
}

/// "1,3-5".
fn ranges(indexes: &BTreeSet<i32>) -> String {
    let mut parts: Vec<(i32, i32)> = Vec::new();
    for &i in indexes {
        match parts.last_mut() {
            Some((_, end)) if *end + 1 == i => *end = i,
            _ => parts.push((i, i)),
        }
    }
    let text = parts.into_iter().map(|(from, to)| match to - from {
        0 => from.to_string(),
        1 => format!("{from},{to}"),
        _ => format!("{from}-{to}"),
    });
    text.collect::<Vec<_>>().join(",")
}

fn rule_matches(rule: &PodFailurePolicyRule, pod: &Pod) -> bool {
    if let Some(exit) = &rule.on_exit_codes {
        let statuses = pod
            .status
            .iter()
            .flat_map(|s| s.container_statuses.iter().flatten().chain(s.init_container_statuses.iter().flatten()));
        return statuses.filter(|c| exit.container_name.as_ref().is_none_or(|n| *n == c.name)).any(|c| {
            let code = c.state.as_ref().and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code);
            code.is_some_and(|code| code != 0 && (exit.operator == "In") == exit.values.contains(&code))
        });
    }
    rule.on_pod_conditions.iter().flatten().any(|wanted| {
        replicas::condition(pod, &wanted.type_).is_some_and(|c| c.status == wanted.status.as_deref().unwrap_or("True"))
    })
}
