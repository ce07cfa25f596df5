//! What is not seen is not destroyed: watches that went silent, and a server that does not answer.

use std::time::Duration;

use karpenter_api::labels;
use serde_json::{Value, json};

use crate::objects::{self, BUDGETS, CLAIMS, PODS};
use crate::scythe::When;
use crate::silence::Trouble;
use crate::stage::Stage;

/// A pod that somebody else than the scheduler put on a node.
fn bound(app: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": app, "namespace": "default", "labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.com/app:1"}]}})
}

async fn delete_claim(stage: &Stage, name: &str) {
    stage.delete(&format!("{CLAIMS}/{name}")).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_watch_did_not_tell_keeps_its_instance() {
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let node = stage.ready_node("one").await;
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    // The flow of the pods' watch is forgotten: for a while nothing shows that it is.
    stage.reads.suffer("/pods", Trouble::Forgotten);
    stage.create(PODS, bound("web", &node)).await;
    stage.runs("web", 1).await;
    delete_claim(&stage, "one").await;
    stage.pass(60).await;
    assert_eq!(stage.cloud.instances().len(), 1, "an empty node takes five seconds");
    stage.pass(600).await;
    assert_eq!(stage.running("web").await.len(), 1, "its budget forbids it");
    assert!(stage.node(&node).await.is_some() && stage.cloud.instances().len() == 1);
    stage.delete(&format!("{BUDGETS}/web")).await;
    stage.claim_is_gone("one", 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_nobody_can_read_keeps_its_instance() {
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let node = stage.ready_node("one").await;
    // The watch does not tell of it, and what the server answers is of a later Kubernetes, say.
    stage.reads.suffer("/pods", Trouble::Garbled);
    stage.create(PODS, bound("odd", &node)).await;
    stage.runs("odd", 1).await;
    delete_claim(&stage, "one").await;
    stage.pass(60).await;
    assert_eq!((stage.running("odd").await.len(), stage.cloud.instances().len()), (1, 1));
    assert!(stage.events("FailedDraining").await.iter().any(|(_, text)| text.contains("1 pods cannot be read")));
    stage.reads.recover();
    stage.claim_is_gone("one", 150).await;
}

#[tokio::test(start_paused = true)]
async fn what_no_drain_waits_for_is_not_waited_for_when_nobody_can_read_it() {
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let node = stage.ready_node("one").await;
    stage.reads.suffer("/pods", Trouble::Garbled);
    // A static pod, which goes with its node.
    let mut fixed = bound("fixed", &node);
    let uid = stage.node(&node).await.unwrap().metadata.uid;
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": true});
    fixed["metadata"]["ownerReferences"] = json!([owner]);
    stage.create(PODS, fixed).await;
    stage.runs("fixed", 1).await;
    delete_claim(&stage, "one").await;
    stage.claim_is_gone("one", 60).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_or_terminated_while_pods_cannot_be_seen() {
    let stage = Stage::new().await;
    for name in ["one", "two"] {
        stage.create(CLAIMS, objects::claim(name, json!({}))).await;
        stage.ready_node(name).await;
    }
    let node = stage.claim("one").await.unwrap().status.unwrap().node_name.unwrap();
    stage.create(PODS, bound("web", &node)).await;
    stage.runs("web", 1).await;
    stage.reads.suffer("/pods", Trouble::Unanswered);
    stage.pass(100).await;
    delete_claim(&stage, "one").await;
    delete_claim(&stage, "two").await;
    stage.pass(900).await;
    assert_eq!((stage.running("web").await.len(), stage.cloud.instances().len()), (1, 2));
    // covers: STATE-03
    assert!(!stage.context.is_synced(), "other decisions wait too");
    assert!(stage.context.hung().is_empty(), "waiting is not hanging: {:?}", stage.context.hung());
    stage.reads.recover();
    let back = stage.claim_is_gone("one", 90).await;
    stage.claim_is_gone("two", 1).await;
    assert!(back <= 90.0 && stage.context.is_synced());
}

#[tokio::test(start_paused = true)]
async fn claims_that_were_not_heard_of_lately_are_not_deleted() {
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({"expireAfter": "300s"}))).await;
    stage.ready_node("one").await;
    stage.reads.suffer("/nodeclaims", Trouble::Unanswered);
    stage.pass(1_200).await;
    let claim = stage.claim("one").await.unwrap();
    assert!(claim.metadata.deletion_timestamp.is_none(), "it may have been replaced by now");
    stage.reads.recover();
    stage.claim_is_gone("one", 90).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_no_leak_while_claims_cannot_be_seen() {
    let stage = Stage::new().await;
    stage.pass(5).await;
    stage.reads.suffer("/nodeclaims", Trouble::Unanswered);
    stage.pass(100).await;
    let machine = stage.cloud.plant("somebody");
    stage.pass(900).await;
    assert_eq!(stage.cloud.instances(), [machine], "a claim that we have not heard of may hold it");
    stage.reads.recover();
    stage.until("the leak is found", 150, || async { stage.cloud.instances().is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_watch_did_not_tell_keeps_its_machine() {
    for readable in [true, false] {
        let stage = Stage::new().await;
        stage.pass(5).await;
        // For a minute nothing shows that the flow of the claims' watch is forgotten.
        stage.reads.suffer("/nodeclaims", Trouble::Forgotten);
        let machine = stage.cloud.plant("somebody");
        if !readable {
            stage.scythe.garble("\"expireAfter\":\"Never\"", "\"expireAfter\":7");
        }
        // Somebody else writes: the leader until a moment ago, say.
        stage.create(CLAIMS, objects::claim("theirs", json!({}))).await;
        let launched = json!({"type": "Launched", "status": "True", "reason": "Launched", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
        let status = json!({"status": {"providerID": machine, "conditions": [launched]}});
        stage.patch(&format!("{CLAIMS}/theirs/status"), status).await;
        stage.pass(30).await;
        assert!(stage.context.index.node_claim("theirs").is_none(), "the watch does not tell");
        stage.pass(25).await;
        assert_eq!(stage.cloud.instances(), std::slice::from_ref(&machine), "readable: {readable}");
        stage.pass(300).await;
        assert_eq!(stage.cloud.instances(), [machine], "readable: {readable}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_was_cut_short_is_adopted_after_a_long_pause() {
    let mut stage = Stage::new().await;
    // The machine is there, and the process dies before anybody can write that down.
    stage.scythe.arm(When::After, |effect| effect.has(&["cloud create one"]));
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let scythe = stage.scythe.clone();
    stage.until("it dies", 30, || async { scythe.is_dead() }).await;
    stage.kill();
    stage.pass(90).await;
    let launched = stage.cloud.instances();
    assert_eq!(launched.len(), 1);
    // The first sweeps come while the same launch is asked for again.
    stage.cloud.plan(|plan| plan.launch = Duration::from_secs(25));
    stage.start();
    stage.ready_node("one").await;
    let id = stage.claim("one").await.unwrap().status.unwrap().provider_id.unwrap();
    assert_eq!((vec![id], stage.cloud.instances()), (launched.clone(), launched), "no sweep took it away");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_watch_did_not_tell_is_drained_first() {
    let mut stage = Stage::new().await;
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let node = stage.ready_node("one").await;
    stage.create(PODS, bound("web", &node)).await;
    stage.runs("web", 1).await;
    stage.reads.suffer("/nodes", Trouble::Incomplete);
    stage.kill();
    stage.start();
    stage.pass(5).await;
    assert!(stage.context.index.node(&node).is_none(), "a list left it out");
    delete_claim(&stage, "one").await;
    stage.pass(300).await;
    assert_eq!((stage.running("web").await.len(), stage.cloud.instances().len()), (1, 1));
    assert!(stage.node(&node).await.unwrap().metadata.labels.unwrap().contains_key(labels::REGISTERED));
}
