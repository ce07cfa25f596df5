//! Objects that cannot be read: each keeps what it may hold, and people are told.

use karpenter_api::labels;
use serde_json::json;

use crate::objects::{self, BUDGETS, CLAIMS, DEPLOYMENTS, NODES, PODS};
use crate::stage::Stage;

/// A claim like no other, so that its text can be garbled.
const ODD: (&str, &str) = (r#""expireAfter":"719h""#, r#""expireAfter":719"#);

/// Changes something, so that the watch tells of the object again.
async fn touch(stage: &Stage, path: &str) {
    let version = stage.get(path).await.unwrap()["metadata"]["resourceVersion"].clone();
    stage.patch(path, json!({"metadata": {"labels": {"touched": version}}})).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_read_at_the_start_holds_its_instance_and_its_node() {
    let mut stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({"expireAfter": "719h"}))).await;
    let node = stage.ready_node("one").await;
    stage.create(DEPLOYMENTS, objects::deployment("web", 2, json!({}), json!({}))).await;
    stage.runs("web", 2).await;
    let before = stage.running("web").await;
    stage.kill();
    stage.scythe.garble(ODD.0, ODD.1);
    let planted = stage.cloud.plant("nobody's");
    stage.start();
    stage.pass(600).await;
    let instances = stage.cloud.instances();
    assert_eq!(instances.len(), 1, "its own instance is not swept");
    assert!(!instances.contains(&planted), "another that nobody holds is");
    let told = stage.events("Unreadable").await;
    assert!(told.iter().any(|(object, why)| object == "NodeClaim/one" && why.contains("integer `719`")), "{told:?}");
    let gauge = "karpenter_cluster_state_unreadable_objects";
    assert_eq!(stage.metric(gauge, r#"kind="NodeClaim""#), 1.0);
    // Somebody deletes the Node: what its drain may do is written in the claim.
    stage.delete(&format!("{NODES}/{node}")).await;
    stage.pass(300).await;
    assert_eq!(stage.running("web").await, before, "nobody was asked to leave");
    assert!(stage.node(&node).await.is_some());
    let told = stage.events("FailedDraining").await;
    assert!(told.iter().any(|(_, why)| why.contains("NodeClaim one cannot be read")), "{told:?}");
    // It can be read again, and everything goes its way.
    stage.scythe.clear();
    touch(&stage, &format!("{CLAIMS}/one")).await;
    stage.claim_is_gone("one", 120).await;
    assert!(stage.cloud.instances().is_empty());
    assert_eq!(stage.metric(gauge, r#"kind="NodeClaim""#), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_read_any_more_is_left_alone() {
    let stage = Stage::alone().await;
    let five_minutes = (r#""expireAfter":"5m""#, r#""expireAfter":5"#);
    stage.create(CLAIMS, objects::claim("one", json!({"expireAfter": "5m"}))).await;
    let node = stage.ready_node("one").await;
    stage.scythe.garble(five_minutes.0, five_minutes.1);
    touch(&stage, &format!("{CLAIMS}/one")).await;
    stage.pass(900).await;
    let alive = || async { stage.claim("one").await.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()) };
    assert!(alive().await, "it does not expire: by now it may say something else");
    assert!(stage.node(&node).await.is_some());
    // Its machine is lost, and its claim stays as long as nobody knows what it says.
    stage.lose_machine("one").await;
    stage.pass(900).await;
    assert!(alive().await);
    stage.scythe.clear();
    touch(&stage, &format!("{CLAIMS}/one")).await;
    stage.claim_is_gone("one", 300).await;
}

/// A pod whose JSON no type takes, and one that asks for an amount that is none.
const NO_POD: (&str, &str) = (r#""terminationGracePeriodSeconds":33"#, r#""terminationGracePeriodSeconds":"x33""#);
const NO_AMOUNT: (&str, &str) = (r#""cpu":"123m""#, r#""cpu":"plenty""#);

/// A node with both, and a new process that cannot read them.
async fn with_unreadable_pods(stage: &mut Stage, claim: serde_json::Value) -> String {
    stage.create(CLAIMS, claim).await;
    let node = stage.ready_node("one").await;
    stage
        .create(DEPLOYMENTS, objects::deployment("odd", 1, json!({}), json!({"terminationGracePeriodSeconds": 33})))
        .await;
    let sized = json!({"containers": [{"name": "main", "image": "example.com/app:1",
        "resources": {"requests": {"cpu": "123m"}}}]});
    stage.create(DEPLOYMENTS, objects::deployment("sized", 1, json!({}), sized)).await;
    stage.runs("odd", 1).await;
    stage.runs("sized", 1).await;
    stage.kill();
    stage.scythe.garble(NO_POD.0, NO_POD.1);
    stage.scythe.garble(NO_AMOUNT.0, NO_AMOUNT.1);
    stage.start();
    stage.pass(5).await;
    node
}

/// Each pod was evicted before the cloud was asked to stop the machine.
fn evicted_first(stage: &Stage, app: &str) -> bool {
    let effects = stage.scythe.done();
    let evicted = effects.iter().position(|effect| effect.has(&["POST", &format!("/pods/{app}"), "/eviction"]));
    let stopped = effects.iter().position(|effect| effect.has(&["cloud delete"]));
    evicted.zip(stopped).is_some_and(|(evicted, stopped)| evicted < stopped)
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_read_are_drained_like_others() {
    let mut stage = Stage::new().await;
    for app in ["odd", "sized"] {
        stage.create(BUDGETS, objects::budget(app, 0)).await;
    }
    with_unreadable_pods(&mut stage, objects::claim("one", json!({}))).await;
    assert_eq!(stage.metric("karpenter_cluster_state_unreadable_objects", r#"kind="Pod""#), 2.0);
    let told = stage.events("Unreadable").await;
    for field in ["spec.terminationGracePeriodSeconds", "requests.cpu"] {
        assert!(
            told.iter().any(|(object, why)| object.starts_with("Pod/") && why.contains(field)),
            "{field}: {told:?}"
        );
    }
    stage.delete(&format!("{CLAIMS}/one")).await;
    stage.pass(600).await;
    assert_eq!(stage.cloud.instances().len(), 1, "their budgets hold the drain open");
    assert_eq!((stage.running("odd").await.len(), stage.running("sized").await.len()), (1, 1));
    stage.delete(&format!("{BUDGETS}/odd")).await;
    stage.pass(300).await;
    assert_eq!(stage.cloud.instances().len(), 1, "one of them still does");
    assert_eq!(stage.running("sized").await.len(), 1);
    stage.delete(&format!("{BUDGETS}/sized")).await;
    stage.claim_is_gone("one", 120).await;
    assert!(evicted_first(&stage, "odd") && evicted_first(&stage, "sized"));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_drain_of_pods_that_cannot_be_read() {
    let mut stage = Stage::new().await;
    stage.create(BUDGETS, objects::budget("odd", 0)).await;
    with_unreadable_pods(&mut stage, objects::claim("one", json!({"terminationGracePeriod": "3m"}))).await;
    stage.delete(&format!("{CLAIMS}/one")).await;
    stage.pass(100).await;
    assert_eq!(stage.running("odd").await.len(), 1, "not before its time");
    let took = stage.claim_is_gone("one", 180).await;
    assert!(took < 150.0, "{took}");
    let forced = stage.scythe.done().iter().any(|effect| effect.has(&["DELETE", &format!("{PODS}/odd")]));
    assert!(forced, "it was given its last seconds");
}

/// A Node that no type takes.
const NO_NODE: (&str, &str) = (r#""value":"odd""#, r#""value":{"odd":1}"#);

async fn with_unreadable_node(stage: &mut Stage, spec: serde_json::Value) -> String {
    stage.create(CLAIMS, objects::claim("one", spec)).await;
    let node = stage.ready_node("one").await;
    stage.create(DEPLOYMENTS, objects::deployment("web", 1, json!({}), json!({}))).await;
    stage.runs("web", 1).await;
    stage.kill();
    let taint = json!({"key": "example.com/odd", "value": "odd", "effect": "PreferNoSchedule"});
    stage.patch(&format!("{NODES}/{node}"), json!({"spec": {"taints": [taint]}})).await;
    stage.scythe.garble(NO_NODE.0, NO_NODE.1);
    stage.start();
    stage.pass(5).await;
    node
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_node_that_cannot_be_read_keep_its_instance() {
    let mut stage = Stage::new().await;
    let node = with_unreadable_node(&mut stage, json!({})).await;
    stage.delete(&format!("{CLAIMS}/one")).await;
    stage.pass(1_200).await;
    assert_eq!(stage.cloud.instances().len(), 1, "nobody drained it");
    assert_eq!(stage.running("web").await.len(), 1);
    let told = stage.events("Unreadable").await;
    assert!(told.iter().any(|(object, _)| *object == format!("Node/{node}")), "{told:?}");
    stage.scythe.clear();
    touch(&stage, &format!("{NODES}/{node}")).await;
    stage.claim_is_gone("one", 120).await;
    assert!(evicted_first(&stage, "web"));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_for_a_node_that_cannot_be_read() {
    let mut stage = Stage::new().await;
    with_unreadable_node(&mut stage, json!({"terminationGracePeriod": "10m"})).await;
    stage.delete(&format!("{CLAIMS}/one")).await;
    stage.pass(570).await;
    assert_eq!(stage.cloud.instances().len(), 1);
    assert_eq!(stage.running("web").await.len(), 1);
    stage.claim_is_gone("one", 90).await;
    assert!(stage.cloud.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_cannot_be_read_is_not_given_up() {
    let mut stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    // The Node comes, and nobody registers it: from the first moment on it makes no sense.
    stage.scythe.garble(labels::UNREGISTERED_TAINT, "\",\"value\":{},\"x\":\"");
    stage.pass(1_800).await;
    let claim = stage.claim("one").await.expect("it may have registered");
    assert!(claim.metadata.deletion_timestamp.is_none());
    stage.kill();
    stage.scythe.clear();
    stage.start();
    stage.ready_node("one").await;
}
