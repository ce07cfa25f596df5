//! CronJobs: a job whenever the schedule says so.

use super::cron::Schedule;
use super::replicas::{controller_ref, created};
use crate::clock::{until, wire};
use crate::key::{Key, uid};
use crate::op::{Event, Op, Source, Step};
use crate::world::{Kind, Object, World};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;
use std::time::Duration;

const SOURCE: Source = Source::Controller("cronjob-controller");
/// More missed times than this, and the schedule starts afresh.
const MANY: usize = 100;

pub fn step(world: &World, key: &Key, now: Timestamp) -> Step {
    let Some(cron) = world.cron_jobs.get(key) else { return Step::done() };
    if cron.metadata.deletion_timestamp.is_some() {
        return Step::done();
    }
    let spec = &cron.spec;
    let object = Object::CronJob(cron.clone());
    let owned = world.children(uid(&cron.metadata), Kind::Job).filter_map(|k| world.jobs.get(k));
    let mut jobs: Vec<Arc<Job>> = owned.cloned().collect();
    jobs.sort_by_key(|j| (created(&j.metadata), j.metadata.name.clone()));
    let mut step = Step::ops(prune(spec, &object, &jobs));
    let mut status = cron.status.clone().unwrap_or_default();
    let listed = status.active.get_or_insert_default();
    listed.extend(missing_reference(cron, &jobs));
    settle(&mut status, &object, &jobs, &mut step.ops);
    let again = if spec.suspend == Some(true) {
        None
    } else {
        start(cron, spec, &object, &jobs, &mut status, &mut step.ops, now)
    };
    if cron.status.clone().unwrap_or_default() != status {
        let mut updated = (**cron).clone();
        updated.status = Some(status);
        step.ops.push(Op::UpdateStatus(Object::from(updated)));
    }
    step.again(again)
}

fn ended(job: &Job) -> Option<&str> {
    let conditions = job.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.filter(|c| c.status == "True").map(|c| c.type_.as_str()).find(|t| *t == "Complete" || *t == "Failed")
}

/// Takes jobs that ended off the list of active ones.
fn settle(status: &mut CronJobStatus, object: &Object, jobs: &[Arc<Job>], ops: &mut Vec<Op>) {
    let before = status.active.take().unwrap_or_default();
    let mut active = Vec::new();
    for reference in before {
        let job = jobs.iter().find(|j| j.metadata.uid == reference.uid);
        match job.map(|j| ended(j)) {
            Some(None) => active.push(reference),
            Some(Some(how)) => {
                let message = format!("Saw completed job: {}, condition: {how}", reference.name.unwrap_or_default());
                ops.push(Op::Event(Event::normal(object, SOURCE, "SawCompletedJob", message)));
                let time = job.and_then(|j| j.status.as_ref()?.completion_time.clone());
                if how == "Complete" && time > status.last_successful_time {
                    status.last_successful_time = time;
                }
            }
            None => {}
        }
    }
    status.active = (!active.is_empty()).then_some(active);
}

fn prune(spec: &CronJobSpec, object: &Object, jobs: &[Arc<Job>]) -> Vec<Op> {
    let mut ops = Vec::new();
    for (how, limit) in [
        ("Complete", spec.successful_jobs_history_limit.unwrap_or(3)),
        ("Failed", spec.failed_jobs_history_limit.unwrap_or(1)),
    ] {
        let done: Vec<&Arc<Job>> =
            jobs.iter().filter(|j| ended(j) == Some(how) && j.metadata.deletion_timestamp.is_none()).collect();
        let extra = done.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        ops.extend(done.into_iter().take(extra).flat_map(|job| delete(job, object)));
    }
    ops
}

fn delete(job: &Arc<Job>, object: &Object) -> [Op; 2] {
    let message = format!("Deleted job {}", crate::key::name(&job.metadata));
    let key = Key::of(&job.metadata);
    let uid = job.metadata.uid.clone();
    [
        Op::Delete { kind: Kind::Job, key, uid, grace_seconds: None, propagation: Some("Background") },
        Op::Event(Event::normal(object, SOURCE, "SuccessfulDelete", message)),
    ]
}

/// Starts the job that is due; answers when the next one is.
fn start(
    cron: &Arc<CronJob>,
    spec: &CronJobSpec,
    object: &Object,
    jobs: &[Arc<Job>],
    status: &mut CronJobStatus,
    ops: &mut Vec<Op>,
    now: Timestamp,
) -> Option<Duration> {
    let zone = match spec.time_zone.as_deref() {
        None => TimeZone::UTC,
        Some(name) => match TimeZone::get(name) {
            Ok(zone) => zone,
            Err(error) => {
                let message = format!("invalid timeZone: {name:?}: {error}");
                ops.push(Op::Event(Event::warning(object, SOURCE, "UnknownTimeZone", message)));
                return None;
            }
        },
    };
    let schedule = match Schedule::parse(&spec.schedule) {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
            ops.push(Op::Event(Event::warning(object, SOURCE, "UnparseableSchedule", message)));
            return None;
        }
    };
    let next = schedule.next(now, &zone).map(|t| until(now, t));
    let since = status.last_schedule_time.as_ref().map_or_else(|| created(&cron.metadata), |t| t.0);
    let earliest =
        spec.starting_deadline_seconds.and_then(|s| now.checked_sub(jiff::SignedDuration::from_secs(s)).ok());
    let since = earliest.map_or(since, |e| since.max(e));
    let missed: Vec<Timestamp> = std::iter::successors(schedule.next(since, &zone), |t| schedule.next(*t, &zone))
        .take_while(|t| *t <= now)
        .take(MANY * 1000)
        .collect();
    let Some(&due) = missed.last() else { return next };
    if missed.len() > MANY && spec.starting_deadline_seconds.is_none() {
        let message = format!(
            "too many missed start times: {}. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
            missed.len()
        );
        ops.push(Op::Event(Event::warning(object, SOURCE, "TooManyMissedTimes", message)));
    }
    let name = format!("{}-{}", crate::key::name(&cron.metadata), due.as_second() / 60);
    let exists = jobs.iter().any(|j| j.metadata.name.as_deref() == Some(&name));
    if exists || status.last_schedule_time.as_ref().is_some_and(|t| t.0 >= due) {
        return next;
    }
    let active = status.active.clone().unwrap_or_default();
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid".to_owned();
            ops.push(Op::Event(Event::normal(object, SOURCE, "JobAlreadyActive", message)));
            return next;
        }
        Some("Replace") => {
            for job in jobs.iter().filter(|j| active.iter().any(|a| a.uid == j.metadata.uid)) {
                ops.extend(delete(job, object));
            }
            status.active = None;
        }
        _ => {}
    }
    ops.push(Op::Create(Object::from(job(cron, spec, object, &name, due))));
    ops.push(Op::Event(Event::normal(object, SOURCE, "SuccessfulCreate", format!("Created job {name}"))));
    status.last_schedule_time = Some(wire(due));
    // Its uid is known when the answer is in; the reference follows then.
    next
}

fn job(cron: &CronJob, spec: &CronJobSpec, object: &Object, name: &str, due: Timestamp) -> Job {
    let template = spec.job_template.metadata.clone().unwrap_or_default();
    let mut annotations = template.annotations.unwrap_or_default();
    annotations.insert("batch.kubernetes.io/cronjob-scheduled-timestamp".into(), due.to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: cron.metadata.namespace.clone(),
            labels: template.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_ref(object)]),
            ..ObjectMeta::default()
        },
        spec: spec.job_template.spec.clone(),
        status: None,
    }
}

/// A job that runs and is not on its cron job's list yet.
fn missing_reference(cron: &CronJob, jobs: &[Arc<Job>]) -> Vec<ObjectReference> {
    let listed = cron.status.as_ref().and_then(|s| s.active.as_deref()).unwrap_or_default();
    let running = jobs.iter().filter(|j| ended(j).is_none() && !listed.iter().any(|r| r.uid == j.metadata.uid));
    running
        .map(|job| ObjectReference {
            api_version: Some("batch/v1".into()),
            kind: Some("Job".into()),
            name: job.metadata.name.clone(),
            namespace: job.metadata.namespace.clone(),
            uid: job.metadata.uid.clone(),
            resource_version: job.metadata.resource_version.clone(),
            ..ObjectReference::default()
        })
        .collect()
}
