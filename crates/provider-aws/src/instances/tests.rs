use futures_util::future::join_all;

use super::*;
use crate::testing::{Fake, instance};

fn lab(ids: &[&str]) -> (Arc<Fake>, Instances) {
    let fake = Arc::new(Fake::default());
    *fake.instances.lock().unwrap() = ids.iter().map(|id| instance(id)).collect();
    (fake.clone(), instances(&fake, &[]))
}

fn instances(fake: &Arc<Fake>, shifted: &'static [&'static str]) -> Instances {
    let shifted: Shifted = Arc::new(|| shifted.iter().map(|zone| (*zone).to_owned()).collect());
    Instances::new(fake.aws(), "here", shifted, [Arc::new(|_, _| {}), Arc::new(|_, _| {})])
}

#[tokio::test(start_paused = true)]
async fn reads_join_and_one_unknown_id_spoils_nothing() {
    // covers: AWS-BATCH-04, AWS-BATCH-06, AWS-CP-20
    let (fake, instances) = lab(&["i-1", "i-2"]);
    let ask = ["i-1", "i-2", "i-1", "i-9"];
    let answers = join_all(ask.map(|id| instances.get(id, Look::Fresh))).await;
    let found: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map(|instance| instance.id.as_str()).ok()).collect();
    assert_eq!(found, [Some("i-1"), Some("i-2"), Some("i-1"), None]);
    assert!(answers[3].as_ref().unwrap_err().is_not_found());
    let asked = fake.asked();
    assert_eq!(asked[0], "DescribeInstances [\"i-1\", \"i-2\", \"i-9\"] 1", "with the state filter");
    assert_eq!(asked.len(), 4, "after the error, one by one");
    instances.get("i-1", Look::Cached).await.unwrap();
    assert!(fake.asked().is_empty());
    instances.get("i-1", Look::Fresh).await.unwrap();
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn terminations_join_and_stragglers_are_asked_alone() {
    // covers: AWS-BATCH-05, AWS-ERR-09
    let (fake, instances) = lab(&["i-1", "i-2", "i-3"]);
    fake.stubborn.lock().unwrap().push("i-2".to_owned());
    let answers = join_all(["i-1", "i-2", "i-3"].map(|id| instances.terminate(id))).await;
    assert!(answers.iter().all(Result::is_ok));
    let want = ["TerminateInstances [\"i-1\", \"i-2\", \"i-3\"]", "TerminateInstances [\"i-2\"]"];
    assert_eq!(fake.asked(), want);
    let gone = instances.terminate("i-9").await.unwrap_err();
    assert!(gone.is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_not_answer_is_asked_once_for_all() {
    let (fake, instances) = lab(&["i-1", "i-2", "i-3"]);
    let ids = ["i-1", "i-2", "i-3"];
    let silent = AwsError { server_fault: true, ..AwsError::new("Any", "RequestTimeout", "no answer in 60 s") };
    let busy = AwsError::new("Any", "RequestLimitExceeded", "slow down");
    for error in [silent, busy] {
        *fake.outage.lock().unwrap() = Some(error.clone());
        let found = join_all(ids.map(|id| instances.get(id, Look::Fresh))).await;
        assert!(found.iter().all(|answer| answer.as_ref() == Err(&error)), "{found:?}");
        assert_eq!(fake.asked().len(), 1, "one time-out, not one after another for every machine");
        let ended = join_all(ids.map(|id| instances.terminate(id))).await;
        assert!(ended.iter().all(|answer| answer.as_ref() == Err(&error)), "{ended:?}");
        assert_eq!(fake.asked().len(), 1);
    }
    // What may be about a single one of them is.
    *fake.outage.lock().unwrap() = Some(AwsError::new("TerminateInstances", "OperationNotPermitted", "protected"));
    join_all(ids.map(|id| instances.terminate(id))).await;
    assert_eq!(fake.asked().len(), 4);
}

#[test]
fn provider_ids_have_a_zone_and_an_id() {
    // covers: AWS-CP-13
    for (text, want) in [
        ("aws:///us-east-1a/i-1", Some("i-1")),
        ("kwok-aws:///us-east-1a/i-1", Some("i-1")),
        ("aws:///us-east-1a", None),
        ("aws:///us-east-1a/", None),
        ("aws:////i-1", None),
        ("aws://us-east-1a/i-1", None),
        ("aws:///a/b/c", None),
        ("", None),
    ] {
        assert_eq!(instance_id(text), want, "{text}");
    }
}

#[test]
fn what_was_bought_can_be_told() {
    // covers: AWS-CP-22
    let plain = instance("i-1");
    let spot = Instance { spot_request_id: Some("sir-1".into()), ..plain.clone() };
    let open = Instance { capacity_reservation_id: Some("cr-1".into()), ..plain.clone() };
    let only = Instance { reservation_preference: Some("capacity-reservations-only".into()), ..open.clone() };
    let young = Instance { lifecycle: Some("spot".into()), ..plain.clone() };
    let told = [&plain, &spot, &young, &open, &only].map(|instance| capacity_type(instance, true));
    assert_eq!(told, ["on-demand", "spot", "spot", "on-demand", "reserved"]);
    assert_eq!(capacity_type(&only, false), "on-demand");
}

#[tokio::test(start_paused = true)]
async fn machines_of_a_shifted_zone_are_left_alone() {
    // covers: AWS-ZS-05, AWS-ZS-06
    let fake = Arc::new(Fake::default());
    let within = |id: &str, zone: &str| Instance { zone_id: Some(zone.to_owned()), ..instance(id) };
    *fake.instances.lock().unwrap() = vec![within("i-sick", "use1-az1"), within("i-well", "use1-az2")];
    let instances = instances(&fake, &["use1-az1"]);
    instances.list().await.unwrap();
    fake.asked();
    assert_eq!(instances.get("i-sick", Look::Fresh).await.unwrap().id, "i-sick");
    assert!(instances.terminate("i-sick").await.unwrap_err().is_zone_shifted());
    assert!(instances.tag("i-sick", &Tags::default()).await.unwrap_err().is_zone_shifted());
    assert!(fake.asked().is_empty(), "nothing was asked");
    instances.get("i-well", Look::Fresh).await.unwrap();
    instances.terminate("i-well").await.unwrap();
    assert_eq!(fake.asked().len(), 2);
    fake.instances.lock().unwrap().clear();
    let listed = instances.list().await.unwrap();
    assert_eq!(listed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["i-sick"], "not seen is not gone there");
    assert!(instances.get("i-well", Look::Cached).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_a_fleet_told_is_not_asked_for_again() {
    // covers: AWS-CP-20
    let (fake, instances) = lab(&[]);
    instances.launched(&instance("i-new"));
    assert_eq!(instances.get("i-new", Look::Cached).await.unwrap().id, "i-new");
    assert!(instances.list().await.unwrap().is_empty(), "EC2 does not list it yet");
    fake.asked();
    assert!(instances.get("i-new", Look::Cached).await.is_ok(), "which does not mean that it is gone");
    assert!(fake.asked().is_empty());
    tokio::time::sleep(LAG).await;
    instances.list().await.unwrap();
    assert!(instances.get("i-new", Look::Cached).await.unwrap_err().is_not_found(), "after a while it does");
    instances.launched(&instance("i-short"));
    assert!(instances.get("i-short", Look::Fresh).await.is_ok(), "whoever is to end it must not think it gone");
    fake.instances.lock().unwrap().push(instance("i-short"));
    instances.get("i-short", Look::Fresh).await.unwrap();
    fake.instances.lock().unwrap().clear();
    assert!(instances.get("i-short", Look::Fresh).await.unwrap_err().is_not_found(), "once seen, gone is gone");
}
