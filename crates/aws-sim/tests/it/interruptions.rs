//! Interruptions, from the message to the deleted claim.

use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_aws_sim::{Script, Target, Warning};
use karpenter_provider::CloudProvider;
use karpenter_provider_aws::interruption::Interruption;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::lab::{CAPACITY, Lab, TYPE, claim, quiet};

/// A stored claim with its instance; the instance's id.
async fn launched(lab: &Lab, name: &str) -> String {
    let ask = claim(name, &[(CAPACITY, "In", &["spot"]), (TYPE, "In", &["m5.large"])]);
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
    // covers: AWS-INT-01, AWS-INT-08, AWS-INT-11, AWS-INT-12, AWS-INT-13
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
        queue.round(&lab.parts, &lab.client).await.unwrap();
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
    Interruption::new("simulated").round(&lab.parts, &lab.client).await.unwrap();
    let left = available(&lab.provider.instance_types(&pool).await.unwrap());
    assert!(!left.contains(&zone) && left.len() == 2, "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn foreign_and_broken_messages_hold_nobody_up() {
    // covers: AWS-INT-06, AWS-INT-07, AWS-INT-08, AWS-INT-10
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let id = launched(&lab, "one").await;
    for body in ["", "not json", "{}", "{\"version\": \"0\", \"source\": \"aws.s3\", \"detail-type\": \"x\"}"] {
        lab.region.send_message(body);
    }
    lab.region.warn("i-somebody-elses", Warning::SpotInterruption);
    lab.region.warn(&id, Warning::SpotInterruption);
    let queue = Interruption::new("simulated");
    queue.round(&lab.parts, &lab.client).await.unwrap();
    assert!(is_deleting(&lab, "one").await);
    assert_eq!(lab.region.queue_length(), 0);
    // A second message about a claim that is going already changes nothing.
    lab.region.warn(&id, Warning::Terminated);
    queue.round(&lab.parts, &lab.client).await.unwrap();
    assert_eq!(lab.region.queue_length(), 0);
    let patch = json!({"metadata": {"finalizers": null}});
    let claims = Api::<NodeClaim>::all(lab.client.clone());
    claims.patch("one", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    lab.region.warn(&id, Warning::Terminated);
    queue.round(&lab.parts, &lab.client).await.unwrap();
    assert_eq!(lab.region.queue_length(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_handled_comes_again() {
    // covers: AWS-INT-08, AWS-INT-15
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let id = launched(&lab, "one").await;
    assert!(Interruption::new("other").round(&lab.parts, &lab.client).await.is_err(), "there is no such queue");
    let queue = Interruption::new("simulated");
    lab.region.warn(&id, Warning::SpotInterruption);
    lab.region.script(Script::new(Target::Call { operation: "DeleteMessage", server_fault: true }, "InternalError", 1));
    assert!(queue.round(&lab.parts, &lab.client).await.is_err());
    assert_eq!(lab.region.queue_length(), 1);
    tokio::time::sleep(Duration::from_secs(21)).await;
    queue.round(&lab.parts, &lab.client).await.unwrap();
    assert_eq!(lab.region.queue_length(), 0);
}
