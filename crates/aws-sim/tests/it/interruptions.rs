//! Interruptions, from the message to the deleted claim.

use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_aws_sim::{Script, Target, Warning};
use karpenter_provider::CloudProvider;
use karpenter_provider_aws::calls::{CapacityReservation, InstanceStatus, StatusCheck};
use karpenter_provider_aws::instance_status::InstanceHealth;
use karpenter_provider_aws::interruption::Interruption;
use karpenter_provider_aws::tasks;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::lab::{CAPACITY, Lab, TYPE, claim, default_spec, quiet};

/// A stored claim with its instance; the instance's id.
async fn launched(lab: &Lab, name: &str) -> String {
    launched_as(lab, claim(name, &[(CAPACITY, "In", &["spot"]), (TYPE, "In", &["m5.large"])])).await
}

async fn launched_as(lab: &Lab, ask: NodeClaim) -> String {
    let name = &ask.metadata.name.clone().unwrap();
    let machine = lab.provider.create(&ask).await.unwrap();
    let claims = Api::<NodeClaim>::all(lab.client.clone());
    let mut stored = ask;
    stored.metadata.uid = None;
    stored.metadata.labels.get_or_insert_default().extend(machine.labels.clone());
    // Deleting must not mean gone: the lifecycle has a finalizer on it.
    stored.metadata.finalizers = Some(vec!["karpenter.sh/termination".to_owned()]);
    let mut stored = claims.create(&PostParams::default(), &stored).await.unwrap();
    stored.status.get_or_insert_default().provider_id = Some(machine.provider_id.clone());
    claims.replace_status(name, &PostParams::default(), &stored).await.unwrap();
    machine.provider_id.rsplit('/').next().unwrap().to_owned()
}

async fn is_deleting(lab: &Lab, name: &str) -> bool {
    Api::<NodeClaim>::all(lab.client.clone()).get(name).await.unwrap().metadata.deletion_timestamp.is_some()
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_instance_loses_its_claim() {
    // covers: AWS-INT-01, AWS-INT-08, AWS-INT-11, AWS-INT-13, API-EV-28, API-EV-29, API-EV-30, API-EV-31, API-EV-32, API-EV-33, API-EV-34
    // covers: API-IQ-03, API-IQ-11, API-IQ-12, API-IQ-13, API-IQ-14, API-IQ-15
    for (warning, reason, deletes) in [
        (Warning::SpotInterruption, "SpotInterrupted", true),
        (Warning::ScheduledChange, "InstanceUnhealthy", true),
        (Warning::Stopping, "InstanceStopping", true),
        (Warning::Terminated, "InstanceTerminating", true),
        (Warning::CapacityReservation, "CapacityReservationInstanceInterrupted", true),
        (Warning::RebalanceRecommendation, "SpotRebalanceRecommendation", false),
    ] {
        let lab = Lab::new(quiet(1)).await;
        lab.ready().await;
        let (one, _other) = (launched(&lab, "one").await, launched(&lab, "other").await);
        let queue = Interruption::new("simulated");
        lab.region.warn(&one, warning);
        queue.round(&lab.parts).await.unwrap();
        assert_eq!(is_deleting(&lab, "one").await, deletes, "{warning:?}");
        assert!(!is_deleting(&lab, "other").await);
        assert_eq!(lab.region.queue_length(), 0);
        let told = lab.notices.messages();
        assert!(told.iter().any(|message| message.starts_with(reason)), "{told:?}");
        assert_eq!(told.iter().any(|message| message.starts_with("TerminatingOnInterruption")), deletes);
        let counted = lab.failures.0.lock().unwrap().clone();
        let ours = |line: &String| line.starts_with("interrupted ") && line.ends_with(" pool spot");
        assert_eq!(counted.iter().filter(|line| ours(line)).count(), usize::from(deletes));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reclaimed_spot_pool_is_avoided() {
    // covers: AWS-INT-14, AWS-OFF-16
    let lab = Lab::new(quiet(1)).await;
    let pool = lab.ready().await;
    let id = launched(&lab, "one").await;
    let zone = lab.region.instances()[0].instance.zone.clone();
    let available = |types: &[std::sync::Arc<karpenter_core::InstanceType>]| {
        let kind = types.iter().find(|kind| &*kind.name == "m5.large").unwrap();
        let spot = kind.offerings.iter().filter(|o| o.available && o.capacity_type().as_deref() == Some("spot"));
        spot.filter_map(|offering| offering.zone()).map(|zone| zone.to_string()).collect::<Vec<_>>()
    };
    assert!(available(&lab.provider.instance_types(&pool).await.unwrap()).contains(&zone));
    lab.region.warn(&id, Warning::SpotInterruption);
    Interruption::new("simulated").round(&lab.parts).await.unwrap();
    let left = available(&lab.provider.instance_types(&pool).await.unwrap());
    assert!(!left.contains(&zone) && left.len() == 2, "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn foreign_and_broken_messages_hold_nobody_up() {
    // covers: AWS-INT-06, AWS-INT-07, AWS-INT-08, AWS-INT-10, API-IQ-02
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let id = launched(&lab, "one").await;
    for body in ["", "not json", "{}", "{\"version\": \"0\", \"source\": \"aws.s3\", \"detail-type\": \"x\"}"] {
        lab.region.send_message(body);
    }
    lab.region.warn("i-somebody-elses", Warning::SpotInterruption);
    lab.region.warn(&id, Warning::SpotInterruption);
    let queue = Interruption::new("simulated");
    queue.round(&lab.parts).await.unwrap();
    assert!(is_deleting(&lab, "one").await);
    assert_eq!(lab.region.queue_length(), 0);
    // A second message about a claim that is going already changes nothing.
    lab.region.warn(&id, Warning::Terminated);
    queue.round(&lab.parts).await.unwrap();
    assert_eq!(lab.region.queue_length(), 0);
    let patch = json!({"metadata": {"finalizers": null}});
    let claims = Api::<NodeClaim>::all(lab.client.clone());
    claims.patch("one", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    lab.region.warn(&id, Warning::Terminated);
    queue.round(&lab.parts).await.unwrap();
    assert_eq!(lab.region.queue_length(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_handled_comes_again() {
    // covers: AWS-INT-08, AWS-INT-15, API-IQ-02, API-IAM-48
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let id = launched(&lab, "one").await;
    assert!(Interruption::new("other").round(&lab.parts).await.is_err(), "there is no such queue");
    let queue = Interruption::new("simulated");
    let denied = Target::Call { operation: "ReceiveMessage", server_fault: false };
    lab.region.script(Script::new(denied, "AccessDenied", 1));
    assert!(queue.round(&lab.parts).await.is_err());
    lab.region.warn(&id, Warning::SpotInterruption);
    lab.region.script(Script::new(Target::Call { operation: "DeleteMessage", server_fault: true }, "InternalError", 1));
    queue.round(&lab.parts).await.unwrap();
    assert_eq!(lab.region.queue_length(), 1);
    tokio::time::sleep(Duration::from_secs(21)).await;
    queue.round(&lab.parts).await.unwrap();
    assert_eq!(lab.region.queue_length(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_messages_are_taken_ten_at_a_time_without_a_pause() {
    // covers: AWS-INT-02, API-IQ-02
    let lab = Lab::new(quiet(1)).await;
    for number in 0..95 {
        lab.region.warn(&format!("i-{number}"), Warning::SpotInterruption);
    }
    let (queue, began) = (Interruption::new("simulated"), tokio::time::Instant::now());
    for round in 1..=10 {
        tokio::time::sleep(queue.round(&lab.parts).await.unwrap()).await;
        assert_eq!(lab.region.queue_length(), 95_usize.saturating_sub(10 * round), "{round}");
    }
    assert!(began.elapsed() < Duration::from_secs(1));
}

fn status(id: &str, since: Option<jiff::Timestamp>, events: &[&str]) -> InstanceStatus {
    let failed = since.map(|since| StatusCheck { status: "failed".into(), impaired_since: Some(since) });
    InstanceStatus {
        instance_id: id.to_owned(),
        system_checks: Vec::new(),
        instance_checks: failed.into_iter().collect(),
        events: events.iter().map(|event| (*event).to_owned()).collect(),
    }
}

async fn deadline(lab: &Lab, name: &str) -> Option<String> {
    let claim = Api::<NodeClaim>::all(lab.client.clone()).get(name).await.unwrap();
    claim.metadata.annotations?.get("karpenter.sh/nodeclaim-termination-timestamp").cloned()
}

#[tokio::test(start_paused = true)]
async fn sick_instances_are_replaced_in_a_hurry_and_planned_ones_with_care() {
    // covers: AWS-INT-11, AWS-INT-16, AWS-INT-17, AWS-INT-18, AWS-INT-19, API-IQ-16, API-IQ-17
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let (sick, planned, well) =
        (launched(&lab, "sick").await, launched(&lab, "planned").await, launched(&lab, "well").await);
    let (health, began) = (InstanceHealth::default(), (lab.now)());
    lab.region.set_health(status(&sick, Some(began), &["instance-stop"]));
    lab.region.set_health(status("i-somebody-elses", Some(began), &["instance-stop"]));
    lab.region.set_health(status(&well, Some(began), &[]));
    health.round(&lab.parts).await.unwrap();
    assert!(
        is_deleting(&lab, "sick").await && deadline(&lab, "sick").await.is_none(),
        "so far EC2 only plans to stop it"
    );
    assert!(!is_deleting(&lab, "well").await, "it may recover");
    lab.region.heal(&well);
    tokio::time::sleep(Duration::from_secs(120)).await;
    lab.region.set_health(status(&planned, None, &["instance-retirement"]));
    let wait = health.round(&lab.parts).await.unwrap();
    assert_eq!(wait, Duration::from_secs(60));
    assert_eq!(deadline(&lab, "sick").await.as_deref(), Some("2026-01-02T00:02:00Z"), "by now its checks fail");
    assert!(is_deleting(&lab, "planned").await && deadline(&lab, "planned").await.is_none());
    assert!(!is_deleting(&lab, "well").await);
    let counted = |lab: &Lab| {
        let lines = lab.failures.0.lock().unwrap();
        let mut of: Vec<String> = lines.iter().filter(|line| line.starts_with("unhealthy")).cloned().collect();
        of.sort();
        of
    };
    let want = ["unhealthy EventStatus", "unhealthy EventStatus", "unhealthy InstanceStatus"];
    assert_eq!(counted(&lab), want, "once for each instance and category");
    health.round(&lab.parts).await.unwrap();
    assert_eq!(counted(&lab), want);
    lab.region.heal(&planned);
    health.round(&lab.parts).await.unwrap();
    lab.region.set_health(status(&planned, None, &["instance-retirement"]));
    health.round(&lab.parts).await.unwrap();
    assert_eq!(counted(&lab).len(), want.len() + 1, "it had recovered");
    assert!(lab.notices.messages().iter().any(|message| message.starts_with("InstanceUnhealthy")));
    let first = lab.failures.0.lock().unwrap().clone();
    let by = |kind: &str| first.iter().filter(|line| line.starts_with(&format!("interrupted {kind} "))).count();
    assert_eq!((by("event_status"), by("instance_status")), (2, 0), "a claim that goes already is not counted again");
}

#[tokio::test(start_paused = true)]
async fn both_at_once_is_a_hurry() {
    // covers: AWS-INT-18
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let sick = launched(&lab, "sick").await;
    lab.region.set_health(status(&sick, Some((lab.now)()), &["instance-stop"]));
    tokio::time::sleep(Duration::from_secs(120)).await;
    InstanceHealth::default().round(&lab.parts).await.unwrap();
    assert!(is_deleting(&lab, "sick").await);
    assert_eq!(deadline(&lab, "sick").await.as_deref(), Some("2026-01-02T00:02:00Z"));
    let counted = lab.failures.0.lock().unwrap().clone();
    assert_eq!(counted.iter().filter(|line| line.starts_with("interrupted instance_status ")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_permission_sick_instances_are_asked_for_hourly() {
    // covers: AWS-INT-20
    let lab = Lab::new(quiet(1)).await;
    let health = InstanceHealth::default();
    let denied = |code: &str| {
        let target = Target::Call { operation: "DescribeInstanceStatus", server_fault: false };
        lab.region.script(Script::new(target, code, 1));
    };
    denied("UnauthorizedOperation");
    assert_eq!(health.round(&lab.parts).await.unwrap(), Duration::from_secs(3600));
    denied("RequestLimitExceeded");
    assert!(health.round(&lab.parts).await.is_err(), "tried again soon");
    assert_eq!(health.round(&lab.parts).await.unwrap(), Duration::from_secs(60), "the permission was given");
}

#[tokio::test(start_paused = true)]
async fn without_a_queue_nobody_listens_and_its_address_is_asked_for_once() {
    // covers: API-IQ-01, AWS-INT-01
    let lab = Lab::new(quiet(1)).await;
    let listens = |lab: &Lab| tasks(&lab.parts, &lab.client).iter().any(|task| task.name == "interruption");
    assert!(!listens(&lab));
    let empty = Lab::with(quiet(1), |settings| settings.interruption_queue = Some(String::new())).await;
    assert!(!listens(&empty));
    let named = Lab::with(quiet(1), |settings| settings.interruption_queue = Some("simulated".to_owned())).await;
    assert!(listens(&named));
    let (queue, asked) = (Interruption::new("simulated"), |lab: &Lab| lab.region.calls()["GetQueueUrl"]);
    let missing = Target::Call { operation: "GetQueueUrl", server_fault: false };
    lab.region.script(Script::new(missing, "AWS.SimpleQueueService.NonExistentQueue", 2));
    for _ in 0..2 {
        assert!(queue.round(&lab.parts).await.is_err(), "not there yet");
    }
    for _ in 0..3 {
        queue.round(&lab.parts).await.unwrap();
    }
    assert_eq!(asked(&lab), 3, "until it is there, and then no more");
}

/// As EventBridge writes them.
fn event(source: &str, kind: &str, detail: serde_json::Value) -> String {
    json!({"version": "0", "id": "1", "source": source, "detail-type": kind, "account": "111122223333",
        "region": "us-east-1", "time": "2026-01-02T00:00:00Z", "resources": [], "detail": detail})
    .to_string()
}

#[tokio::test(start_paused = true)]
async fn each_state_and_category_means_what_it_says() {
    // covers: API-IQ-03, API-IQ-12, API-IQ-13, API-IQ-14
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let queue = Interruption::new("simulated");
    let change = |id: &str, state: &str| {
        event("aws.ec2", "EC2 Instance State-change Notification", json!({"instance-id": id, "state": state}))
    };
    for (state, kind) in [
        ("pending", "no_op"),
        ("running", "no_op"),
        ("stopping", "instance_stopped"),
        ("stopped", "instance_stopped"),
        ("shutting-down", "instance_terminated"),
        ("terminated", "instance_terminated"),
    ] {
        let id = launched(&lab, state).await;
        lab.failures.0.lock().unwrap().clear();
        lab.region.send_message(&change(&id, state));
        queue.round(&lab.parts).await.unwrap();
        assert_eq!(is_deleting(&lab, state).await, kind != "no_op", "{state}");
        assert!(lab.failures.0.lock().unwrap().contains(&format!("received {kind}")), "{state}");
    }
    let planned = |ids: &[&str], service: &str, category: &str| {
        let entities: Vec<_> = ids.iter().map(|id| json!({"entityValue": id})).collect();
        let detail = json!({"service": service, "eventTypeCategory": category, "affectedEntities": entities});
        event("aws.health", "AWS Health Event", detail)
    };
    let (one, two) = (launched(&lab, "one").await, launched(&lab, "two").await);
    for (service, category) in [("RDS", "scheduledChange"), ("EC2", "issue"), ("EC2", "accountNotification")] {
        lab.region.send_message(&planned(&[&one, &two], service, category));
        queue.round(&lab.parts).await.unwrap();
        assert!(!is_deleting(&lab, "one").await && !is_deleting(&lab, "two").await, "{service} {category}");
    }
    lab.region.send_message(&planned(&[&one, "i-somebody-elses", &two], "EC2", "scheduledChange"));
    queue.round(&lab.parts).await.unwrap();
    assert!(is_deleting(&lab, "one").await && is_deleting(&lab, "two").await, "one event names both");
    assert_eq!(lab.region.queue_length(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_reservation_takes_nothing_more() {
    // covers: API-IQ-15, AWS-INT-14
    let reservation = CapacityReservation {
        id: "cr-1".into(),
        zone: "us-east-1a".into(),
        instance_type: "m5.large".into(),
        instance_match_criteria: "targeted".into(),
        owner_id: "111122223333".into(),
        reservation_type: "default".into(),
        interruptible: true,
        available: 5,
        end: None,
        tags: Default::default(),
    };
    let lab = Lab::new(karpenter_aws_sim::Options { reservations: vec![reservation], ..quiet(1) }).await;
    let mut spec = default_spec();
    spec["capacityReservationSelectorTerms"] = json!([{"id": "cr-1"}]);
    lab.ready_with(spec).await;
    let ask = claim("one", &[(CAPACITY, "In", &["reserved"]), (TYPE, "In", &["m5.large"])]);
    let id = launched_as(&lab, ask).await;
    let free = || lab.parts.reservations.free("cr-1", (lab.now)());
    assert!(free() > 0);
    lab.region.warn(&id, Warning::CapacityReservation);
    Interruption::new("simulated").round(&lab.parts).await.unwrap();
    assert!(is_deleting(&lab, "one").await);
    assert_eq!(free(), 0);
}
